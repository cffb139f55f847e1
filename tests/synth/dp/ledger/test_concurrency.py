"""Many processes at one ledger, and processes that are killed while they write to it."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synth.dp.ledger import Ledger, Request, open_ledger
from synth.dp.ledger import ledger as module
from synth.dp.ledger.store import add
from synth.dp.renyi_curve import RdpCurve, RdpFilter
from synth.errors import LedgerError

HAMMER = Path(__file__).with_name("hammer.py")


def hammer(*words: Any) -> Any:
    arguments = [words[0], *(json.dumps(word) for word in words[1:])]
    done = subprocess.run([sys.executable, HAMMER, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def n_that_fit(rho: float) -> int:
    total, spent, n = RdpFilter(1.0, 1e-6), RdpCurve.zero(), 0
    while total.admits(spent := spent + RdpCurve.of_rho(rho)):
        n += 1
    return n


@pytest.mark.statistical
def test_a_race_of_many_grants_exactly_what_fits(ledger: Ledger, url: str) -> None:
    rho, n_processes, count = 1e-4, 8, 50
    fits = n_that_fit(rho)
    assert 100 < fits < n_processes * count - 50
    granted = [token for tokens in hammer("race", url, n_processes, count, rho) for token in tokens]
    assert len(granted) == fits
    (held,) = ledger.holdings()
    assert held.n_releases == fits and held.spent_epsilon <= 1.0
    assert {entry.token for entry in ledger.history() if entry.kind == "reserved"} == set(granted)
    assert ledger.verify() == ()


@pytest.mark.statistical
def test_the_last_epsilon_has_one_winner(ledger: Ledger, url: str) -> None:
    n_rounds = 20
    for number in range(n_rounds):
        ledger.open(f"d{number}", unit="row", epsilon=1.0, n_units=30_000)
    assert n_that_fit(0.02) == 1
    first, second = hammer("duel", url, "reserve", n_rounds)
    assert all(one != other for one, other in zip(first, second, strict=True))


@pytest.mark.statistical
def test_a_reservation_has_one_user(ledger: Ledger, url: str, ask: Callable[..., Request]) -> None:
    n_rounds = 20
    ledger.reserve([ask(f"t{number}", 1e-5) for number in range(n_rounds)])
    first, second = hammer("duel", url, "use", n_rounds)
    assert all(one != other for one, other in zip(first, second, strict=True))


@pytest.mark.statistical
def test_what_was_acknowledged_outlives_a_kill_and_a_retry_counts_once(ledger: Ledger, url: str) -> None:
    times, longest_s = (200, 0.03) if url.startswith("sqlite") else (60, 0.1)
    counts = hammer("kill", url, times, longest_s)
    assert counts["reserved"] == counts["tried"] > times // 2 and counts["cut"] > times // 10
    assert ledger.verify() == ()
    assert ledger.holdings()[0].n_releases == counts["tried"]


def test_threads_of_one_process_may_share_a_ledger(ledger: Ledger, ask: Callable[..., Request]) -> None:
    rho = 0.001
    won: list[str] = []

    def work(name: str) -> None:
        for number in range(8):
            try:
                ledger.reserve([ask(f"{name}-{number}", rho)])
            except LedgerError:
                continue
            won.append(name)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == min(32, n_that_fit(rho)) == ledger.holdings()[0].n_releases


def test_a_transaction_that_was_undone_leaves_no_trace(
    ledger: Ledger, url: str, ask: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_at_the_second(connection: Any, entry: Any) -> None:
        if entry.token == "b":
            raise KeyboardInterrupt
        add(connection, entry)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "add", fails_at_the_second)
        ledger.reserve([ask("a"), ask("b")])
    with pytest.raises(LedgerError, match="never reserved"):
        ledger.use("a")
    ledger.reserve([ask("a")])
    assert open_ledger(url).verify() == () and open_ledger(url).holdings() == ledger.holdings()
