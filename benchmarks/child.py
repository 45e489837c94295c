"""Run a function in a process of its own, so that its memory and its compiled code are its own too.

    call("benchmarks.peer_vw:measure", spec)     # spec and result are plain data

The child is `python -m benchmarks.child module:function`, with the spec on standard input.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
MARK = "result of the child: "


class ChildError(Exception):
    """The child ended without a result."""


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with the checkout importable, one BLAS thread, and `more`."""
    paths = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    one_thread = dict.fromkeys(["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"], "1")
    return {**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(paths), **more}


def call(function: str, spec: dict, **env: str) -> dict:
    command = [sys.executable, "-m", "benchmarks.child", function]
    done = subprocess.run(command, input=json.dumps(spec), capture_output=True, text=True, cwd=ROOT, env=environment(**env))
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])
    raise ChildError(f"{function} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


class Arrays:
    """A temporary folder through which arrays travel to children; dense arrays and CSR matrices alike."""

    def __init__(self, **arrays):
        self.folder = tempfile.TemporaryDirectory()
        for name, array in arrays.items():
            if sp.issparse(array):
                sp.save_npz(Path(self.folder.name) / f"{name}.npz", sp.csr_matrix(array), compressed=False)
            else:
                np.save(Path(self.folder.name) / f"{name}.npy", array)

    def __enter__(self) -> str:
        return self.folder.name

    def __exit__(self, *error):
        self.folder.cleanup()


def load(folder: str, name: str):
    path = Path(folder) / name
    if path.with_suffix(".npz").exists():
        return sp.csr_matrix(sp.load_npz(path.with_suffix(".npz")))
    return np.load(path.with_suffix(".npy"))


def main() -> None:
    module, function = sys.argv[1].split(":")
    result = getattr(importlib.import_module(module), function)(json.load(sys.stdin))
    print("\n" + MARK + json.dumps(result), flush=True)
    os._exit(0)  # some peers crash while they are torn down, after the result


if __name__ == "__main__":
    main()
