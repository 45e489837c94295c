"""Runs parts one after the other or several at a time, caches each finished part, and estimates the time left.

A part that fails is a result like any other: tables show it, and the next part runs. Ctrl-C ends the running parts at once;
finished parts are already in the cache.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from itertools import islice
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.cache import ResultCache
from lab.parts import FINAL, Part

END_POLL_S = 0.05
Measure = Callable[[Part], Mapping[str, Any]]
ResultsByPart = dict[Part, dict[str, Any]]


class RunInterrupted(Exception):
    """The user interrupted the run; `found` holds the results of the finished parts."""

    def __init__(self, found: ResultsByPart):
        super().__init__(f"interrupted with {len(found)} parts finished")
        self.found = found


def in_order(parts: Iterable[Part]) -> list[Part]:
    """Return each part once: slow parts last, and the first seed of every part before the second seed of any.

    Wherever a run is interrupted, the tables then have as many rows as possible.
    """
    return sorted(dict.fromkeys(parts), key=lambda part: (part.slow, part.seed > 0))


def run(
    parts: Sequence[Part],
    cache: ResultCache,
    measure: Measure,
    *,
    resume: bool = True,
    jobs: int = 1,
    end: Callable[[], None] = lambda: None,
    console: Console | None = None,
) -> ResultsByPart:
    """Run the parts that are not in the cache and return the results of all parts.

    Args:
        parts: what to run, in this order.
        cache: the finished parts.
        measure: runs one part.
        resume: use cached results instead of running a part again.
        jobs: how many parts run at a time; times are reliable with 1 only.
        end: ends everything that `measure` runs in other threads, so that it returns soon.
        console: where a progress bar is shown; None for no bar.

    Raises:
        RunInterrupted: on Ctrl-C.
    """
    found = {part: cached for part in parts if resume and (cached := cache.get(part)) is not None}
    ahead = [part for part in parts if part not in found or found[part].get("status") not in FINAL]
    with _progress_bar(console, len(ahead)) as show:
        estimate = TimeEstimate(found, ahead, jobs)
        pool = PartPool(cache, measure, end, lambda part: show(part, estimate.left))
        try:
            with closing(pool.results(ahead, jobs)) as finished:
                for part, result in finished:
                    found[part] = result
                    estimate.add(part, result["wall_s"])
        except KeyboardInterrupt:
            raise RunInterrupted(found) from None
    return found


class PartPool:
    """Runs parts in this thread or in several, and puts the results into the cache."""

    def __init__(self, cache: ResultCache, measure: Measure, end: Callable[[], None], on_start: Callable[[Part], None]):
        self._cache, self._measure, self._end, self._on_start = cache, measure, end, on_start
        self._ending = threading.Event()

    def results(self, parts: Sequence[Part], jobs: int) -> Generator[tuple[Part, dict[str, Any]], None, None]:
        """Yield (part, result) as parts finish; closing the generator ends the running parts."""
        if jobs == 1:
            for part in parts:
                self._on_start(part)
                yield part, self._run(part)
            return
        waiting = iter(parts)
        running: dict[Future[Any], Part] = {}
        with ThreadPoolExecutor(jobs) as pool:
            try:
                while True:
                    for part in islice(waiting, jobs - len(running)):
                        self._on_start(part)
                        running[pool.submit(self._run, part)] = part
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        yield running.pop(future), future.result()
            finally:
                self._ending.set()
                pool.shutdown(wait=False, cancel_futures=True)
                while not all(future.done() for future in running):
                    self._end()  # repeated, because a thread may start its child after the first call
                    time.sleep(END_POLL_S)

    def _run(self, part: Part) -> dict[str, Any]:
        start = time.perf_counter()
        try:
            result = self._measure(part)
        except Exception as error:  # an error of the lab itself fails the part, not the run
            result = {"status": "failed", "why": f"{type(error).__name__}: {error}"}
        if self._ending.is_set():  # the part was ended from outside, so its result is not kept
            raise CancelledError
        return self._cache.put(part, result, time.perf_counter() - start)


class TimeEstimate:
    """Estimates the time left: the mean of parts of the same kind, else of the same baseline, else of all parts."""

    def __init__(self, found: Mapping[Part, Mapping[str, Any]], ahead: Sequence[Part], jobs: int = 1):
        self._ahead = dict.fromkeys(ahead)
        self._jobs = jobs
        self._taken: dict[Any, list[float]] = {}
        for part, result in found.items():
            self._record(part, float(result.get("wall_s", 0.0)))

    def _record(self, part: Part, wall_s: float) -> None:
        for group in (part.kind, part.baseline, None):
            self._taken.setdefault(group, []).append(wall_s)

    def add(self, part: Part, wall_s: float) -> None:
        """Record that a part took this many seconds."""
        self._ahead.pop(part, None)
        self._record(part, wall_s)

    def _seconds(self, part: Part) -> float:
        for group in (part.kind, part.baseline, None):
            if group in self._taken:
                return fmean(self._taken[group])
        return 0.0

    @property
    def left(self) -> float | None:
        """Estimated seconds for the remaining parts; None before any part has finished."""
        if not self._taken:
            return None
        return sum(map(self._seconds, self._ahead)) / self._jobs


def time_left_text(seconds: float | None) -> str:
    """Return the time left as text, rounded.

    >>> time_left_text(None), time_left_text(40), time_left_text(400), time_left_text(9000)
    ('', 'under a minute left', 'about 7 min left', 'about 2.5 h left')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return "under a minute left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


@contextmanager
def _progress_bar(console: Console | None, total: int) -> Iterator[Callable[[Part, float | None], None]]:
    """Yield a function that shows which part starts and the estimated time left."""
    if console is None or total == 0:
        yield lambda part, left: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    begun = 0
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as progress:
        task = progress.add_task("", total=total, left="")

        def show(part: Part, left: float | None) -> None:
            nonlocal begun
            progress.update(task, description=part.label, left=time_left_text(left), completed=begun)
            begun += 1
            if not console.is_terminal:  # in a log, one line for each part replaces the bar
                console.print(f"{begun}/{total} {part.label} {time_left_text(left)}", highlight=False, soft_wrap=True)

        yield show
