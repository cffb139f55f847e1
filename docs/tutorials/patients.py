"""Draw patients.csv, the table of the tutorials: stays in a hospital that does not exist.

`python patients.py 20000` draws so many rows; 6,000 unless said.
"""

import sys

import numpy as np
import pandas as pd

N = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
rng = np.random.default_rng(2026)

ward = rng.choice(["surgery", "medicine", "cardiology", "maternity"], N, p=[0.3, 0.4, 0.2, 0.1])
sex = np.where((ward == "maternity") | (rng.random(N) < 0.48), "female", "male")
age = np.where(ward == "maternity", rng.normal(31, 5, N), rng.normal(62, 17, N)).clip(18, 99).astype(int)
smoker = rng.random(N) < np.where(age < 60, 0.28, 0.15)
days = rng.poisson(1 + age / 20 + 2 * (ward == "cardiology"))
admitted = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, N), unit="D")
cost = rng.lognormal(6.2 + 0.08 * days + 0.4 * (ward == "surgery"), 0.35).round(2)
readmitted = rng.random(N) < 1 / (1 + np.exp(4.2 - age / 30 - days / 8 - smoker))

columns = {
    "age": age,
    "sex": sex,
    "ward": ward,
    "smoker": np.where(smoker, "yes", "no"),
    "admitted": admitted.strftime("%Y-%m-%d"),
    "discharged": (admitted + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d"),
    "cost": cost,
    "readmitted": np.where(readmitted, "yes", "no"),
}
pd.DataFrame(columns).to_csv("patients.csv", index=False)
