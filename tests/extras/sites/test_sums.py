"""What a server of several sites sees, and what the noise of a sum is: with colluders, drop-outs and faults."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synth.domain import Discretizer
from synth.dp.events import GaussianEvent
from synth.dp.mechanisms import NoNoise
from synth.errors import BudgetError
from tests.extras.sites.conftest import NAMES, Altered, SitesHome, cells_query, dies
from understudy.extras.sites.channel import ChannelError, LocalChannel, SitesError, pack, unpack
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.remote_table import RemoteRows, SecureSums, SitesBudget
from understudy.extras.sites.secure_aggregation import AggregationError
from understudy.extras.sites.server import serve, verdict_of
from understudy.extras.sites.site import CountQuery, NoiseShare, NoisyAnswers, Site

CELLS = {"name": "independent", "epsilon": 0.5}
N_SUMS = 40  # sums whose noise is looked at together
Z = 4.5  # standard errors that a right program exceeds once in 100,000 times


def sites_of(home: SitesHome, noises: Mapping[str, Any] | None = None) -> dict[str, Site]:
    return {
        name: Site(name, home.inputs, home.table(name), noise=(noises or {}).get(name)) for name in NAMES
    }  # fmt: skip


def exact_cells(home: SitesHome, names: tuple[str, ...] = NAMES) -> np.ndarray:
    total = 0
    for name in names:
        site = Site(name, home.inputs, home.table(name), noise=NoNoise())
        total = total + site.noisy(cells_query(home))
    return np.asarray(total)


def residual(home: SitesHome, noises: Mapping[str, Any] | None = None, gone: tuple[str, ...] = ()) -> np.ndarray:
    """Noise of one sum over all cells, in standard deviations of what the event states."""
    total, answered = summed(home, {**sites_of(home, noises), **dict.fromkeys(gone, DEAD)})
    assert answered == tuple(name for name in NAMES if name not in gone)
    return np.asarray((total - exact_cells(home, answered)) / home.inputs.schedule.events[0].sigma)  # type: ignore[union-attr]


def summed(home: SitesHome, sites: Any, **more: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """One sum of all cells over sites, or by a channel to them."""
    channel = sites if isinstance(sites, LocalChannel) else LocalChannel(sites)
    n_cells = sum(each.n_cells for each in Discretizer.by_schema(home.inputs.counted).attributes)
    return SecureSums(channel, home.inputs, **more).ask(cells_query(home), "cells", n_cells)


DEAD = Altered(None, lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]


def noise_ratio(home: SitesHome, noises: Mapping[str, Any] | None = None) -> tuple[float, float]:
    """Variance of the noise of sums by that of the shares of all sites, and how far chance takes it from 1."""
    noise = np.concatenate([residual(home, noises) for _ in range(N_SUMS)])
    expected = len(NAMES) / home.inputs.job.n_honest
    return float(noise.var()) / expected, Z * math.sqrt(2 / len(noise))


@pytest.mark.statistical
@pytest.mark.parametrize("trust", [{"colluding": 0, "dropouts": 1}, {"colluding": 2}])
def test_a_sum_has_the_stated_noise_from_honest_sites_alone(sites_home: SitesHome, trust: dict[str, int]) -> None:
    sites_home.write(CELLS, **trust)
    ratio, chance = noise_ratio(sites_home)
    assert abs(ratio - 1) < chance


def test_sites_that_drop_out_leave_as_much_noise_as_is_stated(sites_home: SitesHome) -> None:
    sites_home.write(CELLS, colluding=0, dropouts=1)
    noise = residual(sites_home, gone=("west",))
    assert abs(noise.var() - 1) < Z * np.sqrt(2 / len(noise))
    with pytest.raises(SitesError, match="no sum of 'cells' came together"):
        summed(sites_home, {**sites_of(sites_home), "west": DEAD, "north": DEAD})


@pytest.mark.statistical
@pytest.mark.parametrize(
    "fault",
    [lambda n: NoNoise(), lambda n: NoiseShare(2 * n), lambda n: NoiseShare(4)],
    ids=["none", "half the variance", "as if all were honest"],
)
def test_noise_that_is_missing_at_one_site_is_caught(sites_home: SitesHome, fault: Callable[[int], Any]) -> None:
    sites_home.write(CELLS, colluding=2)
    faulty = dict.fromkeys(NAMES[:1], fault(sites_home.inputs.job.n_honest))
    ratio, chance = noise_ratio(sites_home, faulty)
    assert ratio < 1 - chance


def test_the_server_receives_masked_numbers_alone(sites_home: SitesHome) -> None:
    sites_home.write(CELLS)
    received: list[tuple[str, bytes]] = []
    sites = sites_of(sites_home)

    def listen(site: str, way: str, payload: bytes) -> None:
        if way == "reply":
            received.append((site, payload))

    total, _ = summed(sites_home, LocalChannel(sites, listen))
    answers = {name: site._answers.kept["mask=0"][1] for name, site in sites.items()}
    assert (sum(answers.values()) == total).all()
    for name, answer in answers.items():
        (masked,) = (
            payload for site, payload in received if site == name and answer.nbytes < len(payload) < answer.nbytes + 200
        )
        assert all(answer.tobytes() not in payload for _, payload in received)
        # Under masks, numbers below a few thousand fill all 64 bits.
        shown = np.frombuffer(masked[-answer.nbytes :], dtype="<u8")
        assert abs((shown >> np.uint64(63)).mean() - 0.5) < Z * 0.5 / np.sqrt(len(shown))
        assert len(np.unique(shown - answer.view(np.uint64))) > 0.99 * len(shown)


def test_a_site_that_dies_changes_the_statement_and_not_the_guarantee(sites_home: SitesHome) -> None:
    sites_home.write({"name": "mst", "epsilon": 1.0}, dropouts=1)
    with sites_home.participants() as sites:
        channel = LocalChannel({**sites, "south": dies(sites["south"], "mask", 1)})
        outcome = serve(sites_home.inputs, channel, sites_home.home / "out")
    statement, planned = outcome.statement, sites_home.inputs.schedule
    assert statement.events == tuple(event.record() for event in planned.events)
    assert statement.epsilon == planned.epsilon
    assert outcome.dropped == ("south",) and outcome.verdicts["south"] == "not heard"
    assert any("south" in caveat and "dropped out" in caveat for caveat in statement.caveats)
    assert outcome.exit_code != 0
    # The counts of the others stand for all: as many rows as there are.
    assert len((sites_home.home / "out" / "synthetic.csv").read_text().splitlines()) == 1601


def test_an_answer_is_drawn_once_and_outlives_its_site(sites_home: SitesHome, tmp_path: Any) -> None:
    inputs = sites_home.write(CELLS)
    folder = tmp_path / "answers"
    folder.mkdir()

    def start() -> Site:
        return Site("east", inputs, sites_home.table("east"), NoisyAnswers(folder))

    first = start()
    drawn = first.noisy(cells_query(sites_home))
    assert (first.noisy(cells_query(sites_home)) == drawn).all()
    again = start()
    assert (again.noisy(cells_query(sites_home)) == drawn).all()
    for site in (first, again):
        with pytest.raises(BudgetError, match="no further release"):
            site.noisy(cells_query(sites_home, 1))
    with pytest.raises(SitesError, match="was another query before"):
        again.noisy(CountQuery(number=0, event=0, kind="cliques", cliques=(("age",),)))


def test_cells_of_an_answer_are_bounded_however_few_codes_they_share(
    sites_home: SitesHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a server that departs from the protocol: what is claimed of sums of noise rests on the number of cells."""
    sites_home.write(CELLS)
    query = cells_query(sites_home)
    for codes in query.discretizer.values():
        codes["group"] = [0] * (len(codes["group"]) - 2) + [1, 2]
    n_codes = 3 * len(query.cliques)
    monkeypatch.setattr("understudy.extras.sites.site.MOST_CELLS", n_codes)
    with pytest.raises(SitesError, match=f"have not 1 to {n_codes} cells"):
        sites_of(sites_home)["east"].noisy(query)


def sum_of(home: SitesHome, folders: Mapping[str, Path], gone: tuple[str, ...] = ()) -> np.ndarray:
    """One sum of sites that are started for it, each from the answers in its folder."""
    sites: dict[str, Any] = {}
    for name, folder in folders.items():
        folder.mkdir(exist_ok=True)
        sites[name] = DEAD if name in gone else Site(name, home.inputs, home.table(name), NoisyAnswers(folder))
    return summed(home, sites)[0]


def a_second_sum_is_refused(home: SitesHome) -> None:
    """The server saw a sum and was killed before it had kept it; when it asks again, a site is gone.

    The difference of the two sums would be that site's answers, with the noise of one site alone.
    """
    home.write(CELLS, dropouts=1, colluding=0)
    folders = {name: home.home / f"answers-{name}" for name in NAMES}
    first = sum_of(home, folders)
    with pytest.raises(SitesError, match="no sum"):
        sum_of(home, folders, gone=("west",))
    assert (sum_of(home, folders) == first).all()


def old_answers_are_not_mixed_with_new_ones(home: SitesHome) -> None:
    """One site was cut short before the end of a run; the others finished and begin another.

    If it gave its old answers to sums of their new ones, the noise would average out over runs.
    """
    home.write(CELLS)
    folders = {name: home.home / f"answers-{name}" for name in NAMES}
    first = sum_of(home, folders)
    assert (sum_of(home, folders) == first).all()
    anew = {name: home.home / f"anew-{name}" for name in ("north", "south", "west")}
    with pytest.raises(SitesError, match="no sum"):
        sum_of(home, {**folders, **anew})


def test_sites_that_are_told_of_other_answers_share_no_masks(sites_home: SitesHome) -> None:
    """By a server that departs from the protocol: it asks a site as if all others had their old answers still."""
    sites_home.write(CELLS)

    def act(site: Site, task: str, request: bytes) -> bytes:
        content, body = unpack(request)
        return site.answer(pack({**content, "answer_ids": old} if task == "advertise" else content, body))

    sites: dict[str, Any] = dict(sites_of(sites_home))
    old = {name: site._answers.books["id"] for name, site in sites.items()}
    summed(sites_home, sites)
    with pytest.raises(SitesError, match="no sum"):
        summed(sites_home, {**sites_of(sites_home), "east": Altered(sites["east"], act)})


RULES = {"record_sum": a_second_sum_is_refused, "check_peers": old_answers_are_not_mixed_with_new_ones}
"""Rules of a site's answers, and the check that each is kept."""


@pytest.mark.parametrize("rule", RULES)
def test_the_same_answers_are_in_one_sum_alone(sites_home: SitesHome, rule: str) -> None:
    RULES[rule](sites_home)


@pytest.mark.parametrize("rule", RULES)
def test_a_site_that_does_not_keep_the_rule_is_caught(
    sites_home: SitesHome, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    monkeypatch.setattr(NoisyAnswers, rule, lambda *_: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        RULES[rule](sites_home)


def total_after_a_drop(home: SitesHome) -> tuple[float, float]:
    """The total of a marginal after a site of 400 of 1,600 rows dropped out, by that before, and the chance's part."""
    inputs = home.write({"name": "mst", "epsilon": 20.0}, dropouts=1, colluding=0)
    sites: dict[str, Any] = dict(sites_of(home))
    sites["south"] = dies(sites["south"], "mask", 1)
    cells, pairs = (event for event in inputs.schedule.events[:2] if isinstance(event, GaussianEvent))
    budget = SitesBudget(inputs.schedule, SecureSums(LocalChannel(sites), inputs))
    rows, codes = RemoteRows(inputs.schema), Discretizer.by_schema(inputs.schema)
    before = budget.release_each(list(rows.cell_counts(codes.attributes)), cells)
    after = budget.release(rows.coded(codes).counts(("town", "ill")), pairs)
    assert budget.dropped == {"south"}
    error = math.hypot(cells.sigma * math.sqrt(max(map(len, before))), pairs.sigma * math.sqrt(after.size)) / 1200
    return float(after.sum() / np.mean([counts.sum() for counts in before])), Z * error


def test_counts_of_the_sites_that_are_left_stand_for_all_rows(sites_home: SitesHome) -> None:
    ratio, chance = total_after_a_drop(sites_home)
    assert abs(ratio - 1) < chance < 0.2


def test_a_server_that_does_not_scale_is_caught(sites_home: SitesHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SitesBudget, "_scaled", lambda self, sums, whole: sums)
    ratio, chance = total_after_a_drop(sites_home)
    assert ratio < 1 - chance


def replies(site: Any, task: str, reply: bytes) -> Altered:
    """A site that answers a task with bytes that are no message, and the others as it should."""
    return Altered(site, lambda site, asked, request: reply if asked == task else site.answer(request))


NONSENSE = {
    "no message": b"nonsense",
    "a verdict that is a list": pack({"verdict": ["PASS"], "answer_id": ["x"]}),
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE)
def test_a_site_that_talks_nonsense_is_left_out_of_a_sum(sites_home: SitesHome, reply: bytes) -> None:
    sites_home.write(CELLS, dropouts=1, colluding=0)
    sites = sites_of(sites_home)
    assert verdict_of(reply) == "not heard"
    for task in ("hello", "share", "mask"):
        known = {**sites_of(sites_home), "west": replies(sites["west"], task, reply)}
        assert summed(sites_home, known)[1] == ("east", "north", "south")


def keyed(home: SitesHome, task: str = "share") -> tuple[dict[str, Site], dict[str, dict[str, bytes]]]:
    """Sites, and what a server that was cut short before a stage of its first sum would have sent them next."""
    sites, sent = sites_of(home), dict[str, dict[str, bytes]]()

    class Cut(LocalChannel):
        def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
            name = unpack(next(iter(requests.values())))[0]["task"]
            sent[name] = dict(requests)
            if name == task:
                raise ChannelError("cut")
            return super().ask(requests, timeout_s)

    with pytest.raises(ChannelError, match="cut"):
        summed(home, Cut(sites))
    return sites, sent


def test_a_sum_is_recorded_once_its_request_is_in_order(sites_home: SitesHome) -> None:
    sites_home.write(CELLS, dropouts=1, colluding=0)
    sites, sent = keyed(sites_home, "unmask")
    site, request = sites["east"], sent["unmask"]["east"]
    content, body = unpack(request)
    for wrong in (["east"], [*NAMES, "east"], list(NAMES[1:])):
        with pytest.raises(AggregationError):
            site.answer(pack(content, json.dumps({**json.loads(body), "answered": wrong}).encode()))
    assert site._answers.books["sums"] == {}
    site.answer(request)
    assert site._answers.books["sums"] == {"mask=0": list(NAMES)}


def test_a_request_that_comes_again_in_a_sum_changes_nothing(sites_home: SitesHome) -> None:
    """Were it to name the sum anew, the server would get a second sum of the same answers, without one site."""
    inputs = sites_home.write({"name": "mst", "epsilon": 1.0}, dropouts=1, colluding=0)
    sites, sent = keyed(sites_home, "unmask")
    site, spent = sites["east"], dict(sites["east"]._spent)
    content, body = unpack(sent["mask"]["east"])
    other = {**CLIQUES, "discretizer": codes_of(inputs), "cliques": [["town", "ill"]]}
    with pytest.raises(AggregationError, match="come once"):
        site.answer(pack({**content, "query": other}, body))
    assert (list(site._answers.kept), site._spent, site._asked) == (["mask=0"], spent, "mask=0")
    site.answer(sent["unmask"]["east"])
    summed(sites_home, sites)
    with pytest.raises(SitesError, match="in a sum of other sites"):
        site._answers.record_sum("mask=0", NAMES[:3])


CLIQUES = {"number": 3, "event": 1, "kind": "cliques"}


def codes_of(inputs: SitesInputs) -> dict[str, Any]:
    return Discretizer.by_schema(inputs.schema).to_plain()


@pytest.mark.parametrize(("changed", "reason"), [
    ({"discretizer": {}}, "codes are not those"),
    ({"cliques": [["age", "nobody"]]}, "codes are not those"),
    ({"cliques": [["age", "income", "age", "income"]]}, "have not 1 to 50,000,000"),
    ({"groups": {"town": [0, 0]}}, "codes are not those"),
    ({"event": 0}, "does not pay"),
])  # fmt: skip
def test_a_site_refuses_what_its_schedule_does_not_pay_for(
    sites_home: SitesHome, changed: dict[str, Any], reason: str
) -> None:
    inputs = sites_home.write({"name": "mst", "epsilon": 1.0})
    site = Site("east", inputs, sites_home.table("east"))
    content = {**CLIQUES, "discretizer": codes_of(inputs), "groups": {}, "cliques": [["town", "ill"]], **changed}
    with pytest.raises(SitesError, match=reason):
        site.noisy(CountQuery.model_validate(content))
    assert site._answers.kept == {} and site._spent == {}
