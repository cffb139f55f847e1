"""Seconds and bytes of secure aggregation: set-up, one round of a site, one round of the server.

``python -m benchmarks.secure_aggregation`` prints a table; all sites run one after the other in one process. Rows with
drop-outs lose as many sites as the plan allows before their vectors come. Bytes are what one site sends.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from understudy.extras.sites.secure_aggregation import AggregationPlan
from understudy.extras.sites.server_aggregation import ServerAggregation
from understudy.extras.sites.site_aggregation import SiteAggregation


class Costs(NamedTuple):
    """Of one site in the set-up, then of one site and of the server in a round: medians over sites and rounds."""

    setup_s: float
    setup_bytes: int
    site_s: float
    server_s: float
    round_bytes: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.secure_aggregation", description=__doc__)
    parser.add_argument("--sites", type=int, nargs="+", default=[5, 10], help="numbers of sites")
    parser.add_argument("--lengths", type=int, nargs="+", default=[100_000, 1_000_000], help="lengths of vectors")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a run")
    options = parser.parse_args(arguments)
    print("sites  dropped     length  setup_s  setup_kB  site_s  server_s  round_kB")
    for n_sites in options.sites:
        plan = AggregationPlan("benchmark", tuple(map(str, range(n_sites))), n_sites // 2 + 1, options.rounds)
        for length in options.lengths:
            for n_dropped in (0, n_sites - plan.threshold):
                costs = measure(plan, length, n_dropped)
                print(
                    f"{n_sites:5}  {n_dropped:7}  {length:9,}  {costs.setup_s:7.3f}  {costs.setup_bytes / 1000:8.1f}  "
                    f"{costs.site_s:6.3f}  {costs.server_s:8.3f}  {costs.round_bytes / 1000:8.1f}"
                )


def measure(plan: AggregationPlan, length: int, n_dropped: int) -> Costs:
    """The costs of a run whose sums are checked."""
    sites = {site: SiteAggregation(plan, site) for site in plan.sites}
    server = ServerAggregation(plan)
    start = time.perf_counter()
    sent = 0
    for name, site in sites.items():
        content = site.advertise()
        sent += len(content)
        server.take_advertisement(name, content)
    keys = server.keys()
    for name, site in sites.items():
        content = site.share(keys)
        sent += len(content)
        server.take_shares(name, content)
    for name, site in sites.items():
        site.receive(server.shares_for(name))
    setup_s = (time.perf_counter() - start) / len(sites)
    answering = dict(list(sites.items())[n_dropped:])
    rounds = [_round(server, answering, index, length) for index in range(plan.n_rounds)]
    site_s, server_s = (statistics.median(one[place] for one in rounds) for place in (0, 1))
    return Costs(setup_s, sent // len(sites), site_s, server_s, int(rounds[0][2]))


def _round(
    server: ServerAggregation, sites: dict[str, SiteAggregation], index: int, length: int
) -> tuple[float, float, int]:  # fmt: skip
    rng = np.random.default_rng(index)
    vectors = {name: rng.integers(-(2**40), 2**40, length) for name in sites}
    start = time.perf_counter()
    masked = {name: site.mask(index, vectors[name]) for name, site in sites.items()}
    site_s = time.perf_counter() - start
    start = time.perf_counter()
    server.begin(index, length)
    for name, content in masked.items():
        server.take_masked(name, content)
    request = server.unmask_request()
    server_s = time.perf_counter() - start
    start = time.perf_counter()
    unmaskings = {name: site.unmask(request) for name, site in sites.items()}
    site_s += time.perf_counter() - start
    start = time.perf_counter()
    for name, content in unmaskings.items():
        server.take_unmasking(name, content)
    total = server.total()
    server_s += time.perf_counter() - start
    np.testing.assert_array_equal(total, sum(vectors.values()))
    first = next(iter(sites))
    return site_s / len(sites), server_s, len(masked[first]) + len(unmaskings[first])


if __name__ == "__main__":
    main()
