"""Small shops: customers with orders, lines and tickets, and what is declared of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

KEYS: Mapping[str, Any] = {
    "product": "product_id",
    "customer": "customer_id",
    "order": {"primary": "order_id", "foreign": {"customer_id": "customer"}, "most": 2},
    "line": {"primary": ["order_id", "line_no"], "foreign": {"order_id": "order", "product_id": "product"},
             "number": "line_no", "most": 2, "most_of_unit": 3},
    "ticket": {"primary": "ticket_id", "foreign": {"customer_id": "customer", "order_id": "order"}, "most": 2},
}  # fmt: skip
PRODUCTS = pd.DataFrame({"product_id": ["A", "B", "C"], "price": [1.0, 2.5, 9.0]})


def shop(n: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Older customers order rather by phone, and who orders by phone has more lines, of the third product."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, n)
    customer = pd.DataFrame({"customer_id": [f"K{i:05d}" for i in range(n)], "age": age})
    by = np.repeat(np.arange(n), rng.poisson(1.5, n))
    phone = rng.random(len(by)) < (age[by] - 20) / 60
    order = pd.DataFrame({
        "order_id": 1000 + np.arange(len(by)), "customer_id": customer["customer_id"].to_numpy()[by],
        "channel": np.where(phone, "phone", "web"),
    })  # fmt: skip
    own = np.repeat(np.arange(len(by)), np.where(phone, 2, 1))
    item = np.where(phone[own], rng.choice(["B", "C"], len(own), p=[0.2, 0.8]), "A").astype(object)
    item[rng.random(len(own)) < 0.05] = None
    line = pd.DataFrame({
        "order_id": order["order_id"].to_numpy()[own], "line_no": pd.Series(own).groupby(own).cumcount() + 1,
        "product_id": item, "quantity": rng.integers(1, 4, len(own)),
    })  # fmt: skip
    has = np.flatnonzero(rng.random(len(by)) < np.where(phone, 0.6, 0.2))
    named = pd.array(order["order_id"].to_numpy()[has], dtype="Int64")
    named[rng.random(len(has)) < 0.3] = pd.NA
    ticket = pd.DataFrame({
        "ticket_id": np.arange(len(has)), "customer_id": order["customer_id"].to_numpy()[has], "order_id": named,
        "about": np.where(phone[has], "bill", "parcel"),
    })  # fmt: skip
    return {"product": PRODUCTS, "customer": customer, "order": order, "line": line, "ticket": ticket}


def schemas(n_units: int = 1000) -> dict[str, Schema]:
    public = {"status": "declared", "n_units": n_units}
    numbers = {"kind": "identifier", "bounds": (0, 10**6)}
    key, order = {"kind": "identifier", "template": "K#####"}, {**numbers, "missing": True}
    columns: dict[str, dict[str, Any]] = {
        "customer": {"customer_id": key, "age": {"kind": "integer", "bounds": (0, 99)}},
        "order": {"order_id": numbers, "customer_id": key,
                  "channel": {"kind": "categorical", "categories": ("phone", "web")}},
        "line": {"order_id": numbers, "line_no": {"kind": "integer", "bounds": (1, 9)},
                 "product_id": {"kind": "categorical", "categories": ("A", "B", "C"), "missing": True},
                 "quantity": {"kind": "integer", "bounds": (1, 9)}},
        "ticket": {"ticket_id": numbers, "customer_id": key, "order_id": order,
                   "about": {"kind": "categorical", "categories": ("bill", "parcel")}},
    }  # fmt: skip
    return {name: build_schema({**public, "columns": each}) for name, each in columns.items()}
