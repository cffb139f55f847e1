"""A model card as files: YAML for programs, and Markdown with the front matter of a Hugging Face dataset card.

The YAML is plain data that every parser reads back equal: keys in their order, texts in quotes, one line each. In the
Markdown, names stay text.

Source: huggingface/hub-docs, datasetcard.md (keys), docs/hub/repositories-licenses.md (licenses);
huggingface/huggingface_hub, DatasetCardData (categories of size).
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluate.text import at_most, compact, count, loss, number, percent, plain, room
from reports.glossary import entry
from reports.markdown import document, name, text
from reports.model_card.schema import ModelCard
from reports.model_card.wording import NO_LICENSE
from reports.sections.privacy_budget import OUTSIDE, exact
from synth.dp.statement import IN_LEDGER, NO_GUARANTEE
from synth.output import whole_file

if TYPE_CHECKING:
    from jinja2 import Environment

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]")
_NO_WORDS = frozenset({"no", "on", "off", "yes", "true", "false", "null", "none", "nan", "inf", "infinity"})
"""Words that some version of YAML takes for something else than a text."""
_TURNING = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that make a text look like another."""


def to_yaml(content: dict[str, Any]) -> str:
    r"""A mapping as a YAML document of its own; it holds no tag, no anchor and no line that ends a front matter.

    >>> to_yaml({"license": "no", "rows": 3, "epsilon": 1e-06})
    'license: "no"\nrows: 3\nepsilon: 1.0e-06\n'
    """
    import yaml

    class Quoting(yaml.SafeDumper):
        """Texts that are more than a word stand in double quotes; equal parts are written out each time."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        is_word = _WORD.fullmatch(value) is not None and value.lower() not in _NO_WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_word else '"')

    Quoting.add_representer(str, represent_text)
    legible = _TURNING.search(json.dumps(content, ensure_ascii=False)) is None
    result: str = yaml.dump(
        content, Dumper=Quoting, sort_keys=False, allow_unicode=legible, default_flow_style=False, width=float("inf")
    )
    return result


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
    matter: dict[str, Any] = {
        **_license(card.use.license),
        "language": [plain(code) for code in card.use.language],
        "pretty_name": plain(card.title),
        "tags": [plain(tag) for tag in card.use.tags],
        "annotations_creators": ["no-annotation"],
        "language_creators": ["machine-generated"],
    }
    if card.table.n_rows is not None:
        matter["size_categories"] = [size_category(card.table.n_rows)]
    if card.table.task is not None:
        matter["task_categories"] = [card.table.task]
    if card.table.file is not None:
        files = [{"split": "train", "path": plain(card.table.file)}]
        matter["configs"] = [{"config_name": "default", "data_files": files}]
    return matter


def size_category(n_rows: int) -> str:
    """The category of a number of rows.

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


FLAGS = {
    "formal": "",
    "void": "**VOID: this statement must not be relied on.**",
    "disputed": "**DISPUTED: an audit disproves this statement, or that of a fit that counts with it.**",
    "unverified": "**UNVERIFIED: nobody saw this table come from the model that the statement is of.**",
}


@cache
def markdown_environment() -> "Environment":
    """The templates in Markdown. Nothing is escaped by itself: every text goes through `text` or `name`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=False,  # noqa: S701 - Markdown, whose tests render hostile names everywhere
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (text, name, loss, exact, count, percent, number, compact, room, at_most):
        templates.filters[function.__name__] = templates.globals[function.__name__] = function
    templates.globals.update(DASH="\u2014", FLAGS=FLAGS, NO_GUARANTEE=NO_GUARANTEE, NO_LICENSE=NO_LICENSE)
    templates.globals.update(IN_LEDGER=IN_LEDGER, OUTSIDE=OUTSIDE, entry=entry)
    return templates


def to_markdown(card: ModelCard) -> str:
    template = markdown_environment().get_template("card.md.j2")
    return document([template.render(card=card, front_matter=to_yaml(front_matter(card)))])


def card_content(card: ModelCard) -> dict[str, Any]:
    content: dict[str, Any] = card.model_dump(mode="json")
    return content


def write_card(card: ModelCard, yaml_path: Path, markdown_path: Path) -> tuple[Path, Path]:
    for path, content in ((yaml_path, to_yaml(card_content(card))), (markdown_path, to_markdown(card))):
        with whole_file(path) as beside:
            beside.write_text(content, encoding="utf-8", newline="\n")
    return yaml_path, markdown_path
