"""What is measured, and on what: CPU time, memory, the machine and the versions."""

import datetime
import importlib.metadata
import os
import platform
import resource
import sys
import time
from pathlib import Path

import memorytree

MEGABYTE = 2**20


def cpu_seconds(work, repeats: int = 1, clock=time.process_time):
    """Run `work` several times; return its least CPU time and its last result."""
    least = float("inf")
    for _ in range(repeats):
        start = clock()
        result = work()
        least = min(least, clock() - start)
    return least, result


def resident_bytes() -> int:
    """Return the memory that this process holds now."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def circumstances(seed: int, quick: bool) -> dict:
    """Return all that a reader needs in order to judge or repeat a figure."""
    packages = ["numpy", "scipy", "numba", "vowpalwabbit", "hnswlib", "bm25s", "scikit-learn"]
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "python": platform.python_version(),
            "memorytree": memorytree.__version__,
            **{name: version(name) for name in packages},
        },
        "seed": seed,
        "quick": quick,
    }


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def installed(package: str) -> bool:
    return version(package) != "not installed"
