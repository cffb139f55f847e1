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
from synth.generators.base import PrivateGenerator
from synth.generators.registry import generator_class, names
from understudy.cli import app
from understudy.extras.text.wrapper import LanguageModel
from understudy.job.load import json_schema

DERIVED = re.compile(r"(<!-- derived: ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MOST_REPEATED = 3  # parameters that two generators share and that are written out for both
MOST_IN_WORDS = 3  # values with "or" between them; more are a list
SHARED_BY = 2  # commands that share an option which is explained once
Json = Mapping[str, Any]


def renewed(page: str) -> str:
    """A page with all that is derived from the code written anew."""
    return DERIVED.sub(lambda match: f"{match[1]}\n{PARTS[match[2]]().strip()}\n\n{match[3]}", page)


def main(root: Path) -> None:
    """Write every page of the reference anew."""
    for page in pages(root):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


def pages(root: Path) -> list[Path]:
    """The pages that hold parts which are derived from the code."""
    return [page for page in sorted((root / "docs/reference").glob("*.md")) if DERIVED.search(page.read_text("utf-8"))]


# Metrics


def metrics() -> str:
    """Every metric by the measure that gives it."""
    parts = []
    for measure, declared in groupby(CATALOG.values(), key=lambda metric: metric.by):
        parts.append(f"## `{measure}`\n\n" + "\n".join(map(_metric, declared)))
    return "\n\n".join(parts)


def _metric(metric: Metric) -> str:
    """A line of the list; that less is better, and that a rule may name it, goes without saying."""
    parts = [f"- `{metric.name}`: {metric.title}.", metric.sentence]
    if better := metric.better or {"higher": "higher is better"}.get(metric.direction, ""):
        parts.append(f"*{better.capitalize()}.*")
    if not metric.gateable:
        instead = re.findall("name '(.+)'", metric.describes)[0]
        parts.append(f"*No rule; name `{instead}`.*")
    return " ".join(filter(None, parts))


# The command line


def commands() -> str:
    """Every command with its arguments and options; those that commands share stand at the head, once."""
    told = list(_commands(typer.main.get_command(app), ("understudy",)))
    counts = Counter(record for _, _, records in told for record in records)
    usual = {record[0].split()[0]: record for record, count in reversed(counts.most_common()) if count >= SHARED_BY}
    shared = [record for record in counts if record in usual.values()]
    parts = ["## Options of several commands", "\n".join(map(_option, shared))]
    for words, command, records in told:
        parts.append(f"{'#' * max(len(words), 2)} {' '.join(words)}\n\n{_plain(command.help)}")
        if command.epilog and not hasattr(command, "commands"):  # a group shows the example of a command in it
            parts.append(f"```sh\n{command.epilog.removeprefix('Example: ')}\n```")
        options = [_option(record) for record in records if record not in shared]
        if others := [f"`{record[0].split()[0]}`" for record in records if record in shared]:
            options.append(f"- As above: {', '.join(others)}")
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
        yield words, command, [record for each in command.params if (record := each.get_help_record(context))]


def _option(record: tuple[str, str]) -> str:
    name, meaning = record
    return f"- `{name.replace(' RANGE', '')}`: {' '.join(meaning.split()).replace('[required]', '*Required.*')}"


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
    keys_of = schema["$defs"][part] if part else schema
    shown = {key: column for key, column in keys_of["properties"].items() if key not in without}
    return _keys(shown, keys_of.get("required", ()))


def _keys(schema: Mapping[str, Json], required: Iterable[str]) -> str:
    return "\n".join(_key(key, part, key in required) for key, part in schema.items())


def _key(key: str, schema: Json, required: bool) -> str:
    default = _told(_toml(schema.get("default")))
    more = ", required" if required else f", default {default}" if default else ""
    return f"- `{key}` ({value(schema)}{more}): {schema.get('description', '')}".removesuffix(": ")


def _toml(default: Any) -> Any:
    if isinstance(default, list | tuple):
        return f"[{', '.join(str(_toml(each)) for each in default)}]" if default else None
    return f'"{default}"' if isinstance(default, str) else default


def value(schema: Json) -> str:
    """The values that a JSON Schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(value(each) for each in schema["anyOf"] if each.get("type") != "null"))
    if "enum" in schema or "const" in schema:
        values = [f"`{_toml(each)}`" for each in schema.get("enum", [schema.get("const")])]
        return (", " if len(values) > MOST_IN_WORDS else " or ").join(values)
    if "prefixItems" in schema:
        return f"[{', '.join(value(each) for each in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {value(schema['items'])}"
    names = {"integer": "integer", "number": "number", "boolean": "true or false", "string": "text"}
    name = {"date": "date", "date-time": "date and time"}.get(
        schema.get("format", ""), names.get(schema.get("type", ""), "table")
    )
    return f"{name}{_limits(schema)}"


def _limits(schema: Json) -> str:
    if schema.get("exclusiveMinimum") == 0 and schema.get("exclusiveMaximum") == 1:
        return " in (0, 1)"
    if "minimum" in schema and "maximum" in schema and schema["minimum"] < schema["maximum"] < 2**32 - 1:
        return f" {schema['minimum']:,} to {schema['maximum']:,}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {schema[key]:,}" for key, sign in signs.items() if key in schema and abs(schema[key]) < 2**32 - 1]
    return f" {' and '.join(told)}" if told else ""


def kinds() -> str:
    """Kinds of columns."""
    return "\n".join(
        f"- `{kind}`: {_plain(fields['description'].partition(chr(10) * 2)[0])}" for kind, fields in _kinds().items()
    )


def column_keys() -> str:
    """Every key of a column once, by the kinds that have it."""
    columns = _kinds()
    owners: dict[tuple[str, str], list[str]] = {}
    values: dict[tuple[str, str], set[str]] = {}
    for kind, part in columns.items():
        for key, each in part["properties"].items():
            if key != "kind":
                same = key, each.get("description", "")
                owners.setdefault(same, []).append(kind)
                values.setdefault(same, set()).add(value(each))
    parts: dict[str, list[str]] = {}
    for (key, meaning), kinds in owners.items():
        known = values[key, meaning]
        told = f"- `{key}` ({known.pop() if len(known) == 1 else 'by kind'}): {meaning}"
        parts.setdefault(_owners(kinds, len(columns)), []).append(told)
    return "\n\n".join(f"**{kinds}**\n\n{chr(10).join(lines)}" for kinds, lines in parts.items())


def _owners(kinds: list[str], n_all: int) -> str:
    if len(kinds) == n_all:
        return "All kinds"
    numbers = ["integer", "real", "weight"]
    rest = kinds[3:] if kinds[:3] == numbers else kinds
    return ", ".join((["Numbers"] if rest != kinds else []) + [f"`{name}`" for name in rest])


OF_TEXTS = """Every generator but `local` and `pategan` takes it, for columns of free text: `text = "lm"`, or a table of
these keys. [Free text](../how-to/free-text.md) explains them."""


def parameters() -> str:
    """The parameters of each generator of ours, those of a claim, and of a group, once."""
    parts, shown = list[str](), dict[str, dict[str, Json]]()
    claim = PrivateGenerator.model_json_schema()["properties"]
    for name in names():
        plain = generator_class(name)
        if not plain.__module__.startswith(("synth.", "understudy.")):
            continue
        for kind in dict.fromkeys((plain, plain.with_epsilon())):
            fields = kind.model_json_schema()["properties"]
            own = {key: field for key, field in fields.items() if claim.get(key) != field}
            same = {other: [key for key in own if known.get(key) == own[key]] for other, known in shown.items()}
            like = max(same, key=lambda other: len(same[other]), default="")
            keys = same[like] if like and len(same[like]) > MOST_REPEATED else []
            told = f"As {like}: {', '.join(f'`{key}`' for key in keys)}.\n\n" if keys else ""
            rest = {key: field for key, field in own.items() if key not in keys}
            title = f"`{name}`" if kind is plain else f"`{name}` with epsilon"
            parts.append(f"## {title}\n\n{told}{_keys(rest, ()) if rest else 'It has no others.'}")
            shown[title] = fields
    takers = ", ".join(
        f"`{name}`" for name in names() if "epsilon" in generator_class(name).with_epsilon().model_fields
    )
    of_texts = LanguageModel.model_json_schema()["properties"]
    parts.insert(0, f"## With an epsilon\n\n{takers} take these:\n\n{_keys(claim, ())}")
    parts.append(f"## The option `text`\n\n{OF_TEXTS}\n\n{_keys(of_texts, ())}")
    return "\n\n".join(parts)


def _kinds() -> dict[str, Json]:
    schema = json_schema("schema")
    mapping = schema["properties"]["columns"]["additionalProperties"]["discriminator"]["mapping"]
    order = [each["$ref"] for each in schema["properties"]["columns"]["additionalProperties"]["oneOf"]]
    named = sorted(mapping, key=lambda kind: order.index(mapping[kind]))
    return {kind: schema["$defs"][mapping[kind].rpartition("/")[2]] for kind in named}


def _sections() -> dict[str, Json]:
    """The tables of a job file, each as its JSON Schema defines it."""
    sections, schema = {}, json_schema("job")
    for name, part in schema["properties"].items():
        inner = part.get("additionalProperties", part)
        for each in (inner, *inner.get("anyOf", ())) if isinstance(inner, Mapping) else ():
            if "$ref" in each:
                sections[name] = schema["$defs"][each["$ref"].rpartition("/")[2]]
            elif "properties" in each:
                sections[name] = each
    return sections


def section(name: str) -> str:
    """The keys of a table of a job file."""
    schema = _sections()[name]
    return _keys(schema["properties"], schema.get("required", ()))


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
