"""Running parts: caching, failures, interruption, order, and the estimate of the time left."""

import os
import signal
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lab.cache import ResultCache
from lab.parts import Part
from lab.process import call, end_children
from lab.runner import RunInterrupted, TimeEstimate, in_order, run, time_left_text

PARTS = [Part(name, "somewhere", seed) for name in ("one", "two") for seed in (0, 1)]


class Counter:
    """Measures by counting; can fail or be interrupted at one part."""

    def __init__(self, failing=None, interrupted=None, status="ok"):
        self.parts, self.failing, self.interrupted, self.status = [], failing, interrupted, status

    def __call__(self, part):
        if part == self.interrupted:
            raise KeyboardInterrupt
        self.parts.append(part)
        if part == self.failing:
            raise ValueError("this part fails")
        return {"status": self.status, "error": len(self.parts) / 10}


@pytest.fixture
def cache(tmp_path):
    return ResultCache(tmp_path / "parts", quick=False)


def test_finished_parts_are_not_run_again(cache):
    first, second = Counter(), Counter()
    found = run(PARTS, cache, first)
    assert first.parts == PARTS
    assert run(PARTS, cache, second) == found
    assert second.parts == []


def test_without_resume_all_parts_run(cache):
    run(PARTS, cache, Counter())
    again = Counter()
    run(PARTS, cache, again, resume=False)
    assert again.parts == PARTS


@pytest.mark.parametrize(("status", "repeated"), [("ok", False), ("stopped", False), ("failed", True), ("missing", True)])
def test_failed_and_missing_parts_are_repeated(cache, status, repeated):
    run(PARTS, cache, Counter(status=status))
    again = Counter()
    run(PARTS, cache, again)
    assert bool(again.parts) is repeated


def test_failing_part_does_not_end_the_run(cache):
    counter = Counter(failing=PARTS[1])
    found = run(PARTS, cache, counter)
    assert counter.parts == PARTS
    assert found[PARTS[1]]["status"] == "failed"
    assert "this part fails" in found[PARTS[1]]["why"]
    assert [found[part]["status"] for part in PARTS if part != PARTS[1]] == 3 * ["ok"]


def test_interruption_keeps_finished_parts(cache):
    with pytest.raises(RunInterrupted) as interruption:
        run(PARTS, cache, Counter(interrupted=PARTS[2]))
    assert list(interruption.value.found) == PARTS[:2]
    rest = Counter()
    assert len(run(PARTS, cache, rest)) == 4
    assert rest.parts == PARTS[2:]


def test_parallel_parts_give_the_same_results(cache):
    alone = {part: {"status": "ok", "seed": part.seed} for part in PARTS}
    found = run(PARTS, cache, lambda part: alone[part], jobs=3)
    assert {part: one["seed"] for part, one in found.items()} == {part: part.seed for part in PARTS}


@pytest.fixture
def default_interrupt_handler():
    """A test run in the background may have inherited an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_interrupt_handler")
def test_interruption_ends_running_children(cache, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    lines = []

    def interrupt_once_two_have_started():
        with (tmp_path / "pipe").open() as pipe:
            lines.extend([pipe.readline(), pipe.readline()])
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            lines.append(pipe.read())  # the pipe ends when both children have

    listener = threading.Thread(target=interrupt_once_two_have_started)
    listener.start()
    spec = {"pipe": str(tmp_path / "pipe")}
    with pytest.raises(RunInterrupted) as interruption:
        run(PARTS, cache, lambda part: call("tests.lab.child_functions:wait_for_the_end", spec), jobs=2, end=end_children)
    listener.join()
    assert lines == ["started\n", "started\n", ""]
    assert interruption.value.found == {}
    assert [cache.get(part) for part in PARTS] == 4 * [None]


def test_damaged_cache_file_is_run_again(cache):
    run(PARTS, cache, Counter())
    cache.path(PARTS[0]).write_text("{half a fi")
    again = Counter()
    run(PARTS, cache, again)
    assert again.parts == PARTS[:1]


some_parts = st.builds(Part, st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 3), slow=st.booleans())


@given(st.lists(some_parts))
def test_order_keeps_parts_and_puts_first_seeds_first(parts):
    ordered = in_order(parts)
    assert sorted(map(repr, dict.fromkeys(parts))) == sorted(map(repr, ordered))
    ranks = [(part.slow, part.seed > 0) for part in ordered]
    assert ranks == sorted(ranks)


def test_estimate_prefers_parts_of_the_same_kind():
    estimate = TimeEstimate({}, PARTS)
    assert estimate.left is None
    estimate.add(PARTS[0], 10.0)  # one, seed 0
    assert estimate.left == pytest.approx(30.0)
    estimate.add(PARTS[2], 100.0)  # two, seed 0
    assert estimate.left == pytest.approx(110.0)
    estimate.add(PARTS[1], 10.0)
    estimate.add(PARTS[3], 100.0)
    assert estimate.left == 0
    assert time_left_text(estimate.left) == "under a minute left"


def test_log_has_a_line_for_each_part(cache, tmp_path):
    with (tmp_path / "log").open("w") as file:
        run(PARTS, cache, Counter(), console=Console(file=file, width=100))
    lines = (tmp_path / "log").read_text().splitlines()
    assert [part.label in "\n".join(lines) for part in PARTS] == 4 * [True]
