"""Every measure in plain words: a title for tables, a sentence for newcomers, and where its evidence is."""

from dataclasses import dataclass

from evaluate.audit_result import MEASURE as AUDITED


@dataclass(frozen=True)
class GlossaryEntry:
    """The title of a measure and a sentence on it.

    Attributes:
        title: a few words, for tables.
        sentence: what it says, for somebody who has never met it.
    """

    title: str
    sentence: str


GLOSSARY = {
    "validity.rows": GlossaryEntry("Valid rows", "Share of synthetic rows that keep every rule of the schema."),
    "validity.column": GlossaryEntry("Valid values", "Share of values of a column that keep every rule of the schema."),
    "validity.constraint": GlossaryEntry(
        "Lawful rows", "Share of synthetic rows that keep a constraint between columns."
    ),
    "columns.ks": GlossaryEntry(
        "KS distance", "Largest gap between the two cumulative curves of a numeric column; 0 is the same."
    ),
    "columns.ks.mean": GlossaryEntry(
        "KS distance, mean", "The Kolmogorov-Smirnov distance, averaged over numeric columns."
    ),
    "columns.ks.excess": GlossaryEntry(
        "KS distance beyond noise", "KS distance minus that of a fresh real sample; 0 is as good as real."
    ),
    "columns.wasserstein": GlossaryEntry(
        "Wasserstein distance", "How far values of a numeric column have moved on average, in its standard deviations."
    ),
    "columns.wasserstein.mean": GlossaryEntry("Wasserstein distance, mean", "The same, averaged over numeric columns."),
    "columns.wasserstein.excess": GlossaryEntry(
        "Wasserstein distance beyond noise", "Wasserstein distance minus that of a fresh real sample."
    ),
    "columns.chi2": GlossaryEntry(
        "Chi-square effect", "How strongly counts of categories differ, as Cramer's V; 0 is not at all."
    ),
    "columns.chi2.excess": GlossaryEntry(
        "Chi-square effect beyond noise", "Chi-square effect minus that of a fresh real sample; 0 is as good as real."
    ),
    "columns.missing": GlossaryEntry("Missing values", "Difference in the share of missing values of a column."),
    "columns.tvd": GlossaryEntry("Column distance", "Total variation: share of rows in the wrong place of one column."),
    "columns.tvd.mean": GlossaryEntry(
        "Column distance, mean", "Total variation averaged over columns: the share of rows that one would have to move."
    ),
    "columns.tvd.excess": GlossaryEntry(
        "Column distance beyond noise", "Mean column distance minus that of a fresh real sample; 0 is as good as real."
    ),
    "columns.tvd.excess.worst": GlossaryEntry(
        "Worst column", "The largest column distance beyond that of a fresh real sample, and the column it belongs to."
    ),
    "columns.tail": GlossaryEntry(
        "Tail",
        "Share of synthetic values below the lowest 0.1% or above the highest 0.1% of the real ones (at least three "
        "values at either end).",
    ),
    "columns.tail.excess": GlossaryEntry(
        "Tail beyond real", "Share of values further out than nearly all real ones, minus the share of real rows there."
    ),
    "columns.tail.excess.mean": GlossaryEntry(
        "Tails, mean",
        "Share of values further out than nearly all real ones, minus real rows' share, averaged over columns.",
    ),
    "columns.tail.excess.worst": GlossaryEntry(
        "Worst tail", "The largest excess of a tail, and the column it belongs to."
    ),
    "columns.mean": GlossaryEntry(
        "Mean, difference", "Difference of the means of a column, whichever way, in real standard deviations."
    ),
    "columns.mean.worst": GlossaryEntry("Worst mean", "The largest difference of means, and the column it belongs to."),
    "columns.std": GlossaryEntry(
        "Standard deviation, log ratio",
        "Logarithm of the ratio of standard deviations, whichever way: 0 is equal, 0.69 twice or half as wide.",
    ),
    "columns.std.worst": GlossaryEntry(
        "Worst standard deviation", "The largest log ratio of standard deviations, and the column it belongs to."
    ),
    "columns.spikes.kept": GlossaryEntry(
        "Frequent values kept",
        "Share of synthetic rows with one of the real column's frequent exact values, over that of real rows.",
    ),
    "columns.spikes.kept.worst": GlossaryEntry(
        "Frequent values kept, worst",
        "In the worst column: the share of rows with a frequent exact value, over that of real rows; 1 is all kept.",
    ),
    "columns.lattice.kept": GlossaryEntry(
        "Steps kept",
        "Share of synthetic values on the step that most real ones are a multiple of, over that of real ones; 1 is all "
        "kept.",
    ),
    "columns.lattice.kept.worst": GlossaryEntry(
        "Steps kept, worst",
        "In the worst column: the share of values on its usual step, over that of real ones; 1 is all kept.",
    ),
    "pairs.pearson.excess.worst": GlossaryEntry(
        "Largest correlation error",
        "The largest difference of Pearson's correlation from the real one, beyond noise, divided by two; and its "
        "columns.",
    ),
    "pairs.dependence.floor_share": GlossaryEntry(
        "Relations lost or made up",
        "0 is as close to the relations of the real columns as a fresh real sample, 1 as far as columns shuffled "
        "independently. Above 1, relations are made up that the real table does not have.",
    ),
    "pairs.dependence.floor_share.worst": GlossaryEntry(
        "Relations lost or made up, worst column",
        "For the column whose relations are furthest off: 0 is as good as real, 1 a column that was shuffled, more is "
        "made up.",
    ),
    "pairs.pearson.mean": GlossaryEntry(
        "Correlations, mean error", "Mean difference of Pearson's correlation over pairs of numeric columns."
    ),
    "pairs.cramers_v.mean": GlossaryEntry(
        "Cramer's V, mean error", "Mean difference of Cramer's V over pairs of categorical columns."
    ),
    "pairs.correlation_ratio.mean": GlossaryEntry(
        "Correlation ratio, mean error", "Mean difference of the correlation ratio over mixed pairs of columns."
    ),
    "pairs.spearman.mean": GlossaryEntry(
        "Rank correlations, mean error", "Mean difference of Spearman's correlation over pairs of numeric columns."
    ),
    **{
        f"pairs.{kind}.excess": GlossaryEntry(f"{title} beyond noise", "The same, minus that of a fresh real sample.")
        for kind, title in (
            ("pearson", "Correlations, error"),
            ("spearman", "Rank correlations, error"),
            ("cramers_v", "Cramer's V, error"),
            ("correlation_ratio", "Correlation ratio, error"),
            ("association", "Associations, error"),
        )
    },
    "pairs.association.mean": GlossaryEntry(
        "Associations, mean error", "Mean difference in how strongly two columns hang together, over all pairs."
    ),
    "pairs.association.kept": GlossaryEntry(
        "Associations kept",
        "How much of the associations between columns is there: 1 is as in the real table, 0 is none, as in shuffled "
        "columns; above 1 is not better, but more than there is in the real table.",
    ),
    "pairs.tvd": GlossaryEntry("Pair distance", "Total variation of two columns taken together."),
    "pairs.tvd.mean": GlossaryEntry(
        "Pair distance, mean", "Total variation of two columns together, averaged over all pairs."
    ),
    "pairs.tvd.excess": GlossaryEntry(
        "Pair distance beyond noise", "Mean pair distance minus that of a fresh real sample."
    ),
    "pairs.tvd.excess.worst": GlossaryEntry(
        "Worst pair", "The largest pair distance beyond that of a fresh real sample, and the columns it belongs to."
    ),
    "pairs.tvd.floor_share": GlossaryEntry(
        "Pair structure lost",
        "0 is as close to the real table as a fresh real sample, 1 as far as its own columns shuffled independently; "
        "above 1 is farther still, mostly because single columns are off too.",
    ),
    "pairs.tvd.floor_excess": GlossaryEntry(
        "Pair distance beyond shuffled columns",
        "Mean pair distance minus that of the real table's own columns shuffled independently; a table that holds any "
        "relation is below 0.",
    ),
    "triples.tvd": GlossaryEntry("Triple distance", "Total variation of three columns taken together."),
    "triples.tvd.mean": GlossaryEntry(
        "Triple distance, mean", "Total variation of three columns together, over all triples."
    ),
    "triples.tvd.excess": GlossaryEntry(
        "Triple distance beyond noise", "Mean triple distance minus a fresh real sample's."
    ),
    "triples.tvd.excess.worst": GlossaryEntry(
        "Worst triple", "The largest triple distance beyond that of a fresh real sample, and the columns it belongs to."
    ),
    "triples.tvd.floor_share": GlossaryEntry(
        "Triple structure lost",
        "0 is as close to the real table as a fresh real sample, 1 as far as its own columns shuffled independently; "
        "above 1 is farther still, mostly because single columns are off too.",
    ),
    "joint.c2st.auc": GlossaryEntry(
        "Told from real rows, AUC",
        "How well gradient boosting tells synthetic rows from held-out ones by their values, digits included (C2ST); "
        "0.5 is a coin.",
    ),
    "joint.c2st.excess": GlossaryEntry(
        "Told from real rows beyond noise", "The same AUC minus that of training rows against held-out ones."
    ),
    "joint.pmse.ratio": GlossaryEntry(
        "Propensity ratio",
        "How far propensity scores are from a coin's, over what chance gives (pMSE ratio); 1 is as real.",
    ),
    "joint.pmse.excess": GlossaryEntry(
        "Propensity error beyond noise",
        "Mean squared error of propensity scores minus what chance gives; at most 0.25.",
    ),
    "joint.alpha_precision": GlossaryEntry(
        "Alpha-precision",
        "Whether as many synthetic as real rows lie in the typical part of the real table; 1 is best.",
    ),
    "joint.alpha_precision.gap": GlossaryEntry(
        "Alpha-precision lost", "A fresh real sample's alpha-precision, minus this one."
    ),
    "joint.beta_recall": GlossaryEntry(
        "Beta-recall", "Whether synthetic rows, from typical to odd ones, reach all of the real table; 1 is best."
    ),
    "joint.beta_recall.gap": GlossaryEntry("Beta-recall lost", "A fresh real sample's beta-recall, minus this one."),
    "joint.density": GlossaryEntry(
        "Density", "How densely synthetic rows lie where real rows lie; 1 is as dense as real ones."
    ),
    "joint.density.gap": GlossaryEntry("Density lost", "A fresh real sample's density, minus this one."),
    "joint.coverage": GlossaryEntry("Coverage", "Share of real rows with a synthetic row in their neighborhood."),
    "joint.coverage.gap": GlossaryEntry("Coverage lost", "A fresh real sample's coverage, minus this one."),
    "joint.authenticity": GlossaryEntry(
        "Authenticity",
        "Share of rows further from the nearest training row than that row is from its neighbor. It only describes.",
    ),
    "utility.tstr.linear": GlossaryEntry(
        "Linear model, trained on synthetic",
        "Score on real rows of a linear model that saw only synthetic ones (TSTR).",
    ),
    "utility.tstr.boosting": GlossaryEntry(
        "Boosting, trained on synthetic", "Score on real rows of gradient boosting that saw only synthetic ones (TSTR)."
    ),
    "utility.gap.linear": GlossaryEntry(
        "Linear model, loss", "What a linear model loses by training on synthetic rows."
    ),
    "utility.gap.boosting": GlossaryEntry(
        "Boosting, loss", "What gradient boosting loses by training on synthetic rows."
    ),
    "utility.tstr.linear.without": GlossaryEntry(
        "Linear model, target not given away",
        "Score on real rows of a linear model trained on synthetic ones that does not see columns which alone predict "
        "the target.",
    ),
    "utility.tstr.boosting.without": GlossaryEntry(
        "Boosting, target not given away",
        "Score on real rows of gradient boosting trained on synthetic ones that does not see columns which alone "
        "predict the target.",
    ),
    "utility.gap.linear.without": GlossaryEntry(
        "Linear model, loss, target not given away",
        "What a linear model loses where no single column tells it the target.",
    ),
    "utility.gap.boosting.without": GlossaryEntry(
        "Boosting, loss, target not given away",
        "What gradient boosting loses where no single column tells it the target.",
    ),
    "utility.tstr.linear.uncut": GlossaryEntry(
        "Linear model, outliers as they are",
        "Score of a linear model trained on synthetic rows, with the target's outliers left in; a few rows decide it.",
    ),
    "utility.tstr.boosting.uncut": GlossaryEntry(
        "Boosting, outliers as they are",
        "Score of gradient boosting trained on synthetic rows, with the target's outliers left in; a few rows decide "
        "it.",
    ),
    "utility.gap.linear.uncut": GlossaryEntry(
        "Linear model, loss, outliers as they are", "What a linear model loses where no outlier is cut off."
    ),
    "utility.gap.boosting.uncut": GlossaryEntry(
        "Boosting, loss, outliers as they are", "What gradient boosting loses where no outlier is cut off."
    ),
    "utility.average_precision.linear": GlossaryEntry(
        "Linear model, average precision", "How well a linear model that saw only synthetic rows finds the rarer class."
    ),
    "utility.average_precision.boosting": GlossaryEntry(
        "Boosting, average precision", "How well gradient boosting that saw only synthetic rows finds the rarer class."
    ),
    "utility.importance.linear": GlossaryEntry(
        "Linear model, same columns matter",
        "Rank correlation of the importance of columns, between training on synthetic and on real rows; 1 is the same.",
    ),
    "utility.importance.boosting": GlossaryEntry("Boosting, same columns matter", "The same for gradient boosting."),
    "utility.queries": GlossaryEntry(
        "Random queries, mean error", "Mean relative error of 500 random counts and means that one might ask for."
    ),
    "utility.queries.median": GlossaryEntry(
        "Random queries, median error", "The error that half of these queries stay below."
    ),
    "utility.queries.excess": GlossaryEntry(
        "Random queries, error beyond noise", "Mean error minus that of a fresh real sample; 0 is as good as real."
    ),
    "utility.dp_alternative.score": GlossaryEntry(
        "Private model without a table", "Score of a model trained on the real rows by DP-SGD at the table's epsilon."
    ),
    "utility.dp_alternative.gap": GlossaryEntry(
        "Cost of going through a table",
        "That score minus the linear model's trained on synthetic rows; above 0, the table costs that much.",
    ),
    "fairness.gap.linear": GlossaryEntry(
        "Linear model, loss of the worst group", "What the group that loses most by it loses (TRTR - TSTR)."
    ),
    "fairness.gap.boosting": GlossaryEntry("Boosting, loss of the worst group", "The same for gradient boosting."),
    "fairness.parity.linear": GlossaryEntry(
        "Linear model, disparity added",
        "What synthetic rows add to the largest difference in predictions between two groups (demographic parity).",
    ),
    "fairness.parity.boosting": GlossaryEntry("Boosting, disparity added", "The same for gradient boosting."),
    "fairness.odds.linear": GlossaryEntry(
        "Linear model, unequal errors added",
        "What synthetic rows add to the largest difference in errors between two groups (equalized odds).",
    ),
    "fairness.odds.boosting": GlossaryEntry("Boosting, unequal errors added", "The same for gradient boosting."),
    "fairness.tvd.excess": GlossaryEntry(
        "Column distance in the worst group", "Mean column distance beyond noise, in the group where it is largest."
    ),
    "privacy.copies": GlossaryEntry(
        "Copies", "Share of synthetic rows equal to a training row; twins make some of them honest."
    ),
    "privacy.copies.people": GlossaryEntry(
        "People copied",
        "Share of training people whose row, which nobody else has, stands in the synthetic table beyond chance. How "
        "often held-out people's rows do shows chance.",
    ),
    "privacy.copies.values": GlossaryEntry(
        "People whose exact values are copied",
        "Share of training people who have a number or time to the last digit alone, and whose value stands in the "
        "table beyond chance.",
    ),
    "privacy.copies.parts": GlossaryEntry(
        "People of whom a part is copied",
        "Share of training people of whom a few columns together, which nobody else has, stand in the table beyond "
        "chance.",
    ),
    "privacy.copies.near": GlossaryEntry(
        "People copied with small changes",
        "Share of training people to whom a synthetic row lies many times nearer than the nearest held-out person, "
        "beyond chance.",
    ),
    "privacy.copies.excess": GlossaryEntry(
        "Copies beyond twins", "Copies minus the same share for a fresh real sample."
    ),
    "privacy.copies.unique": GlossaryEntry(
        "Copies of unique rows", "Share of synthetic rows equal to a training row that occurs once."
    ),
    "privacy.copies.unique.excess": GlossaryEntry(
        "Copies of unique rows beyond twins", "The same, minus the share for a fresh real sample."
    ),
    "privacy.multiset": GlossaryEntry(
        "Independence of row counts",
        "How far the counts of equal rows keep from the training table's: 1 as an independent sample, 0 an exact copy.",
    ),
    "privacy.personal": GlossaryEntry(
        "Real personal data",
        "Share of synthetic rows with a real e-mail, telephone, card number or the like, which chance does not repeat.",
    ),
    "privacy.personal.column": GlossaryEntry(
        "Real values of a personal column", "Share of values of a column of personal data that stand in training rows."
    ),
    "privacy.personal.holdout": GlossaryEntry(
        "Held-out values of a personal column", "The same for the holdout, which no generator saw: what chance gives."
    ),
    "privacy.personal.excess": GlossaryEntry(
        "Real values beyond chance", "Real values of a personal column, minus the share that a fresh draw gives."
    ),
    "privacy.dcr.median": GlossaryEntry(
        "Distance to closest record",
        "Median distance to the nearest training row (DCR). It describes; it finds no leak.",
    ),
    "privacy.nndr.median": GlossaryEntry(
        "Nearest-neighbor ratio",
        "Median ratio of the nearest to the second nearest distance (NNDR). It only describes.",
    ),
    "privacy.dcr.share_closer": GlossaryEntry(
        "Closer to training rows", "Share of synthetic rows nearer to a training row than to a held-out one."
    ),
    "privacy.membership.auc": GlossaryEntry(
        "Membership attack, AUC",
        "How well an attacker tells members of the training table from outsiders; 0.5 is a coin.",
    ),
    "privacy.membership.tpr_at_0.01": GlossaryEntry(
        "Members found at 1% false alarms", "Members the attacker finds while accusing 1 outsider in 100; chance is 1%."
    ),
    "privacy.membership.tpr_at_0.001": GlossaryEntry(
        "Members found at 0.1% false alarms", "The same while accusing 1 outsider in 1,000; chance is 0.1%."
    ),
    "privacy.vulnerable.isolated.auc": GlossaryEntry(
        "Membership of isolated people, AUC",
        "The membership attack on the people who are most isolated: a twentieth to a tenth of those attacked.",
    ),
    "privacy.vulnerable.isolated.tpr_at_0.01": GlossaryEntry(
        "Isolated members found at 1% false alarms", "Members among them that are found; chance is 1%."
    ),
    "privacy.vulnerable.rare.auc": GlossaryEntry(
        "Membership of people with rare values, AUC",
        "The membership attack on the people whose values are rarest: a twentieth to a tenth of those attacked.",
    ),
    "privacy.vulnerable.rare.tpr_at_0.01": GlossaryEntry(
        "Members with rare values found at 1% false alarms", "Members among them that are found; chance is 1%."
    ),
    "privacy.vulnerable.group.auc": GlossaryEntry(
        "Membership in the worst group, AUC", "The membership attack in the group of a sensitive column it is best at."
    ),
    "privacy.singling_out.univariate": GlossaryEntry(
        "Singling out by one value",
        "How much more often a rare synthetic value is true of exactly one training row than of one other row.",
    ),
    "privacy.singling_out.multivariate": GlossaryEntry(
        "Singling out by several values", "The same for combinations of values that one synthetic row has."
    ),
    "privacy.linkability": GlossaryEntry(
        "Linking two sources",
        "How much more often two parts of one person's record lead to the same synthetic row, of members over others.",
    ),
    "privacy.linkability.split": GlossaryEntry(
        "Linking two sources, one split", "The same for one way to part the columns."
    ),
    "privacy.inference": GlossaryEntry(
        "Inferring a secret value",
        "How much more often a member's value is found by the nearest synthetic row than another person's is, in the "
        "column where that is worst.",
    ),
    "privacy.inference.column": GlossaryEntry("Inferring a secret value, one column", "The same for one column."),
    "privacy.inference.model": GlossaryEntry(
        "Inferring a secret value by a model", "The same by a model that was trained on the synthetic rows."
    ),
    "privacy.quasi_identifiers": GlossaryEntry(
        "Matched quasi-identifiers",
        "Share of people, alone with their quasi-identifiers, whose combination stands in the synthetic table.",
    ),
    "privacy.quasi_identifiers.excess": GlossaryEntry(
        "Matched quasi-identifiers beyond chance", "The same, minus the share of people who were not used."
    ),
    "privacy.shadow.auc": GlossaryEntry(
        "Membership by shadow models, AUC", "The membership attack by an attacker who trained the generator many times."
    ),
    "privacy.shadow.tpr_at_0.01": GlossaryEntry(
        "Members found by shadow models at 1% false alarms", "Members that this attacker finds; chance is 1%."
    ),
    AUDITED: GlossaryEntry(
        "Audited epsilon beyond the claim",
        "A lower bound on epsilon, found by attacking the noise itself, minus the claim; above 0 the claim is false.",
    ),
    "statement.epsilon": GlossaryEntry(
        "Claimed epsilon", "The privacy budget: how much one unit's rows may change what is released; lower is safer."
    ),
    "rows.released": GlossaryEntry(
        "Rows of the real table, released", "About how many rows of the real table count, with noise."
    ),
    "columns.tvd.released": GlossaryEntry(
        "Column distance, released",
        "Share of rows in the wrong place of one column, against the whole real table, with noise.",
    ),
    "columns.tvd.released.mean": GlossaryEntry(
        "Column distance, mean, released", "The released distances of all columns, averaged."
    ),
    "pairs.tvd.released.mean": GlossaryEntry(
        "Pair distance, mean, released", "Total variation of two columns together, averaged over pairs, with noise."
    ),
    "utility.accuracy.released": GlossaryEntry(
        "Accuracy on held-out rows, released",
        "Share of held-out real rows that a logistic regression gets right which has seen the synthetic table only.",
    ),
    "statement.delta": GlossaryEntry(
        "Claimed delta",
        "What is added to the limit that epsilon sets. Alone it would allow every row to be given away whole with that "
        "probability.",
    ),
    "training.clip_fraction": GlossaryEntry(
        "Gradients clipped",
        "Share of sampled units whose gradient was scaled down to the bound while a network trained.",
    ),
}

KEY_FIGURES = (
    "validity.rows", "columns.tvd.mean", "pairs.tvd.mean", "pairs.tvd.floor_share", "pairs.association.mean",
    "pairs.dependence.floor_share", "triples.tvd.mean", "joint.c2st.auc", "joint.pmse.ratio", "joint.alpha_precision",
    "joint.beta_recall", "joint.density", "joint.coverage", "utility.tstr.linear", "utility.tstr.boosting",
    "privacy.personal", "privacy.copies.people", "privacy.copies", "privacy.membership.auc",
    "privacy.membership.tpr_at_0.01", "privacy.membership.tpr_at_0.001", "privacy.singling_out.multivariate",
    "privacy.linkability", "privacy.inference",
)  # fmt: skip
"""Measures that candidates are compared on, in this order."""

NOTES = {
    "pairs.tvd.floor_share": "0 as a fresh real sample, 1 as shuffled columns; more where single columns are off too"
}
"""The landmark beside a key figure in a table."""

TERMS = {
    "Fresh real sample": "Real rows that no generator saw. What they score is as good as it gets.",
    "Shuffled columns": "Training rows with each column shuffled on its own: right in every column, wrong in pairs.",
    "95% interval": "It holds the true number in 95 of 100 repetitions. Rules look at its unfavorable end.",
    "Rho": "What a line of the books costs, as zero-concentrated privacy. Costs of lines add up; a larger rho is less "
    "privacy. Steps of DP-SGD have none: accountants alone price them.",
    "Own delta": "A bound on the chance that a value is named which one unit alone holds. It is part of the claimed "
    "delta.",
    "Trade-off": "What a test of whether a unit is in the table can find at most, at each rate of false alarms.",
    "Ledger": "The record that adds up all releases of one table, and refuses what its total does not hold.",
    "Holdout": "Real rows set aside before anything was fitted. Every privacy number is measured against them.",
}

_EVIDENCE = {
    "columns": "columns",
    "pairs": "pairs",
    "utility": "utility",
    "fairness": "utility",
    "privacy": "attacks",
    "statement": "guarantee",
}


METRICS = {"roc_auc": "ROC AUC", "r2": "R\u00b2"}
"""Scores of models as one writes them."""


def entry(measure: str) -> GlossaryEntry:
    """A measure's entry; one that nobody has described is shown by its name."""
    return GLOSSARY.get(measure, GlossaryEntry(measure, ""))


def evidence(measure: str) -> str:
    """The section of the report that shows what a measure rests on."""
    if measure == AUDITED:
        return "guarantee"
    return _EVIDENCE.get(measure.split(".")[0], "comparison")
