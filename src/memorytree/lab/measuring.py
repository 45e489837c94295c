"""What is measured, and on what: CPU time, memory, the machine and the versions."""

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
from typing import Any

import memorytree

MEGABYTE = 2**20
# Work is repeated until it takes so many CPU seconds, but not more often than this.
LONG_ENOUGH, MOST_TIMES = 0.2, 200
PACKAGES = ("numpy", "scipy", "numba", "vowpalwabbit", "hnswlib", "bm25s", "scikit-learn")
# Where the name of a package is not that of its module.
DISTRIBUTIONS = {"faiss": "faiss-cpu", "sklearn": "scikit-learn", "skimage": "scikit-image"}


def cpu_seconds(
    work: Callable[[], Any],
    repeats: int = 1,
    clock: Callable[[], float] = time.process_time,
    enough: float = float("inf"),
) -> tuple[float, Any]:
    """Run `work` several times, though not again once `enough` seconds are spent: its least CPU time, its last result."""
    least, spent = float("inf"), 0.0
    for _ in range(repeats):
        start = clock()
        result = work()
        took = clock() - start
        least, spent = min(least, took), spent + took
        if spent > enough:
            break
    return least, result


def cpu_of_one(work: Callable[[], Any], repeats: int, enough: float) -> tuple[float, Any]:
    """The CPU time of `work`, the least of several runs, and its result.

    The clock of CPU time may tick only every few milliseconds, so short work is done many times in a row; long work is not
    done again once `enough` seconds are spent.
    """
    took, result = cpu_seconds(work)
    if took > enough:
        return took, result
    times = max(1, round(LONG_ENOUGH / max(took, LONG_ENOUGH / MOST_TIMES)))
    row_s, _ = cpu_seconds(lambda: [work() for _ in range(times)], repeats, enough=enough)
    return row_s / times, result


def resident_bytes() -> int:
    """The memory that this process holds now."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_bytes()


def peak_bytes() -> int:
    """The most memory that this process ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        # The kernel's other figure, ru_maxrss, begins with that of the process which started this one.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def cpu_model() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def circumstances(seed: int, quick: bool) -> dict[str, Any]:
    """All that a reader needs in order to judge or repeat a figure."""
    today = datetime.date.today().isoformat()
    return {"date": today, **machine(), "versions": versions(PACKAGES), "seed": seed, "quick": quick}


def machine() -> dict[str, Any]:
    """The machine that we are on."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python, memorytree, and these."""
    own = {"python": platform.python_version(), "memorytree": memorytree.__version__}
    return {**own, **{name: version(name) for name in packages}}


def version(package: str) -> str:
    """The version of a package, or of the package with this module, or that it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(package, package))
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def installed(module: str) -> bool:
    """Whether this module could be imported."""
    return importlib.util.find_spec(module) is not None
