"""A full disk, I/O errors, failing syncs, short writes: the operation fails, and the store stays whole."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memorytree
from memorytree.errors import StoreError

HERE = Path(__file__).parent
COMPILER = shutil.which("cc")


@pytest.mark.skipif(COMPILER is None or not sys.platform.startswith("linux"), reason="needs Linux and a C compiler")
def test_disk_fails_at_each_call(tmp_path):
    library, plan = tmp_path / "faulty_disk.so", tmp_path / "plan"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, HERE / "faulty_disk.c", "-ldl"], check=True)
    plan.write_bytes((-1).to_bytes(8, sys.byteorder, signed=True) + bytes(4088))
    root = HERE.parent.parent
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FAULTY_DISK_PLAN": str(plan),
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
    }
    command = [sys.executable, "-m", "tests.faults.disk", str(tmp_path), "9"]
    run = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "short write" in run.stdout


def test_file_size_limit_fails_one_insert(tmp_path):
    """The same without a compiler: the operating system limits the size of files."""
    program = """
import resource, signal, sys, memorytree
from memorytree.errors import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = memorytree.open(sys.argv[1], seed=0)
kept = store.insert([1.0, 2.0], "kept")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    store.insert_many([[1.0, 2.0]] * 20_000, ["x" * 100] * 20_000)
    raise SystemExit("the insertion should have failed")
except StoreError as error:
    assert "nothing was changed" in str(error), error
assert list(store) == [kept], list(store)
small = store.insert([3.0, 4.0], "small")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.insert_many([[1.0, 2.0]] * 200, ["x" * 100] * 200)
assert len(store) == 202
assert store.verify().ok
store.close()
"""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    with memorytree.open(tmp_path / "store") as store:
        assert len(store) == 202


def test_unusable_directory_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StoreError, match="is a file"):
        memorytree.open(tmp_path / "file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("private")
    with pytest.raises(StoreError, match="it holds 'diary"):
        memorytree.open(tmp_path / "full")
    with pytest.raises(StoreError, match="not a store"):
        memorytree.open(tmp_path / "nowhere", mode="r")
    assert not (tmp_path / "nowhere").exists()
