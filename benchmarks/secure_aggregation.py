"""Seconds and bytes of secure aggregation: what one site and the server spend on one sum, by numbers of sites.

``python -m benchmarks.secure_aggregation`` prints a table; all sites run one after the other in one process. Rows with
drop-outs lose as many sites as the plan allows before their vectors come. Bytes are what one site sends.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence

import numpy as np

from understudy.extras.sites.secure_aggregation import AggregationPlan, SiteAggregation, sum_of_sites


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.secure_aggregation", description=__doc__)
    parser.add_argument("--sites", type=int, nargs="+", default=[5, 10], help="numbers of sites")
    parser.add_argument("--lengths", type=int, nargs="+", default=[100_000, 1_000_000], help="lengths of vectors")
    parser.add_argument("--sums", type=int, default=5, help="sums, of which medians are shown")
    options = parser.parse_args(arguments)
    print("sites  dropped     length  site_s  server_s  site_kB")
    for n_sites in options.sites:
        plan = AggregationPlan("benchmark", tuple(map(str, range(n_sites))), n_sites // 2 + 1)
        for length in options.lengths:
            for n_dropped in (0, n_sites - plan.threshold):
                costs = [measure(plan, length, n_dropped, seed) for seed in range(options.sums)]
                site_s, server_s, n_bytes = (statistics.median(each) for each in zip(*costs, strict=True))
                print(f"{n_sites:5}  {n_dropped:7}  {length:9,}  {site_s:6.3f}  {server_s:8.3f}  {n_bytes / 1000:7.1f}")


def measure(plan: AggregationPlan, length: int, n_dropped: int, seed: int) -> tuple[float, float, float]:
    """Seconds of a site and of the server, and bytes that a site sends, for a sum that is checked."""
    rng = np.random.default_rng(seed)
    sites = {name: SiteAggregation(plan, name) for name in plan.sites}
    vectors = {name: rng.integers(-(2**40), 2**40, length) for name in plan.sites}
    spent_s, n_bytes = 0.0, 0

    def ask(stage: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        nonlocal spent_s, n_bytes
        began, replies = time.perf_counter(), {}
        for name, message in messages.items():
            site = sites[name]
            if stage == "mask" and plan.place(name) < n_dropped:
                continue
            if stage == "mask":
                site.receive(message)
                replies[name] = site.mask(vectors[name])
            else:
                replies[name] = site.advertise() if stage == "advertise" else getattr(site, stage)(message)
        spent_s += time.perf_counter() - began
        n_bytes += sum(map(len, replies.values()))
        return replies

    began = time.perf_counter()
    total, answered = sum_of_sites(plan, length, ask)
    all_s = time.perf_counter() - began
    np.testing.assert_array_equal(total, sum(vectors[name] for name in answered))
    return spent_s / len(sites), all_s - spent_s, n_bytes / len(answered)


if __name__ == "__main__":
    main()
