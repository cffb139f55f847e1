"""The front matter of a dataset card as Hugging Face reads it.

Source: huggingface/hub-docs, datasetcard.md (keys), docs/hub/repositories-licenses.md (licenses);
huggingface/huggingface_hub, DatasetCardData (categories of size).
"""

import re
from typing import Any

from evaluate.text import plain
from reports.model_card.shape import ModelCard

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
