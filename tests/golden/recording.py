"""Record the answers of fixed workloads, and compare later versions with them.

    python -m tests.golden.recording [AREA.CASE ...]    # writes tests/golden/answers/AREA.CASE.json

A workload is a function in `CASES` of one of the modules in `AREAS`; it returns data that JSON can hold. On the kind of
machine that recorded them, answers must be equal to the bit; elsewhere, where compilers order sums differently, numbers may
differ in the last digits.
"""

import importlib
import json
import math
import platform
import sys
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np

AREAS = ("trees", "stores", "texts", "estimators")
ANSWERS = Path(__file__).parent / "answers"
RELATIVE, ABSOLUTE = 1e-3, 1e-4


def cases():
    """Every workload by its name, AREA.CASE."""
    found = {}
    for area in AREAS:
        if (Path(__file__).parent / f"{area}.py").exists():
            module = importlib.import_module(f"tests.golden.{area}")
            found |= {f"{area}.{name}": case for name, case in module.CASES.items()}
    return found


def machine():
    """What the last bits of a number depend on."""
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "system": platform.system(),
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def plain(data):
    """Data as JSON gives it back: arrays and tuples as lists, NumPy's numbers as Python's."""
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if isinstance(data, np.ndarray | np.generic):
        return plain(data.tolist())
    return data


def record(name):
    """Write the answers of one workload."""
    answers = plain(cases()[name]())
    text = json.dumps({"machine": machine(), "answers": answers}, separators=(",", ":"))
    (ANSWERS / f"{name}.json").write_text(text + "\n")


def differences(now, then, exact, path="answers"):
    """Where two answers differ, as readable lines."""
    if isinstance(then, dict) and isinstance(now, dict) and now.keys() == then.keys():
        for key in then:
            yield from differences(now[key], then[key], exact, f"{path}.{key}")
    elif isinstance(then, list) and isinstance(now, list) and len(now) == len(then):
        for i, (a, b) in enumerate(zip(now, then, strict=True)):
            yield from differences(a, b, exact, f"{path}[{i}]")
    elif isinstance(then, float) and isinstance(now, float) and not exact:
        if not math.isclose(now, then, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            yield f"{path}: {now!r} instead of {then!r}"
    elif now != then and not (now != now and then != then):
        yield f"{path}: {now!r} instead of {then!r}"


def recorded(name):
    """The recorded answers of a workload, and whether this machine must reproduce them to the bit."""
    kept = json.loads((ANSWERS / f"{name}.json").read_text())
    return kept["answers"], kept["machine"] == machine()


if __name__ == "__main__":
    ANSWERS.mkdir(exist_ok=True)
    for each in sys.argv[1:] or cases():
        record(each)
        print(each)
