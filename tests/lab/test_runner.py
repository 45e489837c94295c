import json
import os
import signal
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import memorytree
from lab import parts
from lab.parts import Part, ResultCache, options
from lab.process import call, end_children
from lab.runner import RunInterrupted, TimeEstimate, in_order, run, time_left_text

PARTS = [Part(baseline, "somewhere", seed) for baseline in ("one", "two") for seed in (0, 1)]


class Bench:
    """Measures by counting; may fail or be interrupted at one part."""

    def __init__(self, failing=None, interrupted=None, status="ok"):
        self.seen, self.failing, self.interrupted, self.status = [], failing, interrupted, status

    def __call__(self, part):
        if part == self.interrupted:
            raise KeyboardInterrupt
        self.seen.append(part)
        if part == self.failing:
            raise ValueError("no such luck")
        return {"status": self.status, "error": len(self.seen) / 10}


@pytest.fixture
def cache(tmp_path):
    return ResultCache(tmp_path / "parts", quick=False)


def test_finished_parts_are_not_run_again(cache):
    first, second = Bench(), Bench()
    found = run(PARTS, cache, first)
    assert first.seen == PARTS
    assert run(PARTS, cache, second) == found
    assert second.seen == []


def test_everything_runs_again_if_wanted(cache):
    run(PARTS, cache, Bench())
    again = Bench()
    run(PARTS, cache, again, resume=False)
    assert again.seen == PARTS


@pytest.mark.parametrize(("status", "tried_again"), [("ok", False), ("stopped", False), ("failed", True), ("missing", True)])
def test_only_what_may_change_is_tried_again(cache, status, tried_again):
    run(PARTS, cache, Bench(status=status))
    again = Bench()
    run(PARTS, cache, again)
    assert bool(again.seen) is tried_again


def test_a_failing_part_is_a_result_and_ends_nothing(cache):
    bench = Bench(failing=PARTS[1])
    found = run(PARTS, cache, bench)
    assert bench.seen == PARTS
    assert found[PARTS[1]]["status"] == "failed"
    assert "no such luck" in found[PARTS[1]]["why"]
    assert [found[part]["status"] for part in PARTS if part != PARTS[1]] == 3 * ["ok"]


def test_ctrl_c_leaves_all_finished_parts(cache):
    with pytest.raises(RunInterrupted) as stopped:
        run(PARTS, cache, Bench(interrupted=PARTS[2]))
    assert list(stopped.value.found) == PARTS[:2]
    rest = Bench()
    assert len(run(PARTS, cache, rest)) == 4
    assert rest.seen == PARTS[2:]


def test_several_at_a_time_find_the_same(cache, tmp_path):
    alone = {part: {"status": "ok", "seed": part.seed} for part in PARTS}
    found = run(PARTS, cache, lambda part: alone[part], jobs=3)
    assert {part: one["seed"] for part, one in found.items()} == {part: part.seed for part in PARTS}


@pytest.fixture
def heeding_ctrl_c():
    """Tests that are started in the background may have been told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeding_ctrl_c")
def test_a_stop_ends_all_that_run_at_once_and_keeps_nothing_of_them(cache, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    heard = []

    def stop_once_two_are_here():
        with (tmp_path / "pipe").open() as said:
            heard.extend([said.readline(), said.readline()])
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            heard.append(said.read())  # the pipe ends when both children have

    listener = threading.Thread(target=stop_once_two_are_here)
    listener.start()
    spec = {"pipe": str(tmp_path / "pipe")}
    with pytest.raises(RunInterrupted) as stopped:
        run(PARTS, cache, lambda part: call("tests.lab.own_baselines:linger", spec), jobs=2, end=end_children)
    listener.join()
    assert heard == ["here\n", "here\n", ""]
    assert stopped.value.found == {}
    assert [cache.get(part) for part in PARTS] == 4 * [None]


def test_a_damaged_file_counts_as_not_run(cache):
    run(PARTS, cache, Bench())
    cache.path(PARTS[0]).write_text("{half a fi")
    again = Bench()
    run(PARTS, cache, again)
    assert again.seen == PARTS[:1]


def test_what_determines_a_part_determines_its_file(cache, tmp_path):
    part = Part("one", "somewhere", 0, "batch", options(beam=4, values=(1, 2)))
    others = [
        Part("two", "somewhere", 0, "batch", part.options),
        Part("one", "elsewhere", 0, "batch", part.options),
        Part("one", "somewhere", 1, "batch", part.options),
        Part("one", "somewhere", 0, "online", part.options),
        Part("one", "somewhere", 0, "batch", options(beam=8, values=(1, 2))),
    ]
    paths = {cache.path(one) for one in (part, *others)} | {ResultCache(cache.folder, quick=True).path(part)}
    assert len(paths) == 7
    assert cache.path(part) == cache.path(Part("one", "somewhere", 0, "batch", part.options, slow=True))
    run([part], cache, Bench())
    assert cache.get(part)["part"]["options"] == {"beam": 4, "values": [1, 2]}
    assert json.loads(cache.path(part).read_text())["error"] == 0.1


def test_a_part_tells_where_it_was_measured_and_is_found_elsewhere(cache, monkeypatch):
    monkeypatch.setattr(parts, "machine", lambda: {"cpu": "Abacus", "cores": 1})
    run(PARTS[:1], cache, lambda part: {"status": "ok", "versions": {"beads": "10"}})
    monkeypatch.setattr(parts, "machine", lambda: {"cpu": "Slide rule", "cores": 1})
    kept = run(PARTS[:1], cache, Bench())[PARTS[0]]
    assert kept["machine"] == {"cpu": "Abacus", "cores": 1}
    assert kept["versions"]["beads"] == "10"
    assert {"python", "memorytree", "numpy"} <= set(kept["versions"])
    assert not {"machine", "versions", "numpy"} & set(kept["part"])


def test_parts_of_before_are_still_found(cache, monkeypatch):
    """What determines a part, and with it the name of its file, does not change: days of measurements hang on it."""
    monkeypatch.setattr(memorytree, "__version__", "0.1.0")
    assert cache.path(Part("exact-1nn", "omniglot-1")).name == "exact-1nn.omniglot-1.0.90f2e2b129.json"


some_parts = st.builds(Part, st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 3), slow=st.booleans())


@given(st.lists(some_parts))
def test_order_loses_nothing_and_puts_first_seeds_first(parts):
    ordered = in_order(parts)
    assert sorted(map(repr, dict.fromkeys(parts))) == sorted(map(repr, ordered))
    ranks = [(part.slow, part.seed > 0) for part in ordered]
    assert ranks == sorted(ranks)


def test_time_left_goes_by_the_kind_of_part():
    clock = TimeEstimate({}, PARTS)
    assert clock.left is None
    clock.finished(PARTS[0], 10.0)  # one, seed 0
    assert clock.left == pytest.approx(30.0)
    clock.finished(PARTS[2], 100.0)  # two, seed 0: the other two now have a measure of their own
    assert clock.left == pytest.approx(110.0)
    clock.finished(PARTS[1], 10.0)
    clock.finished(PARTS[3], 100.0)
    assert clock.left == 0
    assert time_left_text(clock.left) == "under a minute left"


def test_a_log_has_a_line_for_each_part(cache, tmp_path):
    with (tmp_path / "log").open("w") as file:
        run(PARTS, cache, Bench(), console=Console(file=file, width=100))
    lines = (tmp_path / "log").read_text().splitlines()
    assert [part.label in "\n".join(lines) for part in PARTS] == 4 * [True]
