"""Fits with columns of free text: what is refused, what is stated and paid, what is saved, and where a fit goes on.

A private fit is answered without a look at its table. Whatever of the table is then left shows, and so do lies.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from evaluate.gate.claim import cost
from synth.dp.budget import Budget
from synth.dp.events import SubsampledGaussianEvent
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.errors import BudgetError, JobError, SchemaError
from synth.generators.base import PrivateGenerator, fit_model
from synth.generators.registry import generator, load_model
from synth.neural import training as loop
from synth.neural.training import UnitIndex
from synth.schema import Schema, build_schema
from tests.extras.conftest import uncalibrated
from tests.extras.text.tiny import TINY
from tests.synth.generators.deaf_noise import N_UNITS, Watched
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text import tokens
from understudy.extras.text import training as texts
from understudy.extras.text.model import TextModel
from understudy.extras.text.themes import Themes
from understudy.extras.text.tokens import CodedVocabulary
from understudy.extras.text.training import PrivateTextTraining, TextFit
from understudy.extras.text.wrapper import PREPARED, STEPS, WithTexts

pytestmark = pytest.mark.filterwarnings("ignore:.*cuts .* of the texts", "ignore:noise hides how")

K, SPY = 3, "zebrafish"
NOTES = {TEXT: {"kind": "text", "learn": True, "length": 60, "missing": True}, "reply": {"kind": "text", "learn": True}}


@cache
def schema_of(entities: bool) -> Schema:
    columns: dict[str, Any] = {
        "product": {"kind": "categorical", "categories": ["card", "loan", "mortgage", "transfer"]},
        "rating": {"kind": "integer", "bounds": [1, 5]},
        **NOTES,
    }
    content: dict[str, Any] = {"status": "declared", "n_units": N_UNITS, "columns": columns}
    if entities:
        who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
        content |= {"entity": "who", "max_rows_per_unit": K, "columns": {**who, **columns}}
    return build_schema(content)


def people(entities: bool) -> dict[str, pd.DataFrame]:
    """Tables that have nothing in common but their columns."""
    plain = complaints(80, 0).drop(columns=["channel", "amount"])
    plain = plain.assign(reply=plain[TEXT].str[:30], who=np.arange(80) // 2)
    odd = complaints(130, 1).drop(columns=["channel", "amount"])
    odd = odd.assign(
        product=SPY, rating=9, reply=[f"{SPY} {i}" * (i % 40) for i in range(130)], who=np.arange(130) // 9
    )
    odd.loc[::2, TEXT] = None
    odd.loc[1:7:2, TEXT] = ["a\ud800b", "\0", "x" * 100_000, " "]
    tables = {"plain": plain, "odd": odd, "empty": plain.iloc[:0]}
    return tables if entities else {name: frame.drop(columns="who") for name, frame in tables.items()}


@cache
def specified(entities: bool, public: str | None = None) -> tuple[PrivateGenerator, Schema, Schedule]:
    """A private generator with texts, its schema, and what a fit will draw; with themes of public texts."""
    text: dict[str, Any] = {**TINY, "steps": 4, "learning_rate": 0.05, "sampling_rate": 0.1}
    if public is not None:
        text |= {"public_text": public, "public_epochs": 1, "themes": 5}
    chosen = generator("independent", epsilon=2.0, text=text)
    assert isinstance(chosen, PrivateGenerator)
    return chosen, schema_of(entities), uncalibrated(chosen, schema_of(entities))


def left(
    table: pd.DataFrame, entities: bool, folder: Path, has_place: bool, public: str | None
) -> dict[str, Any]:  # fmt: skip
    """All that a private fit leaves: files, statement, a sample, questions, messages, the log."""
    chosen, schema, schedule = specified(entities, public)
    budget, told = Watched(schedule), list[tuple[str, float | None]]()
    place = folder / "place" if has_place else None
    model = chosen.fit(
        table, schema, budget=budget, place=place, progress=lambda what, share: told.append((what, share))
    )
    model.save(folder / "model")
    logs = [path.read_text().splitlines() for path in (folder / "place").rglob("log.jsonl")]
    assert len(logs) == has_place
    assert model.statement is not None
    return {
        "statement": model.statement.to_dict(), "rows": model.default_rows, "questions": budget.deaf.questions,
        "messages": told, "log": [{**json.loads(line), "seconds": 0} for log in logs for line in log],
        "places": sorted(str(path.relative_to(folder)) for path in (folder / "place").rglob("*")),
        "sample": model.sample(10, seed=0).to_csv(),
        **{path.name: path.read_bytes() for path in (folder / "model").iterdir()},
    }  # fmt: skip


def differences(
    entities: bool, names: Sequence[str], folder: Path, has_place: bool = False, public: str | None = None
) -> list[str]:
    tables, different = people(entities), list[str]()
    first: dict[str, Any] | None = None
    for name in names:
        (folder / name).mkdir()
        parts = left(tables[name], entities, folder / name, has_place, public)
        first = first or parts
        different += [f"{name}: {part}" for part in {*first, *parts} if parts.get(part) != first.get(part)]
    return different


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders start alike: no start reads a real row."""
    monkeypatch.setattr(torch, "seed", lambda: torch.manual_seed(0).initial_seed())
    monkeypatch.setattr(texts, "N_PROMPT_ROWS", 200)


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize(
    ("entities", "names"),
    [pytest.param(False, ("plain", "odd", "empty"), marks=pytest.mark.statistical), (True, ("plain", "odd"))],
)
def test_what_a_private_fit_leaves_is_a_function_of_its_noisy_answers(
    entities: bool, names: tuple[str, ...], tmp_path: Path
) -> None:
    assert differences(entities, names, tmp_path, has_place=True) == []


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("public") / "public.txt"
    path.write_text("\n".join(complaints(60, 4)[TEXT]) + "\n", encoding="utf-8")
    return str(path)


_themes = Themes.learned


@pytest.mark.usefixtures("alike")
def test_themes_are_read_off_no_real_text(public: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(True, ("plain", "odd"), tmp_path, public=public) == []
    fit = WithTexts.fit

    def lying(self: WithTexts, train: pd.DataFrame, *more: Any, **named: Any) -> Any:
        real_texts = tuple(text for text in train[TEXT].dropna()) * 5
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Themes, "learned", lambda public, number: _themes(real_texts, number))
            return fit(self, train, *more, **named)

    monkeypatch.setattr(WithTexts, "fit", lying)
    (tmp_path / "lie").mkdir()
    assert differences(True, ("plain", "odd"), tmp_path / "lie", public=public) != []


def test_themes_are_counted_and_paid_as_columns_are(public: str) -> None:
    bare, schema, without = specified(False)
    chosen, _, schedule = specified(False, public)
    themed = chosen.counted(schema)
    assert len(themed.modeled) == len(schema.modeled) + 2 * 5 + 1  # and which complaints are missing
    assert bare.counted(schema).modeled == (*schema.modeled, f"{TEXT}: missing")
    counts, fewer = (
        sum(event.count for event in schedule_of.events if event.what != STEPS) for schedule_of in (schedule, without)
    )
    assert counts == fewer + 2 * 5


_writer, _of, _learned = TextFit.writer, CodedVocabulary.of, tokens.byte_pairs
_step = PrivateTextTraining.step


def _with_rows(name: str, owner: Any, lie: Callable[..., Any]) -> tuple[Any, str, Any]:
    """A lie that knows the real rows."""

    def lying(self: TextFit, real: pd.DataFrame) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, lambda *more: lie(real, *more))
            return _writer(self, real)

    return TextFit, "writer", lying


def _progress_of_rows(self: TextFit, real: pd.DataFrame) -> Any:
    self.progress(f"reading {len(real)} texts", None)
    return _writer(self, real)


def _fewer_where_some_are_missing(self: TextFit, real: pd.DataFrame) -> Any:
    most = 12 - int(8 * real[TEXT].isna().mean())
    return _writer(replace(self, text=self.text.model_copy(update={"max_tokens": most})), real)


def _batch_of_table(self: Any, decoder: Any, units: Any, n_prompt: int, expected: float, *more: Any) -> None:
    _init(self, decoder, units, n_prompt, max(len(units), 1) / 2, *more)


_init = PrivateTextTraining.__init__

LIES: Mapping[str, tuple[Any, str, Any]] = {
    "a vocabulary learned on the texts": _with_rows(
        "byte_pairs", tokens, lambda rows, given, size: _learned(rows["reply"].dropna().tolist(), size)
    ),
    "domains of prompts read off real rows": _with_rows(
        "of", CodedVocabulary, lambda rows, pairs, drawn, schema: _of(pairs, rows if len(rows) else drawn, schema)
    ),
    "fewer tokens where many texts are missing": (TextFit, "writer", _fewer_where_some_are_missing),
    "a message with the number of rows": (TextFit, "writer", _progress_of_rows),
    "an exact expected batch": (PrivateTextTraining, "__init__", _batch_of_table),
}

FAST = ("a vocabulary learned on the texts", "domains of prompts read off real rows")


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=[] if n in FAST else pytest.mark.statistical, id=n) for n, lie in LIES.items()]
)
def test_a_lie_about_what_reaches_the_model_is_caught(
    lie: tuple[Any, str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*lie)
    assert differences(True, ("plain", "odd"), tmp_path) != []


def weights(model: Any) -> np.ndarray:
    assert isinstance(model, TextModel)
    return np.concatenate([array.ravel() for array in model.writer.to_arrays().values()])


def same_seed_gives_other_private_weights() -> None:
    # All noise is the same, so that the start alone can tell two fits of one seed apart.
    chosen, schema, schedule = specified(True)
    frame = people(True)["plain"]
    first, other = (weights(chosen.fit(frame, schema, seed=5, budget=Watched(schedule))) for _ in range(2))
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.999
    assert not np.array_equal(first, other)


def texts_of_a_unit_are_sampled_and_clipped_together() -> None:
    # One entity of 3 rows, whose 6 texts are the same: 6 clipped gradients would add up to 6 times the bound.
    chosen, schema, schedule = specified(True)
    frame = people(True)["plain"].iloc[[0, 0, 0]].assign(who=7, reply="same", **{TEXT: "same"})
    budget, seen = Watched(schedule), list[float]()
    floats, sample = budget.deaf.floats, budget.deaf.sample
    n_units: list[int] = []
    budget.deaf.floats = lambda values, sigma: seen.append(float(np.linalg.norm(values))) or floats(values, sigma)  # type: ignore[method-assign,func-returns-value]
    budget.deaf.sample = lambda n, rate: n_units.append(n) or sample(n, rate)  # type: ignore[method-assign,func-returns-value]
    chosen.fit(frame, schema, budget=budget)
    assert n_units == [1] * 4
    assert len(seen) == 4
    assert all(0.9 < norm < 1 + 1e-5 for norm in seen)


Check = Callable[[], None]
CHECKS: tuple[Check, ...] = (same_seed_gives_other_private_weights, texts_of_a_unit_are_sampled_and_clipped_together)
_seeded, _unit_index = loop.seeded, UnitIndex.of


def _split(n: int) -> Any:
    return classmethod(lambda cls, encoded, ids=None, k=1: _unit_index(encoded, np.arange(len(encoded)) // n, k))


MUTANTS: Mapping[str, tuple[tuple[Any, str, Any], Check]] = {
    "the seed of the job": ((loop, "seeded", lambda seed, device: _seeded(5, device)), CHECKS[0]),
    "a unit's texts in samples of their own": ((UnitIndex, "of", _split(1)), CHECKS[1]),
    "a unit's columns in samples of their own": ((UnitIndex, "of", _split(3)), CHECKS[1]),
}  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_private_fits_on_texts(check: Check) -> None:
    check()


@pytest.mark.parametrize(("plant", "check"), MUTANTS.values(), ids=MUTANTS)
def test_every_mutant_is_caught(plant: tuple[Any, str, Any], check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*plant)
    with pytest.raises(AssertionError):
        check()


def test_one_statement_covers_rows_and_texts() -> None:
    chosen, schema, schedule = specified(True)
    stated = chosen.fit(people(True)["plain"], schema, budget=Budget(schedule)).statement
    assert stated is not None
    assert stated.epsilon == schedule.epsilon <= 2.0
    (of_texts,) = (event for event in schedule.events if event.what == STEPS)
    assert isinstance(of_texts, SubsampledGaussianEvent)
    assert [event.what for event in stated.events].count(STEPS) == 1
    assert len(stated.events) == len(schedule.events) > 1
    others = tuple(event for event in schedule.events if event != of_texts)
    whole, rest, alone = (cost(events, stated.delta) or 0.0 for events in (schedule.events, others, (of_texts,)))
    assert whole == pytest.approx(stated.epsilon, rel=1e-6)
    assert max(rest, alone) < stated.epsilon < rest + alone


REFUSED: dict[str, tuple[dict[str, Any], Callable[[], Schema], str]] = {
    "a text and no option": ({}, complaint_schema, f"column={TEXT!r} is free text to be learned"),
    "a table of public texts that is not there": (
        {"text": {"public_text": "absent"}}, complaint_schema, "public_text='absent' cannot be read"
    ),
    "samples of less than one unit": (
        {"epsilon": 1.0, "text": {**TINY, "sampling_rate": 0.001}}, lambda: complaint_schema(90),
        "text.sampling_rate=0.001 draws less than one unit"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "schema", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_learned_is_refused_before_a_row_is_read(
    parameters: dict[str, Any], schema: Callable[[], Schema], message: str
) -> None:
    with pytest.raises((JobError, SchemaError, BudgetError), match=message):
        fit_model(generator("independent", **parameters), pd.DataFrame(), schema())


@pytest.mark.parametrize("steps", [None, 3, 0])  # without an epsilon, and private with steps or public texts alone
def test_a_saved_model_is_safetensors_and_json_and_gives_the_same_sample(
    steps: int | None, public: str, tmp_path: Path
) -> None:
    more = {"public_text": public, "public_epochs": 1, "themes": 5} if steps == 0 else {}
    text = {**TINY, "epochs": 2, "sampling_rate": 0.1, **more} | ({} if steps is None else {"steps": steps})
    claim, n_units = ({}, None) if steps is None else ({"epsilon": 2.0}, 60)
    frame, schema = complaints(60, 1), complaint_schema(n_units)
    chosen: Any = generator("auto" if steps == 0 else "independent", text=text, **claim)
    budget = Budget(uncalibrated(chosen, schema)) if steps else None
    model = chosen.fit(frame, schema, seed=1, budget=budget)
    model.save(tmp_path / "model")
    files = sorted((tmp_path / "model").iterdir())
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    again = load_model(tmp_path / "model")
    assert again.sample(20, seed=3).equals(model.sample(20, seed=3))
    assert not again.sample(20, seed=4).equals(model.sample(20, seed=3))
    assert again.statement == model.statement
    assert isinstance(model, TextModel) and isinstance(again, TextModel)
    assert np.array_equal(again.text_losses(frame, TEXT), model.text_losses(frame, TEXT))
    content = b"".join(path.read_bytes() for path in files)
    assert not any(text.encode() in content for text in frame[TEXT])
    if steps == 0:
        assert again.statement is not None
        assert STEPS not in [event.what for event in again.statement.events]


def test_a_text_is_missing_as_often_as_rows_say(public: str) -> None:
    frame = complaints(400, 1)
    frame.loc[frame["product"] == "card", TEXT] = None
    text = {**TINY, "epochs": 1, "steps": 0, "public_text": public, "public_epochs": 1, "themes": 2}
    schema = complaint_schema(400, missing=True)
    sample = generator("mst", text=text, epsilon=20.0).fit(frame, schema, seed=0).sample(400, seed=0)
    shares = sample[TEXT].isna().groupby(sample["product"]).mean()
    assert shares["card"] > 0.9
    assert shares.drop("card").max() < 0.3


class Killed(BaseException):
    """The end of a process."""


def _cut_at(n_steps: int, patch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def step(self: Any, steps: Any) -> None:
        if len(done) == n_steps:
            raise Killed
        done.append(1)
        _step(self, steps)

    patch.setattr(PrivateTextTraining, "step", step)


def test_a_private_fit_that_was_cut_short_pays_again_for_a_stretch_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = generator("independent", epsilon=2.0, text={**TINY, "steps": 30, "sampling_rate": 0.1})
    assert isinstance(chosen, PrivateGenerator)
    schema, frame = complaint_schema(60), complaints(60, 1)
    schedule = uncalibrated(chosen, schema)
    (tmp_path / "place").mkdir()

    def fit(journal: Journal) -> Any:
        return fit_model(chosen, frame, schema, budget=Budget(schedule, journal=journal), place=tmp_path / "place")

    with Journal(tmp_path / "journal") as journal, monkeypatch.context() as patch, pytest.raises(Killed):
        _cut_at(13, patch)
        fit(journal)
    (kept,) = (tmp_path / "place" / PREPARED).glob("checkpoint*")
    begun = torch.load(kept, weights_only=True)
    assert begun["step"] == 12
    steps: list[int] = []
    monkeypatch.setattr(PrivateTextTraining, "step", lambda self, draws: steps.append(1) or _step(self, draws))
    with Journal(tmp_path / "journal") as journal:
        lost = [(record.what, record.count) for record in journal.lost]
        journal.settle()
        model = fit(journal)
    assert lost == [(STEPS, 2)]
    assert len(steps) == 18
    assert isinstance(model, TextModel)
    assert model.writer.decoder.trained.keys() == set(begun["state"]["weights"])
