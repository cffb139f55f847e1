"""Results on disk: what was measured is there again, and is not measured twice."""

from dataclasses import replace
from pathlib import Path

from benchmarks.drawing import draw
from benchmarks.runs import NOT_INSTALLED, Estimation, Results, Run

RUN = Run("mst", 1.0, 3, fit_s=1.5, fit_cpu_s=1.4, sample_s=0.1, scores={"tv1": 0.01, "tv3": 0.1})
PEER = Run("peer.mst", 1.0, 3, failure=NOT_INSTALLED, versions={"peer": "1.0"})
ESTIMATION = Estimation("mst", 1.0, n_measurements=29, ours_s=0.5, ours_loss=12.0)


def test_results_are_read_back_as_they_were_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    kept = Results(path)
    for found in (RUN, PEER, ESTIMATION):
        kept.add(found)
    again = Results(path)
    assert (again.runs, again.estimations, again.about) == ([RUN, PEER], [ESTIMATION], kept.about)
    assert draw(again) == draw(kept)


def test_a_run_that_is_there_is_not_made_again_and_a_later_one_takes_its_place(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.add(RUN)
    assert results.has("mst", 1.0, 3)
    assert not results.has("mst", 1.0, 4)
    assert not results.has("mst", 0.1, 3)
    results.add(replace(RUN, fit_s=9.0))
    assert [run.fit_s for run in Results(tmp_path / "results.json").runs] == [9.0]


def test_a_peer_that_failed_is_tried_again_only_where_it_was_not_installed() -> None:
    results = Results(None)
    results.add(PEER)
    assert not results.has("peer.mst", 1.0, 3)
    results.add(replace(PEER, failure="out of memory"))
    assert results.has("peer.mst", 1.0, 3)
    assert results.has("peer.mst", 1.0, 4)
