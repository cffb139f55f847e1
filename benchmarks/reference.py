"""The manual's reference, derived from the code: ``python -m benchmarks.reference``, in the root of the repository.

It writes what stands between ``<!-- derived: NAME -->`` and ``<!-- end -->`` in the pages of `docs/reference`: commands
from the command line, keys of files from their JSON Schemas, numbers from the catalog of metrics. A test holds the
pages equal to this.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from evaluate.metrics import CATALOG, Metric
from synth.generators.registry import generator_class, names
from understudy.cli import app
from understudy.extras.text.specification import LanguageModel
from understudy.json_schemas import json_schema

DERIVED = re.compile(r"(<!-- derived: ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)
BETTER = {"lower": "lower", "higher": "higher", "none": "it only describes"}
SHARED_BY = 3
"""Commands that share an option which is explained once."""
SHARED = ("missing", "drop", "dtype", "part", "modeled", "kind")
"""Keys that every kind of column has."""
Json = Mapping[str, Any]


def renewed(page: str) -> str:
    """A page with all that is derived from the code written anew."""
    return DERIVED.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}", page)


def main(root: Path) -> None:
    """Write every page of the reference anew."""
    for page in pages(root):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


def pages(root: Path) -> list[Path]:
    """The pages that hold parts which are derived from the code."""
    return [page for page in sorted((root / "docs/reference").glob("*.md")) if DERIVED.search(page.read_text("utf-8"))]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


# Metrics


def metrics() -> str:
    """Every metric by the measure that gives it."""
    parts = []
    for measure, found in groupby(CATALOG.values(), key=lambda metric: metric.by):
        head = ("number", "title", "better", "it says", "in a rule")
        parts.append(f"## `{measure}`\n\n{table(head, map(_metric, found))}")
    return "\n\n".join(parts)


def _metric(metric: Metric) -> tuple[str, ...]:
    rule = "yes" if metric.gateable else f"no: {metric.describes}"
    return f"`{metric.name}`", metric.title, metric.better or BETTER[metric.direction], metric.sentence, rule


# The command line


def commands() -> str:
    """Every command with its arguments and options; those that three commands share stand at the head, once."""
    told = list(_commands(typer.main.get_command(app), ("understudy",)))
    counts = Counter(record for _, _, records in told for record in records)
    usual = {record[0].split()[0]: record for record, count in reversed(counts.most_common()) if count >= SHARED_BY}
    shared = [record for record in counts if record in usual.values()]
    parts = ["## Options of several commands", table(("argument or option", "meaning"), map(_option, shared))]
    for words, command, records in told:
        parts.append(f"{'#' * max(len(words), 2)} {' '.join(words)}\n\n{_plain(command.help)}")
        if command.epilog:
            parts.append(f"```sh\n{command.epilog.removeprefix('Example: ')}\n```")
        options = ["- {}: {}".format(*_option(record)) for record in records if record not in shared]
        if others := [f"`{record[0].split()[0]}`" for record in records if record in shared]:
            options.append(f"- {', '.join(others)}: as above")
        parts += ["\n".join(options)] if options else []
    return "\n\n".join(parts)


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, list[tuple[str, str]]]]:
    """Commands and groups by the words that call them, with what their help says of each argument and option."""
    if hasattr(command, "commands"):
        if len(words) > 1:
            yield words, command, []
        for name, inner in command.commands.items():
            yield from _commands(inner, (*words, name))
    else:
        context = typer.Context(command, info_name=" ".join(words))
        yield words, command, [record for one in command.params if (record := one.get_help_record(context))]


def _option(record: tuple[str, str]) -> tuple[str, str]:
    name, meaning = record
    return f"`{name.replace(' RANGE', '')}`", " ".join(meaning.split()).replace("[required]", "*Required.*")


def _plain(text: str) -> str:
    """Help without the line breaks of a docstring, between paragraphs aside."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def _told(default: Any) -> str:
    if default in (None, [], "[]"):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


# Keys of files


def keys(name: str, part: str = "", without: tuple[str, ...] = ()) -> str:
    """The keys of one kind of file, or of one of its parts.

    Args:
        name: of the kind of file, as `understudy check --json-schema` takes it.
        part: name of a definition in its JSON Schema.
        without: keys that have a section of their own.
    """
    schema = json_schema(name)
    found = schema["$defs"][part] if part else schema
    shown = {key: of for key, of in found["properties"].items() if key not in without}
    return _keys(shown, found.get("required", ()))


def _keys(found: Mapping[str, Json], required: Iterable[str]) -> str:
    rows = (_key(key, of, key in required) for key, of in found.items())
    return table(("key", "meaning", "value", "unless said"), rows)


def _key(key: str, of: Json, required: bool) -> tuple[str, str, str, str]:
    default = "required" if required else _told(_toml(of.get("default")))
    return f"`{key}`", of.get("description", ""), value(of), default


def _toml(default: Any) -> Any:
    if isinstance(default, list | tuple):
        return f"[{', '.join(str(_toml(one)) for one in default)}]" if default else None
    return f'"{default}"' if isinstance(default, str) else default


def value(of: Json) -> str:
    """The values that a JSON Schema allows, in words."""
    if "anyOf" in of:
        return " or ".join(dict.fromkeys(value(one) for one in of["anyOf"] if one.get("type") != "null"))
    if "enum" in of or "const" in of:
        return " or ".join(f"`{_toml(one)}`" for one in of.get("enum", [of.get("const")]))
    if "prefixItems" in of:
        return f"[{', '.join(value(one) for one in of['prefixItems'])}]"
    if of.get("type") == "array":
        return f"list of {value(of['items'])}"
    names = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
    name = {"date": "date", "date-time": "date and time"}.get(
        of.get("format", ""), names.get(of.get("type", ""), "table")
    )
    return f"{name}{_limits(of)}"


def _limits(of: Json) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {of[key]:,}" for key, sign in signs.items() if key in of and abs(of[key]) < 2**32 - 1]
    return f" {' and '.join(told)}" if told else ""


def kinds() -> str:
    """Kinds of columns, each with its own keys."""
    found = _kinds()
    rows = (
        (f"`{kind}`", _plain(of["description"].partition("\n\n")[0]), ", ".join(f"`{key}`" for key in _own(of)))
        for kind, of in found.items()
    )
    return table(("kind", "holds", "keys of its own"), rows)


def column_keys() -> str:
    """Every key of a column once, with the kinds that have it."""
    found = _kinds()
    owners: dict[tuple[str, str], list[str]] = {}
    values: dict[tuple[str, str], list[str]] = {}
    for kind, of in found.items():
        for key, one in of["properties"].items():
            if key != "kind":
                same = key, one.get("description", "")
                owners.setdefault(same, []).append(kind)
                values.setdefault(same, []).append(value(one))
    rows = (
        (f"`{key}`", said, " or ".join(dict.fromkeys(values[key, said])), _owners(of, len(found)))
        for (key, said), of in owners.items()
    )
    return table(("key", "meaning", "value", "of"), rows)


def _owners(found: list[str], n_all: int) -> str:
    return "all" if len(found) == n_all else ", ".join(f"`{name}`" for name in found)


OF_TEXTS = """Every generator but `local` and `pategan` takes it, for columns of free text: `text = "lm"`, or a table of
these keys. [Free text](../how-to/free-text.md) explains them."""


def parameters() -> str:
    """The parameters of each generator of ours."""
    parts = []
    for name in names():
        if generator_class(name).__module__.startswith(("synth.", "understudy.")):
            found = generator_class(name).model_json_schema()["properties"]
            parts.append(f"## `{name}`\n\n{_keys(found, ())}" if found else f"## `{name}`\n\nIt has none.")
    of_texts = LanguageModel.model_json_schema()["properties"]
    parts.append(f"## The option `text`\n\n{OF_TEXTS}\n\n{_keys(of_texts, ())}")
    return "\n\n".join(parts)


def _kinds() -> dict[str, Json]:
    schema = json_schema("schema")
    mapping = schema["properties"]["columns"]["additionalProperties"]["discriminator"]["mapping"]
    order = [one["$ref"] for one in schema["properties"]["columns"]["additionalProperties"]["oneOf"]]
    named = sorted(mapping, key=lambda kind: order.index(mapping[kind]))
    return {kind: schema["$defs"][mapping[kind].rpartition("/")[2]] for kind in named}


def _own(of: Json) -> list[str]:
    return [key for key in of["properties"] if key not in SHARED]


def _sections() -> dict[str, Json]:
    """The tables of a job file, each as its JSON Schema defines it."""
    found, schema = {}, json_schema("job")
    for name, of in schema["properties"].items():
        inner = of.get("additionalProperties", of)
        for one in (inner, *inner.get("anyOf", ())) if isinstance(inner, Mapping) else ():
            if "$ref" in one:
                found[name] = schema["$defs"][one["$ref"].rpartition("/")[2]]
            elif "properties" in one:
                found[name] = one
    return found


def section(name: str) -> str:
    """The keys of a table of a job file."""
    found = _sections()[name]
    return _keys(found["properties"], found.get("required", ()))


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "metrics": metrics,
    "job": partial(keys, "job", without=tuple(_sections())),
    **{f"job.{name}": partial(section, name) for name in _sections()},
    "sites": partial(keys, "sites", without=("training",)),
    "sites.training": partial(keys, "sites", "TrainingSpec"),
    "generators": parameters,
    "schema": partial(keys, "schema", without=("columns", "constraints", "format", "read_off")),
    "schema.kinds": kinds,
    "schema.columns": column_keys,
}
"""Every part that is derived, by its name in a page."""

if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
