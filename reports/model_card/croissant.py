"""A card to hand on as Croissant metadata: what machines read of a data set, made of public facts alone.

Source: MLCommons, Croissant format specification 1.0 and Croissant RAI specification 1.0 (`rai:` keys).
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from evaluate.text import loss
from reports.model_card.schema import PublicCard
from synth.dp.statement import NO_GUARANTEE

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
    """The metadata as JSON-LD.

    Args:
        card: of the table that is handed on.
        files: SHA-256 of each file of the table, by its path beside the metadata.
        table: the table that is handed on, or one part of it, for the names and types of its columns.
    """
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
