"""Processes that fight over a ledger, or die while they write to it; run as a script, it prints what came of it."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

from synth.dp.ledger import Ledger, Request, open_ledger
from synth.dp.renyi_curve import RdpCurve
from synth.errors import LedgerError

FORK = multiprocessing.get_context("fork")
WON = {"reserved": 1, "used": 2, "committed": 3}


def request(token: str, rho: float, dataset: str = "adult") -> Request:
    return Request(token, dataset, "row", "mst", RdpCurve.of_rho(rho), "abc123")


def granted(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except LedgerError as refusal:
        if "would bring epsilon" not in str(refusal) and "used once" not in str(refusal):
            raise
        return False
    return True


def _reserve_many(job: tuple[str, int, int, float]) -> list[str]:
    url, process, count, rho = job
    ledger = open_ledger(url)
    tokens = [f"{process}-{number}" for number in range(count)]
    return [token for token in tokens if granted(partial(ledger.reserve, [request(token, rho)]))]


def race(url: str, n_processes: int, count: int, rho: float) -> list[list[str]]:
    """What each of the processes was granted."""
    with FORK.Pool(n_processes) as pool:
        return pool.map(_reserve_many, [(url, process, count, rho) for process in range(n_processes)], chunksize=1)


def _meet_and_do(job: tuple[str, str, int, int]) -> list[bool]:
    url, what, process, n_rounds = job
    ledger = open_ledger(url)

    def fight(number: int) -> object:
        _BARRIER.wait(timeout=30)  # the other one may have failed
        if what == "use":
            return ledger.use(f"t{number}")
        return ledger.reserve([request(f"{process}-{number}", 0.02, f"d{number}")])

    return [granted(partial(fight, number)) for number in range(n_rounds)]


_BARRIER = FORK.Barrier(2)


def duel(url: str, what: str, n_rounds: int) -> list[list[bool]]:
    """Who won each round, of two processes that start it together."""
    with FORK.Pool(2) as pool:
        return pool.map(_meet_and_do, [(url, what, process, n_rounds) for process in range(2)], chunksize=1)


def _live(url: str, name: str, pipe: int) -> None:
    """Reserve, use and commit until killed, telling each step before and after it is taken."""
    ledger = open_ledger(url)
    for number in range(1000):
        token = f"{name}-{number}"
        os.write(pipe, f"trying {token}\n".encode())
        steps = (ledger.reserve([request(token, 1e-6)])[0], ledger.use(token), ledger.commit(token, {"epsilon": 0.1}))
        for step in steps:
            os.write(pipe, f"{step.state} {token}\n".encode())


def _lived(url: str, name: str, life_s: float) -> list[list[str]]:
    """What a process had told when it was killed."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        _live(url, name, writes)
        os._exit(0)
    os.close(writes)
    time.sleep(life_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reads, "rb") as told:
        lines = told.read().decode().splitlines()
    return [line.split() for line in lines]


def _check(ledger: Ledger, told: list[list[str]]) -> int:
    """How many tokens were tried, once all that was acknowledged is found and what was not is done again."""
    assert ledger.verify() == ()
    for state, token in told:
        if state != "trying":
            assert WON[ledger.reservation(token).state] >= WON[state], (state, token)
    tried = [token for state, token in told if state == "trying"]
    if tried:
        again = ledger.reserve([request(tried[-1], 1e-6)])
        assert again == ledger.reserve([request(tried[-1], 1e-6)])
    return len(tried)


def kill(url: str, times: int, longest_s: float) -> dict[str, int]:
    """How many tokens were tried by processes that were killed, how many were killed in a reservation, and how many
    reservations there are.
    """
    chance = random.Random(7)
    ledger = open_ledger(url)
    n_tried = n_cut = 0
    for number in range(times):
        told = _lived(url, f"life{number}", chance.uniform(0, longest_s))
        n_tried += _check(ledger, told)
        n_cut += bool(told) and told[-1][0] == "trying"
    reserved = [entry.token for entry in ledger.history() if entry.kind == "reserved"]
    assert len(set(reserved)) == len(reserved)
    return {"tried": n_tried, "cut": n_cut, "reserved": len(reserved)}


if __name__ == "__main__":
    tasks: dict[str, Callable[..., object]] = {"race": race, "duel": duel, "kill": kill}
    arguments = [json.loads(word) for word in sys.argv[2:]]
    sys.stdout.write(json.dumps(tasks[sys.argv[1]](*arguments)))
