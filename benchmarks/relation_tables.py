"""Tables whose columns hang together, drawn from a seed as texts of a CSV file, and what is true in their rows.

Each function gives a table, its target, and a function from a table to its relations: by name, whether a row keeps it,
1.0 or 0.0, NaN where it says nothing; shape (n,).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

Relations = Mapping[str, np.ndarray]
Planted = tuple[pd.DataFrame, str, Callable[[pd.DataFrame], Relations]]
SITES = {f"D{i:02d}": f"S{i % 5}" for i in range(30)}
CENT = 0.0051  # half a cent, and what floats add


def hospital(n: int = 6000, seed: int = 5) -> Planted:
    """Thirteen relations: of days, sums, products, shares, gaps; in two of them 1% of the rows are broken."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2021-01-04") + pd.to_timedelta(rng.integers(0, 1000, n), "D")
    ward = rng.choice(["surgery", "medicine", "icu", "children"], n, p=[0.3, 0.4, 0.1, 0.2])
    shape = pd.Series(ward).map({"surgery": 2.0, "medicine": 3.0, "icu": 6.0, "children": 1.5})
    stay = np.minimum(rng.gamma(shape.to_numpy(), 2.0), 60).astype(int)
    born = admitted - pd.to_timedelta((rng.beta(2, 2, n) * 90 * 365.25).astype(int), "D")
    price, quantity = rng.lognormal(3.5, 0.6, n).round(2), rng.integers(1, 9, n)
    total = (price * quantity).round(2)
    tax = (total * rng.choice([0, 0.055, 0.1, 0.21], n)).round(2)
    drug, lab = rng.lognormal(3, 1, n).round(2), rng.lognormal(2.5, 0.8, n).round(2)
    room = (stay * rng.choice([110.0, 145.0, 300.0], n)).round(2)
    bill = (drug + lab + room).round(2)
    insured = (bill * rng.choice([0.5, 0.7, 0.8, 1.0], n)).round(2)
    start = pd.Timestamp("2023-03-01") + pd.to_timedelta(rng.integers(0, 400 * 1440, n), "min")
    minutes = np.maximum(rng.gamma(2, 30, n).astype(int), 1)
    low = rng.normal(78, 10, n).round().astype(int)
    weight, height = rng.normal(75, 14, n).round(1), rng.normal(1.7, 0.1, n).round(2)
    department = rng.choice(list(SITES), n)
    frame = pd.DataFrame({
        "born": _days(born), "ward": ward, "admitted": _days(admitted),
        "discharged": _days(admitted + pd.to_timedelta(stay, "D")), "los_days": stay,
        "age": np.floor((admitted - born).days / 365.25).astype(int), "unit_price": price, "quantity": quantity,
        "total": total, "tax": tax, "due": (total + tax).round(2), "drug": drug, "lab": lab, "room": room,
        "bill": bill, "insured": insured, "own_part": (bill - insured).round(2), "visit_start": _times(start),
        "visit_end": _times(start + pd.to_timedelta(minutes, "min")), "minutes": minutes, "diastolic": low,
        "systolic": low + np.maximum(rng.gamma(6, 8, n).astype(int), 5), "weight": weight, "height": height,
        "bmi": (weight / height**2).round(1), "department": department, "site": pd.Series(department).map(SITES),
    }).astype(object)  # fmt: skip
    again = 1 / (1 + np.exp(-(stay - 6) / 3 - (ward == "icu")))
    frame["outcome"] = np.where(rng.random(n) < again, "again", "home")
    broken = rng.random(n) < 0.01
    frame.loc[broken, "bill"] = (bill[broken] * rng.uniform(0.5, 1.5, broken.sum())).round(2)
    broken = rng.random(n) < 0.01
    frame.loc[broken, "site"] = rng.choice(sorted({*SITES.values()}), broken.sum())
    for name in ("total", "discharged", "bmi", "lab"):
        frame.loc[rng.random(n) < 0.02, name] = None
    return _texts(frame), "outcome", _of_hospital


def _of_hospital(frame: pd.DataFrame) -> Relations:
    at, x = _read(frame, ("born", "admitted", "discharged", "visit_start", "visit_end"))
    total, stay = x["total"], x["los_days"]
    return {
        "discharged = admitted + los_days": _kept(
            (at["discharged"] - at["admitted"]).dt.days == stay, at["discharged"], stay
        ),
        "admitted <= discharged": _kept(at["discharged"] >= at["admitted"], at["discharged"]),
        "age = years from born to admitted": _kept(
            ((at["admitted"] - at["born"]).dt.days / 365.25).apply(np.floor) == x["age"], x["age"]
        ),
        "total = unit_price * quantity": _near(total, x["unit_price"] * x["quantity"]),
        "due = total + tax": _near(x["due"], total + x["tax"]),
        "bill = drug + lab + room": _near(x["bill"], x["drug"] + x["lab"] + x["room"]),
        "bill = insured + own_part": _near(x["bill"], x["insured"] + x["own_part"]),
        "visit_end = visit_start + minutes": _kept(
            (at["visit_end"] - at["visit_start"]).dt.total_seconds() / 60 == x["minutes"], x["minutes"]
        ),
        "diastolic <= systolic - 5": _kept(x["diastolic"] <= x["systolic"] - 5),
        "bmi = weight / height ** 2": _near(x["bmi"], x["weight"] / x["height"] ** 2, 0.0501),
        "department tells site": _kept(frame["department"].map(SITES) == frame["site"]),
        "room = los_days * 110, 145 or 300": _kept(
            np.any([(x["room"] - stay * rate).abs() < CENT for rate in (110, 145, 300)], axis=0), x["room"]
        ),
    }  # fmt: skip


def trips(n: int = 8000, seed: int = 3) -> Planted:
    """Taxi trips: two times, a fare by distance and minutes, and a sum of five."""
    rng = np.random.default_rng(seed)
    busy = np.array([2, 1, 1, 1, 1, 1, 2, 5, 7, 5, 4, 4, 5, 5, 5, 5, 5, 7, 8, 7, 6, 5, 4, 3], dtype=float)
    hour = rng.choice(24, n, p=busy / busy.sum())
    seconds = rng.integers(0, 28, n) * 86_400 + hour * 3600 + rng.integers(0, 3600, n)
    start = pd.Timestamp("2022-02-01") + pd.to_timedelta(seconds, "s")
    km = rng.lognormal(0.8, 0.8, n).round(2)
    speed = np.clip(rng.normal(17, 4, n) - 5 * ((hour > 7) & (hour < 19)), 5, 40)
    took = np.maximum((km / speed * 3600).astype(int), 30)
    fare = (2.5 + km * 1.6 + took / 60 * 0.35).round(1)
    extra = np.where((hour >= 20) | (hour < 6), 0.5, np.where((hour >= 16) & (start.dayofweek < 5), 1.0, 0.0))
    toll = np.where(rng.random(n) < 0.06, 6.55, 0.0)
    payment = rng.choice(["card", "cash", "dispute"], n, p=[0.68, 0.31, 0.01])
    share = rng.choice([0, 0.1, 0.15, 0.2, 0.25], n, p=[0.1, 0.2, 0.25, 0.35, 0.1])
    tip = np.where(payment == "card", ((fare + extra) * share).round(2), 0.0)
    frame = pd.DataFrame({
        "vendor": rng.choice([1, 2], n, p=[0.4, 0.6]), "pickup": _times(start),
        "dropoff": _times(start + pd.to_timedelta(took, "s")),
        "passengers": rng.choice([1, 2, 3, 4, 5, 6], n, p=[0.7, 0.15, 0.05, 0.03, 0.05, 0.02]), "distance": km,
        "zone_from": rng.choice(60, n) + 1, "zone_to": rng.choice(60, n) + 1, "payment": payment, "fare": fare,
        "extra": extra, "levy": 0.5, "toll": toll, "tip": tip, "total": (fare + extra + 0.5 + toll + tip).round(2),
    })  # fmt: skip
    return _texts(frame), "total", _of_trips


def _of_trips(frame: pd.DataFrame) -> Relations:
    at, x = _read(frame, ("pickup", "dropoff"))
    minutes, hour = (at["dropoff"] - at["pickup"]).dt.total_seconds() / 60, at["pickup"].dt.hour
    return {
        "total = fare + extra + levy + toll + tip": _near(
            x["total"], x["fare"] + x["extra"] + x["levy"] + x["toll"] + x["tip"]
        ),
        "pickup <= dropoff": _kept(minutes >= 0),
        "a trip takes two hours at most": _kept(minutes <= 120),
        "fare by distance and minutes": _near(x["fare"], 2.5 + 1.6 * x["distance"] + 0.35 * minutes, 0.06),
        "no tip but by card": _kept((frame["payment"] == "card") | (x["tip"] == 0)),
        "night has an extra of its own": _kept((x["extra"] == 0.5) == ((hour >= 20) | (hour < 6))),
    }


def loans(n: int = 6000, seed: int = 4) -> Planted:
    """Loans: sums, a balance, an installment by the annuity formula, and what a status rules out."""
    rng = np.random.default_rng(seed)
    amount, term = rng.choice(np.arange(1000, 40_001, 25), n), rng.choice([36, 60], n, p=[0.7, 0.3])
    grade = rng.choice(list("ABCDEFG"), n, p=[0.2, 0.28, 0.25, 0.15, 0.08, 0.03, 0.01])
    mean = pd.Series(grade).map(dict(zip("ABCDEFG", [7, 10.5, 14, 18, 22, 26, 29], strict=True))).to_numpy()
    rate = (mean + rng.normal(0, 1.2, n)).round(2).clip(5.3, 31)
    installment = _annuity(amount, rate, term).round(2)
    issued = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 48, n) * 30.4375, "D")
    issued = issued.to_period("M").to_timestamp()
    status = rng.choice(["paid", "current", "late", "default"], n, p=[0.4, 0.45, 0.05, 0.1])
    months = np.where(status == "paid", term, (rng.random(n) * term).astype(int))
    principal = np.where(status == "paid", amount, amount * months / term * rng.uniform(0.85, 1, n)).round(2)
    interest = (installment * months - principal).round(2).clip(0)
    late = np.where(rng.random(n) < 0.04, rng.gamma(2, 12, n).round(2), 0.0)
    frame = pd.DataFrame({
        "issued": _days(issued), "amount": amount, "term": term, "rate": rate, "installment": installment,
        "grade": grade, "income": rng.lognormal(11, 0.5, n).round(-2), "dti": rng.gamma(4, 4.5, n).round(2),
        "status": status, "principal_paid": principal, "interest_paid": interest, "late_fees": late,
        "paid_total": (principal + interest + late).round(2), "balance": (amount - principal).round(2),
        "last_payment": _days(issued + pd.to_timedelta(months * 30, "D")),
    })  # fmt: skip
    return _texts(frame), "interest_paid", _of_loans


def _of_loans(frame: pd.DataFrame) -> Relations:
    at, x = _read(frame, ("issued", "last_payment"))
    annuity = _annuity(x["amount"], x["rate"], x["term"])
    return {
        "paid_total = principal + interest + fees": _near(
            x["paid_total"], x["principal_paid"] + x["interest_paid"] + x["late_fees"]
        ),
        "balance = amount - principal": _near(x["balance"], x["amount"] - x["principal_paid"]),
        "installment within 5% of the annuity": _kept((x["installment"] / annuity - 1).abs() < 0.05),
        "issued <= last_payment": _kept(at["issued"] <= at["last_payment"]),
        "what is paid has no balance": _kept((frame["status"] != "paid") | (x["balance"] == 0)),
        "balance <= amount": _kept(x["balance"] <= x["amount"]),
    }


def admissions(n: int = 5000, seed: int = 6) -> Planted:
    """Admissions: days between times, open ends, office hours, and a cost that two share."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 1460, n), "D")
    kind = rng.choice(["emergency", "planned", "transfer"], n, p=[0.5, 0.4, 0.1])
    weekday = day.dayofweek.to_numpy()
    day += pd.to_timedelta(np.where((kind == "planned") & (weekday > 4), 7 - weekday, 0), "D")
    hour = np.where(kind == "planned", rng.integers(7, 11, n), rng.integers(0, 24, n))
    start = day + pd.to_timedelta(hour * 60 + rng.integers(0, 60, n), "min")
    end = start + pd.to_timedelta((np.maximum(rng.gamma(1.5, 3.2, n), 0.1) * 1440).astype(int), "min")
    days = (end.normalize() - start.normalize()).days
    intensive = np.where(rng.random(n) < 0.2, np.minimum(rng.gamma(2, 12, n).round().astype(int), days * 24), 0)
    cost = (450 * days + 90 * intensive + rng.lognormal(6, 0.6, n)).round(2)
    insurer = (cost * rng.choice([0.8, 0.9, 1.0], n)).round(2)
    frame = pd.DataFrame({
        "admission": _times(start), "discharge": _times(end), "kind": kind, "age": rng.integers(0, 95, n),
        "sex": rng.choice(["f", "m"], n), "days": days, "icu_hours": intensive, "cost": cost, "insurer": insurer,
        "copay": (cost - insurer).round(2), "died": rng.choice(["0", "1"], n, p=[0.94, 0.06]),
    }).astype(object)  # fmt: skip
    frame.loc[rng.random(n) < 0.03, ["discharge", "days"]] = None
    return _texts(frame), "died", _of_admissions


def _of_admissions(frame: pd.DataFrame) -> Relations:
    at, x = _read(frame, ("admission", "discharge"))
    start, end = at["admission"], at["discharge"]
    office = start.dt.hour.between(7, 10) & (start.dt.dayofweek < 5)
    return {
        "days from admission to discharge": _kept(
            (end.dt.normalize() - start.dt.normalize()).dt.days == x["days"], end, x["days"]
        ),
        "both are open, or neither": (end.isna() == x["days"].isna()).to_numpy().astype(np.float64),
        "cost = insurer + copay": _near(x["cost"], x["insurer"] + x["copay"]),
        "admission <= discharge": _kept(start <= end, end),
        "icu_hours <= 24 * days": _kept(x["icu_hours"] <= x["days"] * 24, x["days"]),
        "what is planned is in office hours": _kept((frame["kind"] != "planned") | office),
        "a stay is less than sixty days": _kept((end - start).dt.days < 60, end),
    }


TABLES: Mapping[str, Callable[[], Planted]] = {
    "hospital": hospital, "trips": trips, "loans": loans, "admissions": admissions,
}  # fmt: skip


def _annuity(amount: Any, rate: Any, term: Any) -> Any:
    monthly = rate / 1200
    return amount * monthly / (1 - (1 + monthly) ** -term)


def _days(times: pd.DatetimeIndex) -> Any:
    return times.strftime("%Y-%m-%d")


def _times(times: pd.DatetimeIndex) -> Any:
    return times.strftime("%Y-%m-%d %H:%M:%S")


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).map(lambda value: None if value is None else str(value))


def _read(frame: pd.DataFrame, times: tuple[str, ...]) -> tuple[dict[str, pd.Series], dict[str, pd.Series]]:
    """Columns of times, and of numbers; missing where a text is neither."""
    others = [name for name in frame if name not in times]
    numbers = {name: pd.to_numeric(frame[name], errors="coerce") for name in others}
    return {name: pd.to_datetime(frame[name], errors="coerce") for name in times}, numbers


def _kept(kept: Any, *used: pd.Series) -> np.ndarray:
    present = np.ones(len(kept), dtype=bool)
    for series in used:
        present &= series.notna().to_numpy()
    return np.where(present, np.asarray(kept, dtype=np.float64), np.nan)


def _near(value: pd.Series, formula: pd.Series, within: float = CENT) -> np.ndarray:
    return _kept((value - formula).abs() <= within, value, formula)
