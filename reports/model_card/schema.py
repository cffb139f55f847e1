"""The schema of a model card, checked and frozen; `model-card.schema.json` is its JSON Schema.

There are two forms. The internal card adds what was computed from real rows; the one to hand on has no place for it.
Names are those of the statement, the ledger and the evaluation that the numbers are read from.
"""

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, TypeAdapter

from evaluate.gate.claim import Of
from evaluate.result import Estimate, Expectation
from reports.guarantee import BookLine, Standing
from synth.dp.statement import LedgerNote
from synth.validation import Frozen

CARD_VERSION = 4

Form = Literal["internal", "to-hand-on"]
AuditOutcome = Literal["no fault found", "exceeds the claim", "too weak to say", "no result", "not audited"]


class DpSgd(Frozen):
    """The parameters of training by DP-SGD."""

    noise_multiplier: float = Field(description="Standard deviation of a step's noise, in units of the clipping norm.")
    sampling_rate: float = Field(description="Probability with which each unit is in a step's Poisson sample.")
    steps: int
    clipping_norm: float | None = Field(description="L2 norm that a unit's gradient is clipped to; none: not stated.")


class LedgerPosition(Frozen):
    """The dataset's budget at one moment, which it names."""

    moment: str = Field(description="Of what is spent and left: after all that the run drew, where a run says so.")
    note: LedgerNote = Field(description="Without reservation and entry in a card to hand on.")
    left_epsilon: float


class Composed(Frozen):
    """The composed claim of some releases of the real table."""

    of: Of = Field(
        description="fit: this one alone; published: the table with the numbers published about it, and with its "
        "sweep; sweep: all private fits of it; run: all that the run drew; sum: likewise, added up."
    )
    what: str
    releases: int
    epsilon: float
    delta: float


class Tested(Frozen):
    """The most that any test of "in the real table or not" finds."""

    false_alarms: float = Field(description="Share of the units outside that the test flags.")
    detections: float = Field(description="Largest share of the units inside that it then flags.")


class Grouped(Frozen):
    """The protection of several units together."""

    units: int
    epsilon: float | None = Field(description="At the claim's delta; none: no bound.")


class AuditSummary(Frozen):
    """The attack on the mechanism of this fit alone, on a public stand-in."""

    outcome: AuditOutcome
    bound: float | None = Field(description="Epsilon is at least this, with the confidence stated.")
    strongest: float | None = Field(description="Its power: what an attacker who never errs would have shown.")
    confidence: float | None
    n_trials: int | None
    half_noise: float | None = Field(
        description="Share of such audits that would show half the noise, where they are weakest; none: not stated."
    )
    covered: tuple[str, ...] = Field(description="Events of the statement that were attacked or checked.")
    not_covered: tuple[str, ...] = Field(description="Events that were not, and what no audit looks at.")
    in_words: tuple[str, ...]


class Promise(Frozen):
    """A privacy statement, as an officer quotes it."""

    status: Standing = Field(
        description="void: noise was not secure; disputed: an audit disproves the claim, or that of a fit that counts "
        "with it; unverified: it is that of a model, and nobody saw the table come from it."
    )
    in_words: tuple[str, ...]
    not_covered: tuple[str, ...]
    mechanisms: tuple[str, ...] = Field(description="Of the fit, and of the numbers published about the table.")
    epsilon: float = Field(description="Of all that leaves together, or was drawn to choose from: the one to quote.")
    delta: float = Field(description="Of the same.")
    claim_of: str = Field(description="What epsilon and delta are of.")
    tests: tuple[Tested, ...] = Field(description="Of the same: what any test finds at most; empty if void.")
    groups: tuple[Grouped, ...] = Field(description="Of the same; empty where not all events are known.")
    composition: tuple[Composed, ...] = Field(
        min_length=1, description="From this fit alone to all that the run drew; the claim is one of them."
    )
    unit: str
    max_rows_per_unit: int
    relation: str
    trust: str = Field(description="Whom one must trust: a curator, nobody, or the parties that the statement names.")
    n_units: int = Field(description="Declared, and public; never counted.")
    accountant: str
    epsilon_rdp: float = Field(description="Of this fit alone, by the RDP accountant.")
    dp_sgd: DpSgd | None
    spending: tuple[BookLine, ...] = Field(description="Of this fit alone.")
    ledger: LedgerPosition | None
    caveats: tuple[str, ...]
    audit: AuditSummary


class NoPromise(Frozen):
    """The absence of a formal guarantee, in words."""

    status: Literal["none"]
    in_words: tuple[str, ...]
    not_covered: tuple[str, ...]


class Table(Frozen):
    """The synthetic table that the card is about; its own facts, not those of the real one."""

    file: str | None = Field(description="Relative to the card; none where none was kept.")
    n_rows: int | None
    n_columns: int | None
    task: Literal["tabular-classification", "tabular-regression"] | None
    left_out: tuple[str, ...] = Field(description="Sentences on real columns that are left out or replaced.")


class Trained(Frozen):
    """The training table of the generator."""

    dataset: str | None = Field(description="As the schema declares it.")
    n: int | None = Field(description="Declared units, or rows rounded to two digits; none: not stated.")
    counted_in: str
    holdout_share: float | None = Field(description="Share of the units that no generator saw; as the job says.")


class Made(Frozen):
    """By what."""

    generator: str
    parameters: dict[str, JsonValue]
    seed: int | None = Field(description="Of sampling; none where it is kept back.")
    seed_in_words: str
    run_id: str | None
    versions: dict[str, str]


class Use(Frozen):
    """For what, under which terms."""

    intended: tuple[str, ...] = Field(min_length=1)
    prohibited: tuple[str, ...] = Field(min_length=1)
    license: str
    contact: str | None
    citation: str | None
    language: tuple[str, ...]
    tags: tuple[str, ...]


class Ruled(Frozen):
    """The verdict of a policy."""

    policy: str
    version: int
    audience: str
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE"]


class Measured(Frozen):
    """Figures computed from real rows: of an internal card only."""

    figures: tuple[Estimate, ...]
    not_measured: tuple[str, ...]
    limits: tuple[str, ...]
    warnings: tuple[str, ...]
    verdicts: tuple[Ruled, ...]


class ModelCard(Frozen):
    """One card, about one synthetic table."""

    card_version: Literal[4]
    form: Form
    notice: str
    title: str
    name: str = Field(description="The table, as the evaluation calls it.")
    made_on: date
    privacy: Promise | NoPromise = Field(discriminator="status")
    table: Table
    trained: Trained
    made: Made
    use: Use
    expected: Expectation | None = Field(description="Mean total variation that noise adds, by public facts alone.")
    evaluations: int | None
    evaluations_in_words: str = Field(description="How many evaluations read the real table; each is a query to it.")


class InternalCard(ModelCard):
    """For whoever may see numbers computed from real rows."""

    form: Literal["internal"]
    measured: Measured


class PublicCard(ModelCard):
    """To hand on with the table: nothing in it was computed from real rows."""

    form: Literal["to-hand-on"]


def card_json() -> dict[str, Any]:
    """The JSON Schema of a card in either form; every key must be there."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[InternalCard | PublicCard, Field(discriminator="form")])
    schema = adapter.json_schema(mode="serialization")
    for part in schema["$defs"].values():  # of a record of the evaluation, the first line says enough
        part["description"] = part.get("description", "").partition("\n")[0]
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**dialect, "title": "Model card of a synthetic table", **schema}
