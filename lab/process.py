"""Runs one measurement in a process of its own, so that memory, CPU time and crashes of one system affect no other.

    measure("hnswlib", Source("omniglot-15", Path("data")))    # a dictionary of plain data, also after a failure
    call("package.module:function", spec)                      # any function of plain data in a child process

The child is `python -m lab.process module:function FILE PARENT`, with the spec on standard input. It writes its result to
the file, so that output which a system prints cannot mix with it, and so that partial results survive when the child is
stopped. A child exits within about a second after its parent, however the parent ended.
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

from lab.datasets import Source
from lab.measuring import versions
from memorytree.errors import MemoryTreeError

JOBS = {"batch": "lab.jobs:batch", "online": "lab.jobs:online"}
ERROR_LINES = 12  # of the error of a child, the last so many lines are kept
CPU_LIMIT = 900.0
PARENT_POLL_S = 1.0
_children: set[subprocess.Popen[str]] = set()
_result_file: Path | None = None


class ChildError(MemoryTreeError, RuntimeError):
    """A child process ended without a result.

    Attributes:
        partial: the partial result that it had saved.
        stopped: whether it reached its limit of CPU time.
    """

    def __init__(self, message: str, partial: dict[str, Any] | None = None, stopped: bool = False):
        super().__init__(message)
        self.partial = partial or {}
        self.stopped = stopped


def measure(
    baseline: str,
    source: Source | str,
    *,
    job: str = "batch",
    options: Mapping[str, Any] = {},
    cpu_limit: float = CPU_LIMIT,
) -> dict[str, Any]:
    """Run one job of one baseline on one data set in a child process and return the figures as plain data.

    Args:
        baseline: a name in `BASELINES`, or "package.module:Class" for a baseline of your own, which the child must be able
            to import.
        source: the data set, its folder and seed; a name alone stands for `Source(name)`. The seed also goes to the
            baseline.
        job: "batch" (fit, then predict the test rows), "online" (one pass in which each row is predicted before it is
            learned), or "package.module:function", a function (baseline class, source, options) -> dict.
        options: of the baseline.
        cpu_limit: CPU seconds after which the child is stopped.

    Returns:
        `status` is "ok", "missing" (with `needs`: modules that are not installed), "stopped" (with `cpu_s`) or "failed"
        (with `why`); then `peer` (the baseline), `dataset`, `job`, `seed`, `options`, `versions` and the figures of the
        job. Partial figures of a child that was stopped are included.
    """
    from lab import baselines  # not at the top: children of `call` that measure no baseline start several times faster

    source = Source(source) if isinstance(source, str) else source
    about = {
        "peer": baseline, "dataset": source.name, "job": job, "seed": source.seed, "quick": source.quick,
        "options": dict(options),
    }  # fmt: skip
    spec = {**about, "data": None if source.folder is None else str(Path(source.folder).resolve())}
    try:
        kind = baselines.find_baseline(baseline)
        spec["peer"] = baselines.import_path(baseline)
        about["versions"] = versions(kind.needs)
        needs = baselines.missing_modules(kind)
        if needs:
            return {"status": "missing", "needs": needs, **about}
        return {"status": "ok", **about, **call("lab.process:run_job", spec, cpu_limit=cpu_limit)}
    except ChildError as error:
        if error.stopped:
            return {"status": "stopped", "cpu_s": cpu_limit, **about, **error.partial}
        return {"status": "failed", "why": str(error), **about, **error.partial}
    except (MemoryTreeError, ImportError, AttributeError) as error:
        return {"status": "failed", "why": f"{type(error).__name__}: {error}", **about}


def run_job(spec: dict[str, Any]) -> dict[str, Any]:
    """Run the job of `measure`; called in the child."""
    from lab import baselines

    folder = None if spec["data"] is None else Path(spec["data"])
    source = Source(spec["dataset"], folder, spec["seed"], spec["quick"])
    job = resolve_function(JOBS.get(spec["job"], spec["job"]))
    return dict(job(baselines.find_baseline(spec["peer"]), source, spec["options"]))


def resolve_function(path: str) -> Any:
    """Return the object that `module:name` refers to."""
    module, _, name = path.partition(":")
    if not name:
        raise MemoryTreeError(f"{path!r} is neither one of {', '.join(JOBS)} nor `package.module:function`")
    return getattr(importlib.import_module(module), name)


# ---- the parent


def child_environment(**more: str) -> dict[str, str]:
    """Return environment variables for a child: this process's import path, one thread for BLAS and OpenMP, and `more`."""
    paths = [path or os.getcwd() for path in sys.path]
    threads = ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"]
    return {**os.environ, **dict.fromkeys(threads, "1"), "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **more}


def call(function: str, spec: Any, *, cpu_limit: float | None = None, **env: str) -> dict[str, Any]:
    """Run `function(spec)` in a child process and return its result; spec and result are plain data."""
    with tempfile.TemporaryDirectory(prefix="memorytree-") as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, "-m", "lab.process", function, str(file), str(os.getpid())]
        command += [] if cpu_limit is None else [str(math.ceil(cpu_limit))]
        # Temporary files of a child that is stopped are deleted with this folder.
        code, errors = _run_child(command, json.dumps(spec), child_environment(TMPDIR=folder, **env))
        found = json.loads(file.read_text(encoding="utf8")) if file.exists() else {}
    if "result" in found:
        return dict(found["result"])
    message = "\n".join((found.get("error") or errors).strip().splitlines()[-ERROR_LINES:])
    ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    stopped = cpu_limit is not None and -code == signal.SIGXCPU
    raise ChildError(message or f"{function}: {ended}, without a message", found.get("partial"), stopped)


def _run_child(command: list[str], spec: str, env: dict[str, str]) -> tuple[int, str]:
    """Run a child until it ends or this process is interrupted; return its exit code and its standard error."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        # In a process group of its own, a child does not receive Ctrl-C; the parent ends it, so it is not taken for failed.
        env=env, process_group=0,
    )  # fmt: skip
    _children.add(child)
    try:
        errors = child.communicate(spec)[1]
        return child.returncode, errors
    finally:
        child.kill()  # has no effect on a child that has ended
        child.wait()
        _children.discard(child)


def end_children() -> None:
    """Kill every running child; threads that wait for one then return with an error."""
    for child in list(_children):
        child.kill()


class SharedArrays:
    """A temporary folder that passes arrays to child processes; dense arrays and CSR matrices alike."""

    def __init__(self, **arrays: Any):
        self.folder = tempfile.TemporaryDirectory()
        for name, array in arrays.items():
            if sp.issparse(array):
                sp.save_npz(Path(self.folder.name) / f"{name}.npz", sp.csr_matrix(array), compressed=False)
            else:
                np.save(Path(self.folder.name) / f"{name}.npy", array)

    def __enter__(self) -> str:
        return self.folder.name

    def __exit__(self, *error: object) -> None:
        self.folder.cleanup()


# ---- the child


def read_arrays(folder: str, *names: str) -> list[Any]:
    """Return arrays that the parent wrote with `SharedArrays`."""
    return [_read_array(Path(folder) / name) for name in names]


def _read_array(path: Path) -> Any:
    if path.with_suffix(".npz").exists():
        return sp.csr_matrix(sp.load_npz(path.with_suffix(".npz")))
    return np.load(path.with_suffix(".npy"))


def save_partial(**figures: Any) -> None:
    """Save the partial result of a job in case it is stopped; each call replaces what was saved before."""
    _write_result({"partial": figures})


def _write_result(found: dict[str, Any]) -> None:
    # Replaced in one step, because the child may be stopped at any moment.
    if _result_file is not None:
        draft = _result_file.with_suffix(".part")
        draft.write_text(json.dumps(found, allow_nan=False), encoding="utf8")
        draft.replace(_result_file)


def _exit_with_parent(parent: int) -> None:
    """End this process once its parent has ended, which changes the parent's process id."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def _describe_error(error: Exception) -> str:
    """Return the error and its trace with file names only: results are published, paths of this machine are not."""
    if isinstance(error, MemoryTreeError):  # raised on purpose: its message is complete
        return f"{type(error).__name__}: {error}"
    trace = traceback.extract_tb(error.__traceback__)
    steps = (f"{Path(at.filename).name}:{at.lineno}, {at.name}: {at.line}" for at in trace)
    return "\n".join([*steps, *traceback.format_exception_only(error)]).strip()


def main(function: str, file: str, parent: str, cpu_limit: str | None = None) -> None:
    """Run a function in the child and write its result or its error to the file."""
    global _result_file
    _result_file = Path(file)
    threading.Thread(target=_exit_with_parent, args=(int(parent),), daemon=True).start()
    if cpu_limit is not None:
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_limit), hard))
    try:
        _write_result({"result": resolve_function(function)(json.load(sys.stdin))})
    except Exception as error:
        partial = json.loads(_result_file.read_text()).get("partial") if _result_file.exists() else None
        _write_result({"error": _describe_error(error), "partial": partial})
        os._exit(1)
    os._exit(0)  # some packages crash during interpreter shutdown, after the result is written


if __name__ == "__main__":
    # Run the imported module, not __main__, so that jobs which import `save_partial` share its state.
    from lab import process

    process.main(*sys.argv[1:])
