"""Networks trained over several sites, and faults of a site's training, each beside the check that must catch it."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from numpy.typing import NDArray
from scipy import stats

pytest.importorskip("torch", reason="the extra `neural` is not installed")
pytest.importorskip("Crypto.Protocol.SecretSharing", reason="the extra `sites` is not installed")

import torch

from synth.domain import Discretizer
from synth.dp.mechanisms import NoNoise, Steps, SystemNoise
from synth.errors import BudgetError
from synth.generators.models.fitted import NeuralModel
from synth.neural import dp_sgd
from synth.neural.encoding import BinnedEncoding
from synth.neural.training import UnitIndex
from synth.table import conform
from tests.extras.conftest import uncalibrated
from tests.extras.sites.conftest import NAMES, SIZES, Altered, SitesHome, dies
from tests.understudy.conftest import SCHEMA, small_table
from understudy.extras.sites import site
from understudy.extras.sites.channel import LocalChannel, SitesError
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.remote_table import SecureSums, SitesBudget, fit_network
from understudy.extras.sites.server import serve
from understudy.extras.sites.site import FULL_NOISE, ROUND, UNIT, NoiseShare, NoisyAnswers, Site, TrainingQuery, trained

SMALL = {"d_latent": 2, "encoder_widths": [8], "decoder_widths": [8]}
TVAE = {"name": "tvae", "epsilon": 2.0, "steps": 6, "sampling_rate": 0.1, **SMALL}
CTGAN = {"name": "ctgan", "epsilon": 2.0, "steps": 6, "sampling_rate": 0.1}
MANY = {**CTGAN, "steps": 60}
Job = Callable[..., SitesInputs]
ONE, TWO = {"local_steps": 1}, {"local_steps": 2}


@cache
def _job(content: str, home: Path) -> SitesInputs:
    inputs = SitesHome(home).write(**json.loads(content))
    vars(inputs)["schedule"] = uncalibrated(inputs.generator, inputs.schema)
    return inputs


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Jobs by generator and keys, read once."""
    home = tmp_path_factory.mktemp("jobs")
    (home / "schema.toml").write_text(tomli_w.dumps({**SCHEMA, "n_units": 1600, "dataset": "towns"}))
    return lambda generator, **keys: _job(json.dumps({"generator": generator, **keys}), home)


def parts() -> dict[str, pd.DataFrame]:
    """The rows of each site: unlike in number, and by age."""
    table = small_table(1600).sort_values("age", ignore_index=True)
    ends = np.cumsum(SIZES)
    cut = zip(NAMES, SIZES, ends, strict=True)
    return {name: table.iloc[end - size : end].reset_index(drop=True) for name, size, end in cut}


class Rounds:
    """Rounds that are asked of one site, whose answers are seen before they are masked."""

    def __init__(self, inputs: SitesInputs, rows: pd.DataFrame, noise: Any = None, folder: Path | None = None) -> None:
        self.inputs, self._noise, self._folder, self._rows = inputs, noise, folder, rows
        self.event = inputs.schedule.events[-1]
        self.expected = self.event.sampling_rate * 1600
        self.restart()

    def restart(self) -> None:
        self.site = Site("north", self.inputs, self._rows, NoisyAnswers(self._folder), self._noise)

    def query(self, number: int, *, weights: Any = None) -> tuple[TrainingQuery, bytes]:
        begin = np.zeros(self.d_weights) if weights is None else weights
        body, codes = begin.astype("<f4").tobytes(), Discretizer.by_schema(self.inputs.schema).to_plain()
        asked = {"number": number, "expected_batch": self.expected, "discretizer": codes}
        return TrainingQuery(**asked, digest=hashlib.sha256(body).hexdigest()), body

    def ask(self, number: int, **more: Any) -> NDArray[np.float64]:
        return self.site.training.answer(*self.query(number, **more)) / UNIT

    @property
    def d_weights(self) -> int:
        return len(network(self.inputs).weights)


def network(inputs: SitesInputs, rows: pd.DataFrame | None = None, expected: float = 160.0) -> Any:
    encoding = BinnedEncoding(Discretizer.by_schema(inputs.schema))
    frame = conform(parts()["north"].head(0) if rows is None else rows, inputs.schema, outside="clamp")
    units = UnitIndex.of(encoding.apply(frame))
    even = [np.ones(size) for size in encoding.layout.sizes]
    generator, _ = trained(inputs)
    return generator.training(units, encoding.layout, even, expected, torch.device("cpu"))


def still(trained: Any) -> NDArray[np.float64]:
    """Weights of a TVAE whose latent draws do not count, so that its gradients are the same each time."""
    with torch.no_grad():
        trained._encoder.log_variance.weight.zero_()
        trained._encoder.log_variance.bias.fill_(-60.0)
    return trained.weights.numpy().astype(np.float64)


def test_the_mean_of_gradients_is_that_of_all_rows_in_one_place(job: Job) -> None:
    """Of a critic of pairs, for sites of unlike rows and numbers."""
    inputs = job({**CTGAN, "sampling_rate": 1.0}, training=ONE)
    pooled = network(inputs, pd.concat(parts().values(), ignore_index=True), expected=1600.0)
    of_sites = [Rounds(inputs, rows, NoNoise()).ask(0) for rows in parts().values()]
    exact = pooled.update(Steps(inputs.schedule.events[-1], 1, NoNoise()), 1, pooled.weights).numpy()
    np.testing.assert_allclose(np.mean(of_sites, axis=0), exact, atol=1e-6)
    assert min(np.abs(update - exact).max() for update in of_sites) > 1e-3


def test_sites_with_the_same_rows_train_as_one_of_them_does(job: Job) -> None:
    n_steps = 3
    inputs, rows = job({**TVAE, "sampling_rate": 1.0}, training={"local_steps": n_steps}), parts()["south"]
    alone, server = network(inputs, rows, expected=400.0), network(inputs)
    server.put(torch.from_numpy(still(alone)).float())
    steps = Steps(inputs.schedule.events[-1], 3, NoNoise())
    for _ in range(3):
        alone.step(steps)
    sites = [Rounds(inputs, rows, NoNoise()) for _ in NAMES]
    for number in range(3 // n_steps):
        updates = [site.ask(number, weights=server.weights.numpy()) for site in sites]
        server.absorb(torch.from_numpy(np.mean(updates, axis=0)).float(), n_steps)
    torch.testing.assert_close(server.weights, alone.weights, atol=1e-5, rtol=0)


def test_sites_of_unlike_sizes_train_one_network_at_the_stated_epsilon(job: Job) -> None:
    inputs = replace(job(CTGAN, training={"local_steps": 2}))  # calibrated as it asks
    model = fitted(inputs, sites_of(inputs))
    assert model.statement is not None and model.statement.trust == "sites"
    assert model.statement.epsilon == pytest.approx(2.0, rel=2e-3)
    assert FULL_NOISE in model.statement.caveats
    assert len(model.sample(50, seed=0)) == 50


def sites_of(inputs: SitesInputs) -> dict[str, Site]:
    return {name: Site(name, inputs, rows) for name, rows in parts().items()}


def fitted(inputs: SitesInputs, sites: Mapping[str, Any]) -> NeuralModel:
    sums = SecureSums(LocalChannel(sites), inputs)
    return fit_network(sums, SitesBudget(inputs.schedule, sums))


def test_the_server_sees_no_update_of_one_site(job: Job) -> None:
    inputs = job(CTGAN, training={"local_steps": 2})
    sites, payloads = sites_of(inputs), list[bytes]()
    sums = SecureSums(LocalChannel(sites, lambda site, way, payload: payloads.append(payload)), inputs)
    fit_network(sums, SitesBudget(inputs.schedule, sums))
    updates = [site._answers.kept[ROUND][1] for site in sites.values()]
    assert all(len(update) > 100 for update in updates)
    assert not any(update[:16].tobytes() in payload for update in updates for payload in payloads)


def test_a_round_that_is_asked_again_has_the_same_answer_and_takes_no_step(job: Job, tmp_path: Path) -> None:
    inputs = job(TVAE, training=TWO)
    rounds = Rounds(inputs, parts()["north"], folder=tmp_path)
    first = rounds.ask(0)
    np.testing.assert_array_equal(rounds.ask(0), first)
    rounds.restart()
    np.testing.assert_array_equal(rounds.ask(0), first)
    with pytest.raises(SitesError, match="begin a new run"):
        rounds.ask(0, weights=np.ones(rounds.d_weights))
    assert not np.array_equal(rounds.ask(1), first)


def test_a_round_that_was_begun_and_lost_stays_spent(job: Job, tmp_path: Path) -> None:
    inputs = job(TVAE, training=TWO)
    rounds = Rounds(inputs, parts()["north"], folder=tmp_path)
    NoisyAnswers(tmp_path).keep(ROUND, rounds.query(0)[0].model_dump_json(), np.zeros(0, np.int64))
    rounds.restart()
    with pytest.raises(SitesError, match="its answer was lost"):
        rounds.ask(0)
    rounds.ask(1)
    rounds.ask(2)
    with pytest.raises(BudgetError, match="no further step"):
        rounds.ask(3)


TAIL = 6.0  # standard errors at which a statistical check alarms


def updates_have_the_full_noise(job: Job) -> None:
    inputs = job(MANY, training=ONE)
    rounds = Rounds(inputs, parts()["north"].head(0))
    update = rounds.ask(0) * rounds.expected / len(NAMES)
    ratio = float(np.mean((update / rounds.event.noise_multiplier) ** 2))
    assert len(update) > 2000
    assert abs(ratio - 1) < TAIL * np.sqrt(2 / len(update))


class Witness(NoNoise):
    def __init__(self) -> None:
        self.norms: list[float] = []

    def floats(self, values: NDArray[Any], sigma: float) -> NDArray[Any]:
        self.norms.append(float(np.linalg.norm(values)))
        return values


def a_unit_is_clipped(job: Job) -> None:
    inputs, witness = job({**TVAE, "sampling_rate": 1.0}, training=ONE), Witness()
    rounds = Rounds(inputs, parts()["north"].head(1), witness)
    rounds.ask(0, weights=3.0 * np.random.default_rng(0).normal(size=rounds.d_weights))
    assert 0.5 < witness.norms[0] <= 1 + 1e-4


def steps_end_with_the_budget(job: Job) -> None:
    inputs = job(TVAE, training=TWO)
    with tempfile.TemporaryDirectory() as folder:
        rounds = Rounds(inputs, parts()["north"], folder=Path(folder))
        for number in range(3):
            rounds.ask(number)
            rounds.restart()
        for number in range(3):  # each round is taken once, whatever weights it comes with
            with pytest.raises(SitesError):
                rounds.ask(number, weights=np.ones(rounds.d_weights))
        with pytest.raises(BudgetError):
            rounds.ask(3)


def samples_are_poisson(job: Job) -> None:
    """Every row's gradient of a critic of pairs has the same sum: a noiseless update tells the sample's size."""
    inputs = job(MANY, training=ONE)
    rows = parts()["north"].head(200)
    rounds = Rounds(inputs, rows, NoNoise())
    n_pairs = 4 * 3 / 2
    scale = rounds.expected / len(NAMES) / np.sqrt(n_pairs)
    sizes = np.array([rounds.ask(number).sum() * scale for number in range(60)])
    np.testing.assert_allclose(sizes, np.round(sizes), atol=1e-3)
    rate, n = 0.1, len(rows)
    assert abs(sizes.mean() - n * rate) < TAIL * np.sqrt(n * rate * (1 - rate) / len(sizes))
    spread = float(((sizes - n * rate) ** 2).sum() / (n * rate * (1 - rate)))
    least, most = stats.chi2.ppf((1e-7, 1 - 1e-7), len(sizes))
    assert least < spread < most


def _share_of_noise(self: Any, values: NDArray[Any], sigma: float) -> NDArray[Any]:
    return SystemNoise().floats(values, sigma / np.sqrt(3))


def _shuffled(self: Any, n_units: int, sampling_rate: float) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng().permutation(n_units)[: round(n_units * sampling_rate)])


def _beyond(inputs: SitesInputs, number: int) -> int:
    return int(inputs.job.training.local_steps)


def _unkept(self: NoisyAnswers, name: str, asked: str, values: NDArray[np.int64]) -> None:
    self.kept = {name: (asked, values)}


MUTANTS: dict[str, tuple[Callable[[Job], None], Any, str, Any]] = {
    "no noise": (updates_have_the_full_noise, NoiseShare, "floats", lambda self, values, sigma: values),
    "a share of the noise": (updates_have_the_full_noise, NoiseShare, "floats", _share_of_noise),
    "no clipping": (a_unit_is_clipped, dp_sgd, "clip_factors", lambda squared, bound: torch.ones_like(squared)),
    "steps beyond the budget": (steps_end_with_the_budget, site, "steps_of", _beyond),
    "rounds that are taken again": (steps_end_with_the_budget, NoisyAnswers, "keep", _unkept),
    "shuffled samples": (samples_are_poisson, NoNoise, "sample", _shuffled),
    "every unit in each sample": (samples_are_poisson, NoNoise, "sample", lambda self, n, rate: np.arange(n)),
}


@pytest.mark.parametrize(
    "check", dict.fromkeys(check for check, *_ in MUTANTS.values()), ids=lambda check: check.__name__
)
def test_the_check_passes_on_the_code_as_it_is(job: Job, check: Callable[[Job], None]) -> None:
    check(job)


@pytest.mark.parametrize("fault", MUTANTS)
def test_the_fault_is_caught(job: Job, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    check, owner, name, mutant = MUTANTS[fault]
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(job)


def test_a_site_that_was_in_no_histogram_pays_before_its_steps(sites_home: SitesHome) -> None:
    inputs = sites_home.write(TVAE, training={"local_steps": 2}, colluding=0, dropouts=1)
    vars(inputs)["schedule"] = uncalibrated(inputs.generator, inputs.schema)
    sites_home.open_ledgers(20.0)

    at_rounds: list[list[str]] = []

    def kinds() -> list[str]:
        return [entry.kind for entry in sites_home.ledger_entries("west")]

    def act(site: Any, task: str, request: bytes) -> bytes:
        reply = bytes(dies(site, "mask").answer(request))
        at_rounds.extend([kinds()] if task == "train" else [])
        return reply

    inputs = sites_home.inputs
    with sites_home.participant("west", ledger=sites_home.ledger("west")).at_work() as west:
        others = {name: Site(name, inputs, sites_home.table(name)) for name in NAMES[:3]}
        outcome = serve(inputs, LocalChannel({**others, "west": Altered(west, act)}), sites_home.home / "out")
    assert outcome.dropped == ("west",) and outcome.verdicts["west"] != "not heard"
    assert at_rounds == [["reserved", "used"]] * 3
    assert kinds() == ["reserved", "used", "committed"]
