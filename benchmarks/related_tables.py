"""Related tables that a program draws, with dependence that is known, and their keys.

`shop`: regions, customers, orders, lines, in four levels; tickets beside orders; products that lines name. `records`:
eight tables of SQLite with its constraints, among them a key that is primary and foreign at once, keys of two columns,
two parents of one child, and a lookup table.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

Tables = Mapping[str, pd.DataFrame]
LOOSE = 0.03  # share of foreign keys that are missing, where they may be
SHOP_KEYS: Mapping[str, Any] = {
    "region": "region_id",
    "product": "product_id",
    "customer": {"primary": "customer_id", "foreign": {"region_id": "region"}, "most": 8},
    "order": {"primary": "order_id", "foreign": {"customer_id": "customer"}, "most": 6},
    "line": {"primary": ["order_id", "line_no"], "foreign": {"order_id": "order", "product_id": "product"},
             "number": "line_no", "most": 6},
    "ticket": {"primary": "ticket_id", "foreign": {"customer_id": "customer", "order_id": "order"}, "most": 4},
}  # fmt: skip
ORDERS_KEYS: Mapping[str, Any] = {
    "customer": "customer_id",
    "order": SHOP_KEYS["order"],
    "line": {"primary": ["order_id", "line_no"], "foreign": {"order_id": "order"}, "number": "line_no"},
}


def shop(n_regions: int = 300, seed: int = 0, customers: float = 3.0) -> Tables:
    """What depends on what: an order's channel on the customer's age and the region's wealth, a line's amount on the
    product, the channel and the wealth (two levels up), numbers of rows on the columns above.
    """
    rng = np.random.default_rng(seed)
    wealth, climate = (
        rng.normal(0, 1, n_regions).round(2),
        rng.choice(["wet", "dry", "cold"], n_regions, p=[0.5, 0.3, 0.2]),
    )
    region = pd.DataFrame({"region_id": np.arange(1, n_regions + 1), "wealth": wealth, "climate": climate})
    n_product, of_products = 40, np.random.default_rng(12)  # the same ones whatever the seed
    price = np.exp(of_products.normal(3, 0.8, n_product)).round(2)
    product = pd.DataFrame({
        "product_id": [f"P-{i:03d}" for i in range(n_product)], "price": price,
        "kind": of_products.choice(["food", "tool", "toy"], n_product),
    })  # fmt: skip
    of = np.repeat(np.arange(n_regions), np.minimum(rng.poisson(customers * np.exp(0.3 * wealth)), 8))
    n = len(of)
    age = np.clip(rng.normal(45 - 4 * (climate[of] == "dry"), 14, n), 18, 90).round().astype(int)
    member = rng.random(n) < 1 / (1 + np.exp(-(wealth[of] + (age - 45) / 15)))
    where = pd.array(region["region_id"].to_numpy()[of], dtype="Int64")
    where[rng.random(n) < LOOSE] = pd.NA
    customer = pd.DataFrame({
        "customer_id": [f"C{i:07d}" for i in rng.permutation(10 * n)[:n]], "region_id": where, "age": age,
        "member": np.where(member, "yes", "no"),
    })  # fmt: skip
    by = np.repeat(np.arange(n), np.minimum(rng.poisson(np.where(member, 2.6, 1.1)), 6))
    m = len(by)
    web = rng.random(m) < 1 / (1 + np.exp((age[by] - 40) / 10 - wealth[of][by]))
    days = rng.integers(0, 700, m)
    discount = np.where(member[by], rng.choice([0, 5, 10, 20], m, p=[0.3, 0.3, 0.25, 0.15]), 0)
    order = pd.DataFrame({
        "order_id": np.arange(m) + 100_000, "customer_id": customer["customer_id"].to_numpy()[by],
        "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(days, "D"),
        "channel": np.where(web, "web", rng.choice(["shop", "phone"], m, p=[0.8, 0.2])), "discount": discount,
    })  # fmt: skip
    own = np.repeat(np.arange(m), np.minimum(1 + rng.poisson(np.where(web, 0.5, 1.6)), 6))
    k = len(own)
    chance = np.exp(
        -0.5 * ((np.log(price)[None, :] - 3 - 0.6 * np.clip(wealth[of][by][own], -2, 2)[:, None]) / 0.7) ** 2
    )
    item = (rng.random(k)[:, None] > np.cumsum(chance / chance.sum(1, keepdims=True), axis=1)[:, :-1]).sum(axis=1)
    quantity = 1 + rng.poisson(np.where(web[own], 0.4, 1.2))
    amount = (quantity * price[item] * (1 - discount[own] / 100) * np.exp(rng.normal(0, 0.03, k))).round(2)
    of_product = product["product_id"].to_numpy()[item].astype(object)
    of_product[rng.random(k) < LOOSE] = None
    line = pd.DataFrame({
        "order_id": order["order_id"].to_numpy()[own], "line_no": pd.Series(own).groupby(own).cumcount() + 1,
        "product_id": of_product, "quantity": quantity, "amount": amount,
    })  # fmt: skip
    has = rng.random(m) < np.where(web, 0.35, 0.12)
    more = np.repeat(np.arange(n), rng.poisson(0.15, n))
    who = np.concatenate([by[has], more])
    what = pd.array(np.concatenate([order["order_id"].to_numpy()[has], np.zeros(len(more), dtype=int)]), dtype="Int64")
    what[np.arange(len(who)) >= has.sum()] = pd.NA
    angry = rng.random(len(who)) < np.where(member[who], 0.2, 0.5)
    late = np.concatenate([web[has], np.zeros(len(more), dtype=bool)])
    ticket = pd.DataFrame({
        "ticket_id": np.arange(len(who)) + 1, "customer_id": customer["customer_id"].to_numpy()[who], "order_id": what,
        "topic": np.where(late, "delivery", rng.choice(["bill", "other"], len(who))),
        "score": np.clip(rng.normal(np.where(angry, 2, 4), 1), 1, 5).round().astype(int),
    })  # fmt: skip
    return {"region": region, "product": product, "customer": customer, "order": order, "line": line, "ticket": ticket}


RECORDS_SQL = """
create table country (code text primary key, continent text not null, vat real not null);
create table album (album_id integer primary key, genre text not null, year integer not null);
create table track (track_id integer primary key, album_id integer references album, seconds integer not null,
    price real not null);
create table customer (customer_id integer primary key, country text not null references country, born integer not null,
    plan text not null);
create table profile (customer_id integer primary key references customer, newsletter text not null, visits integer);
create table invoice (invoice_id integer primary key, customer_id integer not null references customer,
    month integer not null, paid text not null);
create table item (invoice_id integer not null references invoice, line_no integer not null,
    track_id integer references track, quantity integer not null, primary key (invoice_id, line_no));
create table rating (customer_id integer not null references customer, track_id integer not null references track,
    stars integer not null, primary key (customer_id, track_id));
"""
RECORDS_KEYS: Mapping[str, Any] = {
    "country": "code", "album": "album_id",
    "track": {"primary": "track_id", "foreign": {"album_id": "album"}},
    "customer": {"primary": "customer_id", "foreign": {"country": "country"}},
    "profile": {"primary": "customer_id", "foreign": {"customer_id": "customer"}},
    "invoice": {"primary": "invoice_id", "foreign": {"customer_id": "customer"}},
    "item": {"primary": ["invoice_id", "line_no"], "foreign": {"invoice_id": "invoice", "track_id": "track"},
             "number": "line_no"},
    "rating": {"primary": ["customer_id", "track_id"], "foreign": {"customer_id": "customer", "track_id": "track"}},
}  # fmt: skip


def records(n_customers: int = 1500, seed: int = 0) -> Tables:
    """A record shop in SQLite, as its tables come out of it."""
    rng = np.random.default_rng(seed)
    codes = ["AT", "BR", "CA", "DE", "FR", "IN", "JP", "US"]
    continent = ["Europe", "America", "America", "Europe", "Europe", "Asia", "Asia", "America"]
    rows: dict[str, list[tuple[Any, ...]]] = {
        "country": list(zip(codes, continent, [20.0, 17.0, 5.0, 19.0, 20.0, 18.0, 10.0, 0.0], strict=True))
    }
    n_album = n_customers // 5
    genre = rng.choice(["rock", "jazz", "pop", "folk"], n_album, p=[0.4, 0.2, 0.3, 0.1])
    year = np.where(genre == "jazz", rng.integers(1950, 1990, n_album), rng.integers(1975, 2024, n_album))
    rows["album"] = list(zip(range(1, n_album + 1), genre.tolist(), year.tolist(), strict=True))
    of = np.repeat(np.arange(n_album), 1 + rng.poisson(np.where(genre == "jazz", 3, 6)))
    seconds = np.exp(rng.normal(np.where(genre[of] == "jazz", 6.0, 5.3), 0.3)).round().astype(int)
    price = np.where(year[of] > 2005, 1.29, 0.99)
    n_track = len(of)
    album: list[Any] = [None if rng.random() < LOOSE else int(a) + 1 for a in of]
    rows["track"] = list(zip(range(1, n_track + 1), album, seconds.tolist(), price.tolist(), strict=True))
    country = rng.choice(len(codes), n_customers, p=[0.05, 0.15, 0.1, 0.2, 0.1, 0.1, 0.1, 0.2])
    born = np.clip(rng.normal(1980 + 6 * (country >= 5), 12, n_customers), 1930, 2010).round().astype(int)
    plan = np.where(rng.random(n_customers) < 1 / (1 + np.exp(-(born - 1983) / 6)), "stream", "buy")
    rows["customer"] = [(i + 1, codes[country[i]], int(born[i]), str(plan[i])) for i in range(n_customers)]
    with_profile = np.flatnonzero(rng.random(n_customers) < np.where(plan == "stream", 0.9, 0.4))
    letter = rng.random(len(with_profile)) < np.where(born[with_profile] < 1980, 0.7, 0.3)
    visits = rng.poisson(np.where(plan[with_profile] == "stream", 8, 2))
    words = np.where(letter, "yes", "no")
    rows["profile"] = list(zip((with_profile + 1).tolist(), words.tolist(), visits.tolist(), strict=True))
    by = np.repeat(np.arange(n_customers), rng.poisson(np.where(plan == "buy", 3.0, 1.0)))
    month = rng.integers(1, 13, len(by))
    paid = np.where(rng.random(len(by)) < np.where(born[by] < 1975, 0.85, 0.35), "card", "wallet")
    rows["invoice"] = [(i + 1, int(by[i]) + 1, int(month[i]), str(paid[i])) for i in range(len(by))]
    own = np.repeat(np.arange(len(by)), 1 + rng.poisson(np.where(paid == "card", 2.0, 0.7)))
    tracks = _liked(rng, born[by][own], genre[of], year[of])
    quantity = 1 + (rng.random(len(own)) < np.where(genre[of][tracks] == "pop", 0.4, 0.05))
    number = pd.Series(own).groupby(own).cumcount() + 1
    named = [None if rng.random() < LOOSE else int(t) + 1 for t in tracks]
    rows["item"] = list(zip((own + 1).tolist(), number.tolist(), named, quantity.tolist(), strict=True))
    who = np.repeat(np.arange(n_customers), rng.poisson(np.where(plan == "stream", 4.0, 1.0)))
    what = _liked(rng, born[who], genre[of], year[of])
    pairs = pd.DataFrame({"who": who, "what": what}).drop_duplicates()
    fits = (born[pairs["who"]] < 1980) == (year[of][pairs["what"]] < 1990)
    stars = np.clip(rng.normal(np.where(fits, 4.2, 2.6), 0.9), 1, 5).round().astype(int)
    rows["rating"] = list(zip((pairs["who"] + 1).tolist(), (pairs["what"] + 1).tolist(), stars.tolist(), strict=True))
    with sqlite3.connect(":memory:") as database:
        database.execute("pragma foreign_keys = on")
        database.executescript(RECORDS_SQL)
        for name, content in rows.items():
            database.executemany(f"insert into {name} values ({', '.join('?' * len(content[0]))})", content)
        return {name: pd.read_sql_query(f"select * from {name}", database) for name in rows}


def _liked(rng: np.random.Generator, born: np.ndarray, genre: np.ndarray, year: np.ndarray) -> np.ndarray:
    """A track for each buyer: jazz and old ones rather by older people."""
    weights = np.array([[2.0, 0.5, 0.7, 1.0], [0.5, 2.0, 1.5, 1.0]])
    kinds = np.array(["jazz", "pop", "rock", "folk"])
    result = np.empty(len(born), dtype=np.int64)
    for at, is_young in enumerate((born < 1980, born >= 1980)):
        weight = weights[at][np.argmax(genre[:, None] == kinds, axis=1)] * np.where(
            (year < 1990) == (at == 0), 2.0, 0.5
        )
        result[is_young] = rng.choice(len(genre), int(is_young.sum()), p=weight / weight.sum())
    return result


def shop_schemas(n_customers: int) -> Mapping[str, Schema]:
    """What is public of a shop of so many customers at most, whose regions and products are, too."""

    def declared(**columns: Any) -> Schema:
        return build_schema({"status": "declared", "n_units": n_customers, "dataset": "shop", "columns": columns})

    def of(*categories: str) -> dict[str, Any]:
        return {"kind": "categorical", "categories": categories}

    def whole(low: int, high: int) -> dict[str, Any]:
        return {"kind": "integer", "bounds": (low, high)}

    numbers = {"kind": "identifier", "bounds": (1, 10**8)}
    customer = {"kind": "identifier", "template": "C#######"}
    day = {"kind": "date", "bounds": ("2023-01-01", "2024-12-31")}
    return {
        "customer": declared(
            customer_id=customer, region_id={**numbers, "missing": True}, age=whole(18, 90), member=of("no", "yes")
        ),
        "order": declared(
            order_id=numbers, customer_id=customer, day=day, channel=of("phone", "shop", "web"), discount=whole(0, 20)
        ),
        "line": declared(
            order_id=numbers, line_no=whole(1, 6), quantity=whole(1, 12),
            product_id={"kind": "identifier", "template": "P-###", "missing": True},
            amount={"kind": "real", "bounds": (0, 2000), "decimals": 2},
        ),
        "ticket": declared(
            ticket_id=numbers, customer_id=customer, order_id={**numbers, "missing": True},
            topic=of("bill", "delivery", "other"), score=whole(1, 5),
        ),
    }  # fmt: skip
