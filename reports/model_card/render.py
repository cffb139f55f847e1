"""A model card as files: YAML for programs, and Markdown with the front matter of a Hugging Face dataset card.

The YAML is plain data that every parser reads back equal: keys in their order, texts in quotes, one line each. In the
Markdown, names stay text.

Source: huggingface/hub-docs, datasetcard.md (keys), docs/hub/repositories-licenses.md (licenses);
huggingface/huggingface_hub, DatasetCardData (categories of size).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluate.text import at_most, compact, count, loss, number, percent, plain, room
from reports.markdown import bullets, document, name, table, text
from reports.model_card.schema import InternalCard, Measured, ModelCard, Promise
from reports.model_card.wording import NO_GUARANTEE
from reports.sections.privacy_budget import exact
from synth.output import whole_file

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]")
_NO_WORDS = frozenset({"no", "on", "off", "yes", "true", "false", "null", "none", "nan", "inf", "infinity"})
"""That some version of YAML takes for something else than a text."""
_TURNING = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that make a text look like another."""


def to_yaml(content: dict[str, Any]) -> str:
    r"""A mapping as a YAML document of its own; it holds no tag, no anchor and no line that ends a front matter.

    Args:
        content: texts, numbers, booleans, none, and lists and mappings of them.

    >>> to_yaml({"license": "no", "rows": 3, "epsilon": 1e-06})
    'license: "no"\nrows: 3\nepsilon: 1.0e-06\n'
    """
    written = _written(content, as_is=True)
    return _written(content, as_is=False) if _TURNING.search(written) else written


def _written(content: dict[str, Any], *, as_is: bool) -> str:
    import yaml

    class Quoting(yaml.SafeDumper):
        """Texts that are more than a word stand in double quotes; equal parts are written out each time."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, said: str) -> yaml.ScalarNode:
        plain = _WORD.fullmatch(said) is not None and said.lower() not in _NO_WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", said, style=None if plain else '"')

    Quoting.add_representer(str, text)
    found: str = yaml.dump(
        content, Dumper=Quoting, sort_keys=False, allow_unicode=as_is, default_flow_style=False, width=float("inf")
    )
    return found


SIZES = (
    (10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"), (10**11, "10B<n<100B"), (10**12, "100B<n<1T"),
)  # fmt: skip
LARGEST = "n>1T"
LICENSES = frozenset(
    (  # noqa: SIM905 - a list of sixty lines would say no more
        "apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 "
        "bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc "
        "cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 "
        "cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 "
        "cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 "
        "agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail++ "
        "osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl lgpl-lr unknown other"
    ).split()
)
"""Identifiers that a card may name; any other license goes by `license_name`."""


def front_matter(card: ModelCard) -> dict[str, Any]:
    """The metadata of a card, under the keys of a dataset card; a key of which nothing is known is left out."""
    found: dict[str, Any] = {
        **_license(card.use.license),
        "language": [plain(code) for code in card.use.language],
        "pretty_name": plain(card.title),
        "tags": [plain(tag) for tag in card.use.tags],
        "annotations_creators": ["no-annotation"],
        "language_creators": ["machine-generated"],
    }
    if card.table.n_rows is not None:
        found["size_categories"] = [size_category(card.table.n_rows)]
    if card.table.task is not None:
        found["task_categories"] = [card.table.task]
    if card.table.file is not None:
        files = [{"split": "train", "path": plain(card.table.file)}]
        found["configs"] = [{"config_name": "default", "data_files": files}]
    return found


def size_category(n_rows: int) -> str:
    """Where a number of rows belongs.

    >>> size_category(900), size_category(39_074), size_category(10**12)
    ('n<1K', '10K<n<100K', 'n>1T')
    """
    return next((category for bound, category in SIZES if n_rows < bound), LARGEST)


def _license(named: str) -> dict[str, str]:
    identifier = named.strip().lower()
    if identifier in LICENSES:
        return {"license": identifier}
    slug = re.sub(r"[^a-z0-9.]+", "-", identifier).strip("-.")[:80]
    return {"license": "other", "license_name": slug or "unnamed"}


DASH = "\u2014"
_FLAGS = {
    "void": "**VOID: this statement must not be relied on.**",
    "disputed": "**DISPUTED: an audit disproves this statement, or that of a fit that counts with it.**",
    "unverified": "**UNVERIFIED: nobody saw this table come from the model that the statement is of.**",
}


def to_markdown(card: ModelCard) -> str:
    """The card, beginning with its front matter."""
    return f"---\n{to_yaml(front_matter(card))}---\n\n{document(_lines(card))}"


def _lines(card: ModelCard) -> Iterator[str]:
    yield f"# {text(card.title)}"
    yield f"\n> {text(card.notice)}\n"
    yield f"Synthetic table {name(card.name)}, card of {card.made_on.isoformat()}. {_privacy_line(card)}\n"
    yield from _use(card)
    yield from _privacy(card)
    yield from _training(card)
    if isinstance(card, InternalCard):
        yield from _measured(card.measured)
    yield from _origin(card)


def _privacy_line(card: ModelCard) -> str:
    if not isinstance(card.privacy, Promise):
        return f"Privacy: **{NO_GUARANTEE}**."
    flag = _FLAGS.get(card.privacy.status)
    said = card.privacy
    of = f", for {text(said.claim_of)}" if len(said.composition) > 1 else ""
    claim = f"epsilon {loss(said.epsilon)} at delta {loss(said.delta)}, unit {name(said.unit)}{of}"
    return f"Privacy: {claim}. {flag}" if flag else f"Privacy: {claim}."


def _use(card: ModelCard) -> Iterator[str]:
    yield "## Intended use"
    yield from bullets(card.use.intended)
    yield "## Prohibited use"
    yield from bullets(card.use.prohibited)
    yield "## License and contact"
    contact = "none stated" if card.use.contact is None else name(card.use.contact)
    yield f"\nLicense: {text(card.use.license_in_words)}\n\nContact: {contact}\n"
    if card.use.citation is not None:
        yield f"Citation: {text(card.use.citation)}\n"


def _privacy(card: ModelCard) -> Iterator[str]:
    said = card.privacy
    yield "## Privacy"
    if not isinstance(said, Promise):
        yield f"\n**{NO_GUARANTEE[:1].upper()}{NO_GUARANTEE[1:]}.**"
        yield from bullets(said.in_words)
    else:
        yield f"\n{_FLAGS.get(said.status, '')}"
        yield from bullets(said.in_words)
        yield from table(("what", "value"), _promised(said))
        yield from _composed(said)
        yield from _spent(said)
        yield from _ledger(said)
    yield "### What the guarantee does not cover" if isinstance(said, Promise) else "### What is not protected"
    yield from bullets(said.not_covered)
    if isinstance(said, Promise):
        yield from _audit(said)
        yield from (["### Caveats", *bullets(said.caveats)] if said.caveats else [])


def _promised(said: Promise) -> Iterator[tuple[str, str]]:
    yield "mechanism", ", ".join(text(one) for one in said.mechanisms) or "not stated"
    yield "epsilon", f"{loss(said.epsilon)} (exactly {exact(said.epsilon)})"
    yield "delta", loss(said.delta)
    yield "both are of", text(said.claim_of)
    for one in said.tests:
        yield f"found at most at {100 * one.false_alarms:g}% false alarms", at_most(one.detections)
    for group in said.groups:
        yield f"epsilon of {group.units} together", "no bound" if group.epsilon is None else loss(group.epsilon)
    rows = "" if said.max_rows_per_unit == 1 else f", at most {count(said.max_rows_per_unit)} rows of each used"
    yield "unit of privacy", f"{name(said.unit)}{rows}"
    yield "neighboring relation", text(said.neighboring_relation)
    yield "units, as declared", count(said.n_units)
    yield "accountant", text(said.accountant)
    alone = " of this fit alone" if len(said.composition) > 1 else ""
    second = DASH if said.second_epsilon is None else f"epsilon {loss(said.second_epsilon)}{alone}"
    yield "second accountant", f"{text(said.second_accountant)}: {second}"
    if said.dp_sgd is not None:
        clipped = said.dp_sgd.clipping_norm
        yield "clipping norm", "not stated" if clipped is None else compact(clipped)
        yield "noise multiplier", exact(said.dp_sgd.noise_multiplier)
        yield "sampling rate", exact(said.dp_sgd.sampling_rate)
        yield "steps", count(said.dp_sgd.steps)


def _composed(said: Promise) -> Iterator[str]:
    """What the claim is made of, where it is not that of one fit."""
    if len(said.composition) < 2:
        return
    yield "### What was drawn together"
    rows = ((text(one.what), count(one.releases), loss(one.epsilon), loss(one.delta)) for one in said.composition)
    yield from table(("of what", "releases", "epsilon", "delta"), rows)


def _spent(said: Promise) -> Iterator[str]:
    if not said.spending:
        return
    yield "### What was spent on what" if len(said.composition) < 2 else "### What this fit alone spent on what"
    rows = (
        (
            text(line.what),
            ", ".join((text(line.mechanism), *(text(one) for one in line.noise))),
            DASH if line.times is None else count(line.times),
            exact(line.rho),
            DASH if line.share is None else percent(line.share),
            exact(line.delta) if line.delta else "none",
        )
        for line in said.spending
    )
    yield from table(("what was read", "mechanism", "times", "rho", "share", "own delta"), rows)


def _ledger(said: Promise) -> Iterator[str]:
    yield "### Ledger"
    yield f"\n{text(said.ledger_in_words)}\n"
    held = said.ledger
    if held is None:
        return
    rows = [
        ("dataset", name(held.dataset)),
        ("unit", name(held.unit)),
        ("epsilon of this fit", _loss(held.epsilon)),
        ("as it stood", text(held.moment)),
        ("spent by then", _loss(held.spent_epsilon)),
        ("left then", DASH if held.left_epsilon is None else room(held.left_epsilon)),
        ("total", f"{_loss(held.total_epsilon)} at delta {_loss(held.total_delta)}"),
    ]
    rows += [(what, name(value)) for what, value in (("reservation", held.reservation), ("entry", held.entry)) if value]
    yield from table(("what", "value"), rows)


def _audit(said: Promise) -> Iterator[str]:
    yield "### Audit"
    audit = said.audit
    if audit.lower_bound is not None and audit.strongest is not None:
        claim = exact(said.composition[0].epsilon)  # An audit attacks one fit.
        outcome = f"Lower bound {audit.lower_bound:.2f}, claim of this fit alone {claim}: {audit.outcome}."
        yield f"\n{outcome} An attacker who never errs would have shown {audit.strongest:.2f}."
    yield from bullets((*audit.in_words, audit.cannot_see))


def _training(card: ModelCard) -> Iterator[str]:
    yield "## Data"
    trained, made = card.trained, card.table
    rows = [
        ("source", DASH if trained.dataset is None else name(trained.dataset)),
        ("fitted to", DASH if trained.n is None else f"{count(trained.n)} {text(trained.counted_in)}"),
        ("held out", DASH if trained.holdout_share is None else percent(trained.holdout_share)),
        ("synthetic rows", DASH if made.n_rows is None else count(made.n_rows)),
        ("columns", DASH if made.n_columns is None else count(made.n_columns)),
        ("file", DASH if made.file is None else name(made.file)),
    ]
    yield from table(("what", "value"), rows)
    if card.expected is not None:
        yield from _expected(card)
    yield f"{text(card.evaluations_in_words)}\n"


def _expected(card: ModelCard) -> Iterator[str]:
    assert card.expected is not None
    found = card.expected
    pairs = (("a small pair of columns", found.pair), ("a typical pair", found.typical_pair))
    parts = (("a column", found.column), *pairs)
    said = ", ".join(f"{what} {number(value)}" for what, value in parts if value is not None)
    if said:
        yield f"Error to expect by public facts alone (mean total variation that noise adds): {said}.\n"


def _measured(found: Measured) -> Iterator[str]:
    yield "## Evaluation (internal)"
    if found.verdicts:
        ruled = [(name(v.policy), f"{v.version}", text(v.audience), f"{v.verdict}: {v.words}") for v in found.verdicts]
        yield from table(("policy", "version", "for", "verdict"), ruled)
    rows = [
        (text(one.title), name(one.measure), number(one.value), _interval(one.low, one.high), number(one.fresh_sample))
        for one in found.figures
    ]  # fmt: skip
    yield from table(("figure", "measure", "value", "95% interval", "fresh real sample"), rows)
    if found.not_measured:
        yield f"Without a result: {', '.join(name(one) for one in found.not_measured)}.\n"
    yield "### Limits of the evaluation"
    yield from bullets(found.limits)
    yield from (["### Warnings of the run", *bullets(found.warnings)] if found.warnings else [])


def _origin(card: ModelCard) -> Iterator[str]:
    made = card.made
    yield "## Origin"
    settings = ", ".join(name(f"{key} = {value}") for key, value in made.parameters.items() if value is not None)
    seed = text(made.seed_in_words) if made.seed is None else f"{made.seed}. {text(made.seed_in_words)}"
    rows = [
        ("generator", name(made.generator)),
        ("parameters", settings or "none stated"),
        ("seed", seed),
        ("run", DASH if made.run_id is None else name(made.run_id)),
        ("versions", ", ".join(f"{text(what)} {text(version)}" for what, version in made.versions.items()) or DASH),
        ("card", f"version {card.card_version}, {card.form}"),
    ]
    yield from table(("what", "value"), rows)


def _loss(value: float | None) -> str:
    return DASH if value is None else loss(value)


def _interval(low: float | None, high: float | None) -> str:
    return DASH if low is None or high is None else f"{number(low)} to {number(high)}"


def card_content(card: ModelCard) -> dict[str, Any]:
    """The card as plain data, as its JSON Schema describes it."""
    content: dict[str, Any] = card.model_dump(mode="json")
    return content


def write_card(card: ModelCard, yaml_path: Path, markdown_path: Path) -> tuple[Path, Path]:
    """Both files of a card, each whole or not there.

    Args:
        card: of either form.
        yaml_path: such as `cards/LABEL.yaml` of a bundle, or `model-card.yaml` of a public one.
        markdown_path: such as `cards/LABEL.md`, or `README.md`, which Hugging Face shows.

    Raises:
        OutputError: a file cannot be written.
    """
    for path, content in ((yaml_path, to_yaml(card_content(card))), (markdown_path, to_markdown(card))):
        with whole_file(path) as beside:
            beside.write_text(content, encoding="utf-8", newline="\n")
    return yaml_path, markdown_path
