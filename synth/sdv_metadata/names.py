"""What SDV's metadata calls things, and what we call them."""

from typing import Literal

from synth.columns import INT64

Spec = Literal["V2", "V1", "SINGLE_TABLE_V1"]
SPECS: tuple[Spec, ...] = ("V2", "V1", "SINGLE_TABLE_V1")
"""Versions that are written."""
READ_SPECS = ("SINGLE_TABLE_V1", "SINGLE_TABLE_V2", "MULTI_TABLE_V1", "V1", "V2")
"""Versions that are read: what SDV 1.0 to 2.0 writes."""
VERSION = "METADATA_SPEC_VERSION"

TABLE_KEYS = (
    "columns", "primary_key", "alternate_keys", "sequence_key", "sequence_index", "column_relationships", VERSION,
)  # fmt: skip
COLUMN_KEYS = {
    "numerical": ("computer_representation", "decimal_places", "range_min", "range_max"),
    "categorical": ("range_values", "high_cardinality", "order", "order_by"),
    "ordinal": ("range_values", "high_cardinality", "order", "order_by"),
    "boolean": (),
    "datetime": ("datetime_format", "range_min", "range_max"),
    "id": ("regex_format", "pii"),
    "unknown": ("pii",),
}
"""Keys of a column beside `sdtype` and `range_is_nullable`, by its sdtype."""

PERSONAL = {
    "name": "name", "first_name": "first_name", "last_name": "last_name", "email": "email", "phone_number": "phone",
    "address": "address", "street_address": "street", "city": "city", "postcode": "postcode",
    "credit_card_number": "card_number", "iban": "iban", "bban": "account_number", "ssn": "national_id", "text": "text",
}  # fmt: skip
"""Sdtypes of personal data, and the kind of it that we make anew."""
OTHER_PERSONAL = (
    "administrative_unit", "company", "country", "country_code", "date_of_birth", "ipv4_address", "ipv6_address",
    "job", "latitude", "license_plate", "longitude", "mac_address", "secondary_address", "state", "state_abbr",
    "swift8", "swift11", "url", "user_agent_string", "user_name", "vin",
)  # fmt: skip
"""Sdtypes of personal data that we leave out; others are known by their key ``pii``."""

REPRESENTATIONS = {
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": (0, min(2**bits - 1, INT64[1])) for bits in (8, 16, 32, 64)},
}
"""Whole numbers of a computer representation."""


def shown(names: list[str] | tuple[str, ...]) -> str:
    """Names of columns for a sentence, not too many.

    >>> shown(["a", "b"])
    "'a', 'b'"
    """
    most = 8
    more = len(names) - most
    return ", ".join(map(repr, names[:most])) + (f" and {more} more" if more > 0 else "")
