"""Runs parts one after the other (or several at a time), keeps each as it is finished, and says how long it will take.

A part that fails is a result like any other: it is shown in the table, and the next part runs. Ctrl-C loses only the parts
that are running, and these end at once: what is finished has been written.
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

from memorytree.lab.parts import FINAL, Part, Shelf

LOOK_S = 0.05  # how often to look whether what was ended has ended
Measure = Callable[[Part], Mapping[str, Any]]
Found = dict[Part, dict[str, Any]]


class Stopped(Exception):
    """The user stopped the run; `found` holds the parts that were finished."""

    def __init__(self, found: Found):
        super().__init__(f"stopped with {len(found)} parts finished")
        self.found = found


def in_order(parts: Iterable[Part]) -> list[Part]:
    """Each part once: slow ones last; the first seed of everything before the second of anything.

    Wherever a run is stopped, the tables then have as many rows as can be.
    """
    return sorted(dict.fromkeys(parts), key=lambda part: (part.slow, part.seed > 0))


def run(
    parts: Sequence[Part],
    shelf: Shelf,
    measure: Measure,
    *,
    resume: bool = True,
    jobs: int = 1,
    end: Callable[[], None] = lambda: None,
    console: Console | None = None,
) -> Found:
    """Run what is not there yet; return what came of every part.

    Args:
        parts: what to run, in this order.
        shelf: where finished parts are, and are kept.
        measure: runs one part.
        resume: take parts that were finished before from the shelf.
        jobs: how many to run at a time; times are only to be trusted with one.
        end: ends all that `measure` is running in other threads, so that it returns soon.
        console: where the bar is drawn; without one there is none.

    Raises:
        Stopped: on Ctrl-C.
    """
    found = {part: kept for part in parts if resume and (kept := shelf.find(part)) is not None}
    ahead = [part for part in parts if part not in found or found[part].get("status") not in FINAL]
    with _bar(console, len(ahead)) as show:
        clock = Clock(found, ahead, jobs)
        try:
            with closing(_results(ahead, shelf, measure, jobs, end, lambda part: show(part, clock.left))) as finished:
                for part, result in finished:
                    found[part] = result
                    clock.finished(part, result["wall_s"])
        except KeyboardInterrupt:
            raise Stopped(found) from None
    return found


def _results(
    parts: Sequence[Part],
    shelf: Shelf,
    measure: Measure,
    jobs: int,
    end: Callable[[], None],
    started: Callable[[Part], None],
) -> Generator[tuple[Part, dict[str, Any]], None, None]:
    over = threading.Event()

    def work(part: Part) -> dict[str, Any]:
        start = time.perf_counter()
        result = _judged(measure, part)
        if over.is_set():  # it was ended, and did not fail
            raise CancelledError
        return shelf.keep(part, result, time.perf_counter() - start)

    if jobs == 1:
        for part in parts:
            started(part)
            yield part, work(part)
        return
    waiting = iter(parts)
    running: dict[Future, Part] = {}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                for part in islice(waiting, jobs - len(running)):
                    started(part)
                    running[pool.submit(work, part)] = part
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in running):
                end()  # again and again: a thread may only now be about to start something
                time.sleep(LOOK_S)


def _judged(measure: Measure, part: Part) -> Mapping[str, Any]:
    """Measure one part; an error of the lab itself is the part's failure, not the end of the run."""
    try:
        return measure(part)
    except Exception as error:
        return {"status": "failed", "why": f"{type(error).__name__}: {error}"}


class Clock:
    """Guesses how long the rest takes: a part as long as others of its kind took, or else of its peer, or else of any."""

    def __init__(self, found: Mapping[Part, Mapping[str, Any]], ahead: Sequence[Part], jobs: int = 1):
        self._ahead = dict.fromkeys(ahead)
        self._jobs = jobs
        self._taken: dict[Any, list[float]] = {}
        for part, result in found.items():
            self._note(part, float(result.get("wall_s", 0.0)))

    def _note(self, part: Part, wall_s: float) -> None:
        for group in (part.kind, part.peer, None):
            self._taken.setdefault(group, []).append(wall_s)

    def finished(self, part: Part, wall_s: float) -> None:
        """Note that a part took so many seconds."""
        self._ahead.pop(part, None)
        self._note(part, wall_s)

    def _guess(self, part: Part) -> float:
        for group in (part.kind, part.peer, None):
            if group in self._taken:
                return fmean(self._taken[group])
        return 0.0

    @property
    def left(self) -> float | None:
        """Seconds that the rest will take; None if nothing is known yet."""
        if not self._taken:
            return None
        return sum(map(self._guess, self._ahead)) / self._jobs


def in_words(seconds: float | None) -> str:
    """Say how long something takes, as roughly as it is known.

    >>> in_words(None), in_words(40), in_words(400), in_words(9000)
    ('', 'under a minute left', 'about 7 min left', 'about 2.5 h left')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return "under a minute left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


@contextmanager
def _bar(console: Console | None, total: int) -> Iterator[Callable[[Part, float | None], None]]:
    """Give a function that shows which part begins, and how long everything will still take."""
    if console is None or total == 0:
        yield lambda part, left: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    begun = 0
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as progress:
        task = progress.add_task("", total=total, left="")

        def show(part: Part, left: float | None) -> None:
            nonlocal begun
            progress.update(task, description=part.label, left=in_words(left), completed=begun)
            begun += 1
            if not console.is_terminal:  # a log has no bar: a line for each part instead
                console.print(f"{begun}/{total} {part.label} {in_words(left)}", highlight=False, soft_wrap=True)

        yield show
