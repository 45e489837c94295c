"""Measurement of CPU time and memory, and the description of the machine and the package versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import memorytree

T = TypeVar("T")

MEGABYTE = 2**20
# Short work is repeated until it takes this many CPU seconds in all, at most this many times.
LONG_ENOUGH, MOST_TIMES = 0.2, 200
PACKAGES = ("numpy", "scipy", "numba", "vowpalwabbit", "hnswlib", "bm25s", "scikit-learn")
# Modules whose distribution has another name.
DISTRIBUTIONS = {"faiss": "faiss-cpu", "sklearn": "scikit-learn", "skimage": "scikit-image"}


def cpu_seconds(
    work: Callable[[], T],
    repeats: int = 1,
    clock: Callable[[], float] = time.process_time,
    enough: float = float("inf"),
) -> tuple[float, T]:
    """Run `work` up to `repeats` times and return its least CPU time and its last result.

    It is not repeated once `enough` CPU seconds are spent.
    """
    least, spent = float("inf"), 0.0
    for _ in range(repeats):
        start = clock()
        result = work()
        took = clock() - start
        least, spent = min(least, took), spent + took
        if spent > enough:
            break
    return least, result


def cpu_per_call(work: Callable[[], T], repeats: int, enough: float) -> tuple[float, T]:
    """Return the CPU time of `work`, the least of several runs, and its result.

    The CPU clock may advance only every few milliseconds, so short work is timed as a series of calls; long work is not
    repeated once `enough` CPU seconds are spent.
    """
    took, result = cpu_seconds(work)
    if took > enough:
        return took, result
    times = max(1, round(LONG_ENOUGH / max(took, LONG_ENOUGH / MOST_TIMES)))
    series_s, _ = cpu_seconds(lambda: [work() for _ in range(times)], repeats, enough=enough)
    return series_s / times, result


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the peak resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss of a child starts at the value of its parent, so VmHWM is read instead.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def cpu_model() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def measurement_context(seed: int, quick: bool) -> dict[str, Any]:
    """Return what a reader needs to judge or repeat a figure: date, machine, versions, seed, whether the run was quick."""
    today = datetime.date.today().isoformat()
    return {"date": today, **machine(), "versions": versions(PACKAGES), "seed": seed, "quick": quick}


def machine() -> dict[str, Any]:
    """Return a description of this machine."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, memorytree and these packages."""
    own = {"python": platform.python_version(), "memorytree": memorytree.__version__}
    return {**own, **{name: version(name) for name in packages}}


def version(package: str) -> str:
    """Return the version of a package or of the package that has this module, or "not installed"."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(package, package))
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def installed(module: str) -> bool:
    """Return whether a module can be imported."""
    return importlib.util.find_spec(module) is not None
