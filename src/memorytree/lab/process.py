"""One peer, one data set, one seed, in a process of its own, so that its memory, its time and its end are its own too.

    measure("hnswlib", "omniglot-15", data=Path("data"))    # a dictionary that JSON can hold, whatever happens
    call("package.module:function", spec)                   # any function of plain data, likewise

The child is `python -m memorytree.lab.process module:function FILE PARENT`, with the spec on standard input. What it finds
goes into the file, so that whatever a peer prints harms nobody, and what was found before it was stopped is not lost. It
ends soon after its parent, however that ends.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from memorytree.errors import MemoryTreeError
from memorytree.lab import peers
from memorytree.lab.datasets import Source
from memorytree.lab.measuring import versions

JOBS = {"batch": "memorytree.lab.jobs:batch", "online": "memorytree.lab.jobs:online"}
LAST_LINES = 12
CPU_LIMIT = 900.0
LOOK_S = 1.0  # how often a child looks whether its parent is still there
_children: set[subprocess.Popen] = set()
_result_file: Path | None = None


class ChildError(MemoryTreeError, RuntimeError):
    """A child process ended without a result.

    Attributes:
        partial: what it had noted before.
        stopped: whether it had used up its CPU time.
    """

    def __init__(self, message: str, partial: dict[str, Any] | None = None, stopped: bool = False):
        super().__init__(message)
        self.partial = partial or {}
        self.stopped = stopped


def measure(
    peer: str,
    dataset: str,
    *,
    job: str = "batch",
    seed: int = 0,
    data: Path | None = None,
    quick: bool = False,
    cpu_limit: float = CPU_LIMIT,
    options: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Let one peer do one job on one data set, and return what was measured as plain data.

    Args:
        peer: a name in `PEERS`, or "package.module:Class" for a peer of your own, which the child must be able to import.
        dataset: a name that `memorytree.lab.datasets.load` knows.
        job: "batch" (learn, then be asked about the test rows), "online" (one pass, each row predicted before it is learned
            from), or "package.module:function", a function (peer class, source of the data, seed, options) -> dict.
        seed: of the peer, and of the order of the training rows.
        data: the folder of the data sets.
        quick: some of the data only.
        cpu_limit: CPU seconds after which the child is stopped, all in all.
        options: of the peer.

    Returns:
        `status` is "ok", "missing" (with `needs`: modules that are not installed), "stopped" (with `cpu_s`) or "failed"
        (with `why`); then `peer`, `dataset`, `job`, `seed`, `options`, `versions` and the figures of the job. What a child
        that was stopped had noted until then is there as well.
    """
    about = {"peer": peer, "dataset": dataset, "job": job, "seed": seed, "quick": quick, "options": dict(options)}
    spec = {**about, "data": None if data is None else str(Path(data).resolve())}
    try:
        kind = peers.peer(peer)
        spec["peer"] = peers.address(peer)
        about["versions"] = versions(kind.needs)
        needs = peers.missing(kind)
        if needs:
            return {"status": "missing", "needs": needs, **about}
        return {"status": "ok", **about, **call("memorytree.lab.process:work", spec, cpu_limit=cpu_limit)}
    except ChildError as error:
        if error.stopped:
            return {"status": "stopped", "cpu_s": cpu_limit, **about, **error.partial}
        return {"status": "failed", "why": str(error), **about, **error.partial}
    except (MemoryTreeError, ImportError, AttributeError) as error:
        return {"status": "failed", "why": f"{type(error).__name__}: {error}", **about}


def work(spec: dict[str, Any]) -> dict[str, Any]:
    """What the child of `measure` does."""
    folder = None if spec["data"] is None else Path(spec["data"])
    source = Source(spec["dataset"], folder, spec["seed"], spec["quick"])
    run = named(JOBS.get(spec["job"], spec["job"]))
    return dict(run(peers.peer(spec["peer"]), source, spec["seed"], spec["options"]))


def named(path: str) -> Any:
    """What `module:name` stands for."""
    module, _, name = path.partition(":")
    if not name:
        raise MemoryTreeError(f"{path!r} is neither one of {', '.join(JOBS)} nor `package.module:function`")
    return getattr(importlib.import_module(module), name)


# ---- the parent


def environment(**more: str) -> dict[str, str]:
    """This process's environment: what can be imported here can be there; one thread for BLAS and the like; and `more`."""
    paths = [path or os.getcwd() for path in sys.path]
    threads = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"]
    return {**os.environ, **dict.fromkeys(threads, "1"), "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **more}


def call(function: str, spec: Any, *, cpu_limit: float | None = None, **env: str) -> dict[str, Any]:
    """Run `function(spec)` in a process of its own and return what it returns; spec and result are plain data."""
    with tempfile.TemporaryDirectory(prefix="memorytree-") as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, "-m", "memorytree.lab.process", function, str(file), str(os.getpid())]
        command += [] if cpu_limit is None else [str(math.ceil(cpu_limit))]
        # Temporary files of a child that is stopped go with this folder.
        around = environment(TMPDIR=folder, **env)
        code, last_words = _ended(command, json.dumps(spec), around)
        found = json.loads(file.read_text(encoding="utf8")) if file.exists() else {}
    if "result" in found:
        return dict(found["result"])
    said = "\n".join((found.get("error") or last_words).strip().splitlines()[-LAST_LINES:])
    ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    stopped = cpu_limit is not None and -code == signal.SIGXCPU
    raise ChildError(said or f"{function}: {ended}, without a word", found.get("partial"), stopped)


def _ended(command: list[str], spec: str, env: dict[str, str]) -> tuple[int, str]:
    """Run a child to its end, or until we are interrupted: its exit code, and what it wrote to standard error."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        # A group of its own: Ctrl-C is for us, who end the child, so that it cannot be taken for one that failed.
        env=env, process_group=0,
    )  # fmt: skip
    _children.add(child)
    try:
        last_words = child.communicate(spec)[1]
        return child.returncode, last_words
    finally:
        child.kill()  # does nothing to one that has ended
        child.wait()
        _children.discard(child)


def end_children() -> None:
    """End every child that runs now; whoever waits for one in another thread sees that it was killed."""
    for child in list(_children):
        child.kill()


class Arrays:
    """A temporary folder through which arrays travel to children; dense arrays and CSR matrices alike."""

    def __init__(self, **arrays: Any):
        self.folder = tempfile.TemporaryDirectory()
        for name, array in arrays.items():
            if sp.issparse(array):
                sp.save_npz(Path(self.folder.name) / f"{name}.npz", sp.csr_matrix(array), compressed=False)
            else:
                np.save(Path(self.folder.name) / f"{name}.npy", array)

    def __enter__(self) -> str:
        return self.folder.name

    def __exit__(self, *error: Any) -> None:
        self.folder.cleanup()


# ---- the child


def read(folder: str, name: str) -> Any:
    """An array that came by `Arrays`."""
    path = Path(folder) / name
    if path.with_suffix(".npz").exists():
        return sp.csr_matrix(sp.load_npz(path.with_suffix(".npz")))
    return np.load(path.with_suffix(".npy"))


def note(**figures: Any) -> None:
    """Keep what a job has found so far, in case that it is stopped; each call replaces what was noted before."""
    _write({"partial": figures})


def _write(found: dict[str, Any]) -> None:
    # Whole or not at all: the child may be stopped at any moment.
    if _result_file is not None:
        aside = _result_file.with_suffix(".part")
        aside.write_text(json.dumps(found, allow_nan=False), encoding="utf8")
        aside.replace(_result_file)


def _end_with(parent: int) -> None:
    """End this process once its parent is gone, and another has taken its place."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _told(error: Exception) -> str:
    """What went wrong and where, by the names of files: results are published, and where files lie is nobody's business."""
    if isinstance(error, MemoryTreeError):  # raised on purpose, so it says all that is to be said
        return f"{type(error).__name__}: {error}"
    trace = traceback.extract_tb(error.__traceback__)
    steps = (f"{Path(at.filename).name}:{at.lineno}, {at.name}: {at.line}" for at in trace)
    return "\n".join([*steps, *traceback.format_exception_only(error)]).strip()


def main(function: str, file: str, parent: str, cpu_limit: str | None = None) -> None:
    """The child's whole life."""
    global _result_file
    _result_file = Path(file)
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    if cpu_limit is not None:
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_limit), hard))
    try:
        _write({"result": named(function)(json.load(sys.stdin))})
    except Exception as error:
        partial = json.loads(_result_file.read_text()).get("partial") if _result_file.exists() else None
        _write({"error": _told(error), "partial": partial})
        os._exit(1)
    os._exit(0)  # some peers crash while they are torn down, after the result


if __name__ == "__main__":
    # Under its own name, so that jobs which import this module see the same one.
    from memorytree.lab import process

    process.main(*sys.argv[1:])
