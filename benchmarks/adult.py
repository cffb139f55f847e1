"""Private generators on Adult, ours and their peers, in one run that prints one table.

``python -m benchmarks.adult TABLE --out results.json``, where TABLE is UCI's ``adult.data``. Runs that the file holds
are kept, so that a run can be taken up again; ``python -m benchmarks.adult --out results.json`` only draws the table.
With ``--peers``, other libraries' MST and AIM run too, each in its own environment (``make bench-peers``): on the same
rows, with the same epsilon and delta, on codes of the same declared bins, values drawn evenly within a bin.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import synth
from benchmarks.adult_table import DELTA, Adult, read_adult
from benchmarks.drawing import draw
from benchmarks.estimation import compare, estimations
from benchmarks.peer import MODEL_MB, PEERS, REMARKS, run_peer
from benchmarks.runs import Results, Run
from benchmarks.scoring import Scorer
from synth import extras
from synth.generators import registry

PLAIN = ", no bins"
"""After a generator's name: fitted under bounds and categories only."""


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    results = Results(options.out)
    if options.table is not None:
        _measure(read_adult(options.table), options, results)
    print(draw(results))
    peers = dict.fromkeys(run.name.split(".")[0] for run in results.runs if "." in run.name)
    if peers:
        print(
            "\nPeers get the same rows, epsilon and delta, as codes of the same declared bins; values are drawn evenly"
        )
        print(f"within a bin, and a model is held to {MODEL_MB:g} MB where it can be.")
    for peer in peers:
        print(f"{peer}: {REMARKS[peer]}")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.adult", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="adult.data; none only draws what --out holds")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each")
    parser.add_argument("--generators", nargs="*", help="of ours; unless said, all private ones; may be none")
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="which; without a name all")
    parser.add_argument("--limit-s", type=float, default=600.0, help="seconds after which a peer is stopped, for good")
    parser.add_argument("--out", type=Path, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    if options.generators is None and options.table is not None:
        private = (name for name in registry.names() if registry.generator_class(name).private)
        options.generators = [name for name in private if name not in extras.entries("audit")]
    return options


def _measure(adult: Adult, options: argparse.Namespace, results: Results) -> None:
    scorer = Scorer(adult.train, adult.test, adult.target)
    _landmarks(adult, scorer, results)
    _warm_up(adult, options.generators)
    for epsilon in options.epsilon:
        for seed in range(options.seeds):
            for name in options.generators:
                for suffix in ("", PLAIN):
                    _once(results, Run(name + suffix, epsilon, seed), lambda run: _ours(adult, scorer, run))
            for name in _peers(options):
                _once(results, Run(name, epsilon, seed), lambda run: _peer(adult, scorer, run, options.limit_s))
    if options.peers is not None:
        _estimations(adult, options, results)


def _peers(options: argparse.Namespace) -> Sequence[str]:
    return () if options.peers is None else options.peers or PEERS


def _once(results: Results, run: Run, do: Callable[[Run], Run]) -> None:
    """Do a run unless it is there, and say so."""
    if results.has(run.name, run.epsilon, run.seed):
        return
    done = do(run)
    results.add(done)
    shown = done.failure or f"fit {done.fit_s or 0:.2f} s, tv3 {done.scores['tv3']:.4f}"
    print(f"{done.name}, epsilon {done.epsilon}, run {done.seed}: {shown}", file=sys.stderr)


def _landmarks(adult: Adult, scorer: Scorer, results: Results) -> None:
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame({name: rng.permutation(adult.train[name].to_numpy()) for name in adult.train})
    _once(results, Run("real train rows"), lambda run: _scored(run, scorer, adult.train))
    # What is trained on the test rows is not tested on them: a fresh sample has no TSTR.
    _once(results, Run("fresh real rows"), lambda run: _scored(run, scorer, adult.test, ("tv1", "tv2", "tv3", "c2st")))
    _once(results, Run("columns shuffled"), lambda run: _scored(run, scorer, shuffled))


def _warm_up(adult: Adult, names: Sequence[str]) -> None:
    """Late imports happen once, before the clock runs."""
    for name in names:
        registry.generator_class(name)
    if names:
        synth.fit(adult.train.head(500), adult.binned, "independent", epsilon=1.0, delta=DELTA).sample(10, seed=0)


def _ours(adult: Adult, scorer: Scorer, run: Run) -> Run:
    schema = adult.plain if run.name.endswith(PLAIN) else adult.binned
    started, used = time.perf_counter(), time.process_time()
    model = synth.fit(adult.train, schema, run.name.removesuffix(PLAIN), epsilon=run.epsilon, delta=DELTA)
    fitted, used = time.perf_counter(), time.process_time() - used
    synthetic = model.sample(len(adult.train), seed=run.seed)
    timed = replace(run, fit_s=fitted - started, fit_cpu_s=used, sample_s=time.perf_counter() - fitted)
    return _scored(timed, scorer, synthetic)


def _peer(adult: Adult, scorer: Scorer, run: Run, limit_s: float) -> Run:
    assert run.epsilon is not None
    privacy = {"epsilon": run.epsilon, "delta": DELTA}
    peer = run_peer(run.name, adult.train, adult.binned, privacy, run.seed, limit_s)
    if peer.synthetic is None:
        return replace(run, failure=peer.failure)
    return _scored(replace(run, **peer.times, versions=peer.versions), scorer, peer.synthetic)


def _scored(run: Run, scorer: Scorer, synthetic: pd.DataFrame, only: Sequence[str] = ()) -> Run:
    with threadpool_limits(1):  # many threads on few cores wait for each other most of the time
        figures = scorer.score(synthetic)
    return replace(run, scores={name: value for name, value in vars(figures).items() if not only or name in only})


def _estimations(adult: Adult, options: argparse.Namespace, results: Results) -> None:
    """One fit of each generator that estimates from pairs or more, at the first epsilon."""
    epsilon = options.epsilon[0]
    for name in ("mst", "aim"):
        if name not in options.generators or any(
            (estimation.name, estimation.epsilon) == (name, epsilon) for estimation in results.estimations
        ):
            continue
        registry.generator_class(name)
        with estimations() as seen:
            synth.fit(adult.train, adult.binned, name, epsilon=epsilon, delta=DELTA)
        results.add(compare(name, epsilon, seen[-1], options.limit_s))


if __name__ == "__main__":
    main(sys.argv[1:])
