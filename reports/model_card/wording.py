"""The wording of a card in plain words: what a guarantee means and leaves out, and what a synthetic table is for."""

from collections.abc import Mapping

from evaluate.gate.claim import Of, named
from reports.model_card.schema import Form

INTERNAL = (
    "Internal: this card holds numbers computed from real rows, outside any privacy guarantee. Do not pass it on; its "
    "form to hand on holds none."
)
PUBLIC = (
    "The rows of this table are synthetic: they were drawn from a model, and none is meant as an observation. Nothing "
    "that this card says was computed from real rows."
)
PUBLIC_UNBOUND = (
    "Nothing was measured on real rows to make this card. What the table itself shows, its number of rows too, may "
    "come from real rows: no guarantee that holds bounds that."
)
NOTHING_BOUNDS = (
    "This table comes with no formal guarantee: nothing bounds what it reveals about a single unit of the real table. "
    "Attacks that found nothing are no proof that there is nothing to find."
)
VOID = (
    "VOID: the noise was not drawn from a secure source. There is no formal guarantee, whatever epsilon says, and the "
    "table must not be released on the strength of it."
)
DISPUTED = (
    "DISPUTED: an audit has shown a larger epsilon than is claimed. The claim is false and must not be relied on until "
    "the fault is found."
)
_OTHERS = (
    "What is true of people in general. Whoever learns from this table that one thing goes with another can apply it "
    "to anyone, in the real table or not.",
    "Whatever else reads the real table: the evaluation, its report, and the decision to publish because both looked "
    "good. Other releases of the same table add to epsilon.",
    "What the schema declares: columns, bounds and categories are taken to be public.",
    "Leaks around the computation, such as by its duration, by memory or by stolen files.",
)
NOT_COVERED_BY_NONE = (
    "Everything: membership of a person in the real table, single values, whole rows and combinations of them may "
    "show, above all of those who are unlike others.",
    "Whether this is personal data under the law that applies has to be assessed for this table, as for the real one.",
)

INTENDED = (
    "Developing, testing and demonstrating software, pipelines and queries on rows that have the shape of real ones.",
    "Teaching, and exploration whose every finding is confirmed on the real table before anybody relies on it.",
)
PROHIBITED = (
    "Trying to find, single out or contact a person, household or organization; to infer whether one was in the real "
    "table, or what it says of one; or linking rows with other data to that end. Security research agreed with the "
    "contact is exempt.",
    "Decisions with legal or similarly significant effects on a person (as on credit, insurance, employment, housing, "
    "education, health care, benefits, migration or law enforcement) that rest on these rows, or on a model trained on "
    "them, without validation on real data by somebody accountable for it.",
    "Presenting rows, or figures computed from them, as observations, official statistics or evidence, or passing them "
    "on without saying that they are synthetic.",
    "Passing the table on without this card, or against its license or the law that applies.",
)
NO_ANONYMITY = (
    "Treating the table as anonymous, or handing it to others as such, on the strength of this card: it gives no "
    "formal guarantee.",
)
NO_LICENSE = "None is stated: without one, nobody but its owner has any right to use the table."

SEED_OF_SAMPLING = (
    "Of sampling, which reads the released model only. It reaches no noise: that is drawn from the operating system's "
    "secure source, by no seed."
)
SEED_KEPT_BACK = (
    "Kept back: the seed names the split, too, and of a fit without noise it would let whoever knows all rows but one "
    "fit again and confirm the last."
)
SEED_OF_ALL = "Of every draw of fit and sampling."
SEED_UNKNOWN = "Not stated."
NOT_SEEN = (
    "An audit finds faults of the kinds that it names, and is no evidence that the claim is true. What it does not "
    "look at stands beside it; what this table alone would bring out is never a part of it."
)
UNCOUNTED = (
    "How many evaluations read the real data is unknown: none were counted under a declared name. Published figures "
    "of a real table answer queries to it, so that each further one tells more."
)
UNKNOWN_EVALUATIONS = (
    "How many evaluations read the real table is unknown. Published figures of a real table answer queries to it, so "
    "that each further one tells more."
)


def of_several(n: int) -> str:
    return (
        f"This is one of {n:,} private fits that were evaluated together. Each is a release of its own, and they "
        "compose: whoever picks the best of them has looked at all."
    )


def evaluations_in_words(n: int | None, form: Form) -> str:
    if n is None:
        return UNCOUNTED if form == "to-hand-on" else UNKNOWN_EVALUATIONS
    runs = "1 evaluation" if n == 1 else f"{n:,} evaluations"
    counted = "have read the real table" if n > 1 else "has read the real table"
    if form == "to-hand-on":
        counted = f"{'were' if n > 1 else 'was'} counted under the dataset's declared name"
    return f"{runs} {counted} so far, this one included. Choosing among them is outside the guarantee."


SEEN: Mapping[Of, str] = {
    "fit": "this table",
    "published": "this table and the numbers published about it",
    "tables": "this table and the one that it is related to",
    **dict.fromkeys(("sweep", "run", "sum"), "this table, with all that it may have been picked from,"),
}
"""The releases that a claim covers, by the subject of the claim."""


def not_covered(unit: str, most_rows: int) -> tuple[str, ...]:
    of_many = "Several rows of one person, family or organization as well as one row: the unit is one row."
    if unit != "row":
        of_many = (
            f"Groups as well as single ones: the unit is all that one {named(unit)} holds, of which {most_rows} "
            f"{'row' if most_rows == 1 else 'rows'} at most were used."
        )
    return (of_many, *_OTHERS)
