"""A model card as files: YAML for programs, Croissant for catalogs, and Markdown that Hugging Face reads.

The YAML is plain data that every parser reads back equal: keys in their order, texts in quotes, one line each. In the
Markdown, text stays text, whoever wrote it. Croissant is made of a card to hand on, of public facts alone.

Source: GitHub Flavored Markdown Spec 0.29, sections 2.4 (backslash escapes), 6.2 (entities), 6.3 (code spans), 4.10
(tables); huggingface/hub-docs, datasetcard.md (keys), docs/hub/repositories-licenses.md (licenses);
huggingface/huggingface_hub, DatasetCardData (categories of size); MLCommons, Croissant format specification 1.0 and
Croissant RAI specification 1.0 (`rai:` keys).
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pandas as pd

from evaluate.text import at_most, compact, count, loss, number, percent, plain, room
from reports.glossary import entry
from reports.guarantee import OUTSIDE, exact
from reports.model_card.card import NO_LICENSE
from reports.model_card.schema import ModelCard, PublicCard
from synth.dp.statement import IN_LEDGER, NO_GUARANTEE
from synth.output import whole_file

if TYPE_CHECKING:
    from jinja2 import Environment


_BLOCK = re.compile(r"^(?:[#+=:-]|\d+[.)](?=\s|$))")
"""The beginning of a heading, a list or a rule, where a text begins a line."""
_JOINER = "\u2060"
"""Invisible, and no letter: what follows an @ is then neither a person to notify nor a mail address to link."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "`": "&#96;"}
_AS_TEXT = str.maketrans({**_ENTITIES, **{sign: f"\\{sign}" for sign in "*_[]~$"}, "@": f"@{_JOINER}"})
_LINKED = re.compile(r"(?i)(?:https?|ftp|mailto|xmpp)(?=:)|www(?=\.)")
LONGEST_TEXT = 4000  # Characters of a text of several paragraphs that a card shows


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    r"""A text as itself: no markup, no link, no mention, no raw HTML, on one line.

    >>> text("[x](javascript:alert(1)) | <b>")
    '\\[x\\](javascript:alert(1)) &#124; &lt;b&gt;'
    """
    shown = " ".join(plain(" ".join(str(value)[: 2 * longest].split()), longest).split())
    marked = _LINKED.sub(rf"\g<0>{_JOINER}", shown).translate(_AS_TEXT)
    begins = _BLOCK.match(marked)
    return marked if begins is None else f"{marked[: begins.end() - 1]}\\{marked[begins.end() - 1 :]}"


def name(value: object) -> str:
    """A name as code, in which nothing is marked up, linked or mentioned; as text where that would not hold it.

    >>> name("marital_status"), name("a|b")
    ('`marital_status`', 'a&#124;b')
    """
    shown = " ".join(plain(value).split())
    return f"`{shown}`" if shown and not set(shown) & set("`|\\") else text(shown) or "(no name)"


def document(written: str) -> str:
    """The text without two empty lines in a row."""
    return re.sub(r"\n{3,}", "\n\n", written).strip("\n") + "\n"


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
    style: dict[str, Any] = {"sort_keys": False, "default_flow_style": False, "width": float("inf")}
    return str(yaml.dump(content, Dumper=Quoting, allow_unicode=legible, **style))


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

    >>> size_category(39_074), size_category(10**12)
    ('10K<n<100K', 'n>1T')
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
    return document(template.render(card=card, front_matter=to_yaml(front_matter(card))))


def card_content(card: ModelCard) -> dict[str, Any]:
    return card.model_dump(mode="json")


def write_card(card: ModelCard, yaml_path: Path, markdown_path: Path) -> tuple[Path, Path]:
    for path, content in ((yaml_path, to_yaml(card_content(card))), (markdown_path, to_markdown(card))):
        with whole_file(path) as beside:
            beside.write_text(content, encoding="utf-8", newline="\n")
    return yaml_path, markdown_path


CROISSANT = "croissant.json"
VERSION = "http://mlcommons.org/croissant/1.0"
RAI = "http://mlcommons.org/croissant/RAI/1.0"
_OWN = (
    "citeAs column conformsTo equivalentProperty extract field fileProperty fileObject fileSet format includes "
    "isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate "
    "separator source subField transform"
)
_CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/", **{name: f"cr:{name}" for name in _OWN.split()}, "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}  # fmt: skip
_FORMATS = {
    ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".parquet": "application/x-parquet",
    ".gz": "application/gzip", ".json": "application/json", ".jsonl": "application/jsonlines",
}  # fmt: skip


def to_croissant(card: PublicCard, files: Mapping[str, str], table: pd.DataFrame) -> str:
    """The metadata as JSON-LD, with the SHA-256 of each file beside it, and names and types of the table's columns."""
    privacy = card.privacy
    promise = NO_GUARANTEE
    if privacy.status != "none":
        doubt = "" if privacy.status == "formal" else f" ({privacy.status})"
        promise = f"epsilon {loss(privacy.epsilon)} at delta {loss(privacy.delta)}, unit {privacy.unit}{doubt}"
    content: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": card.title,
        "description": f"Synthetic table {card.name}. {card.notice} Privacy: {promise}.",
        "conformsTo": [VERSION, RAI],
        "license": card.use.license,
        "url": "README.md",
        "creator": {"@type": "sc:Organization", "name": card.use.contact or "not stated"},
        "datePublished": card.made_on.isoformat(),
        "version": "1.0.0",
        "inLanguage": list(card.use.language),
        "keywords": list(card.use.tags),
        **({"citeAs": card.use.citation} if card.use.citation else {}),
        "rai:dataCollection": _origin(card),
        "rai:dataUseCases": list(card.use.intended),
        "rai:dataLimitations": [*card.use.prohibited, *privacy.not_covered],
        "rai:personalSensitiveInformation": list(privacy.in_words),
        "distribution": [
            {
                "@type": "cr:FileObject", "@id": path, "name": path, "contentUrl": path, "sha256": digest,
                "encodingFormat": _FORMATS.get(PurePosixPath(path).suffix, "application/octet-stream"),
            }
            for path, digest in files.items()
        ],
    }  # fmt: skip
    source = {"fileObject": {"@id": next(iter(files))}}
    if len(files) > 1:  # parts of one table
        parts = {
            "@type": "cr:FileSet", "@id": "parts", "name": "parts", "containedIn": [{"@id": path} for path in files],
            "encodingFormat": content["distribution"][0]["encodingFormat"],
            "includes": f"*{PurePosixPath(next(iter(files))).suffix}",
        }  # fmt: skip
        content["distribution"].append(parts)
        source = {"fileSet": {"@id": "parts"}}
    fields = [
        {
            "@type": "cr:Field", "@id": f"rows/{name}", "name": f"rows/{name}", "dataType": _type_of(table[name]),
            "source": {**source, "extract": {"column": name}},
        }
        for name in map(str, table.columns)
    ]  # fmt: skip
    content["recordSet"] = [{"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields}]
    return json.dumps(content, indent=1, ensure_ascii=False)


def _origin(card: PublicCard) -> str:
    """How the table came about: of one from elsewhere nobody here saw that."""
    if card.made.generator == "unknown" or card.privacy.status == "unverified":
        return "Offered as synthetic; how it was made was not seen."
    return f"Sampled from a model by the generator {card.made.generator}; no row is meant as an observation."


def _type_of(column: "pd.Series") -> str:
    types = pd.api.types
    if types.is_bool_dtype(column):
        return "sc:Boolean"
    if types.is_integer_dtype(column):
        return "sc:Integer"
    if types.is_datetime64_any_dtype(column):
        return "sc:DateTime"
    return "sc:Float" if types.is_numeric_dtype(column) else "sc:Text"
