#!/bin/sh
# Sets the project up in .venv and runs it. Needs python3 (3.11 or newer, with venv) and a network for pip.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
venv=$root/.venv
python=$venv/bin/python

usage() {
    cat <<'END'
memorytree: a memory that learns

usage: ./mt COMMAND [ARGUMENTS]

  demo      learn a few-shot task from the docstrings on this machine and show the progress
  test      lint, all tests, and those of the engine with bounds checks, at the same time (arguments go to the first pytest)
  lab       the paper's tables and figures beside the systems that it names; "./mt lab list" shows them
  bench     speed and accuracy beside other systems; "./mt bench --help" lists the benchmarks
  crash     kill a writing process again and again ("./mt crash 1000") and see that a store loses nothing
  damage    flip every byte of a small store, and cut its log after every byte; half an hour
  lint      ruff, mypy, import-linter, and the counts of tests/house.py
  format    ruff format, and the lint fixes that are safe
  help      this text

The first run of a command makes .venv and installs what that command needs; later runs start at once.
PYTHON=/path/to/python ./mt ... picks the interpreter to make .venv with.
END
}

say() { printf '%s\n' "mt: $*" >&2; }
chat() { [ -n "${CI:-}" ] || say "$@"; }
die() {
    say "$@"
    exit 1
}

recent_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 || die "PYTHON=$PYTHON: no such program"
        recent_enough "$PYTHON" || die "PYTHON=$PYTHON is older than Python 3.11, or does not start"
        found=$PYTHON
        return
    fi
    for found in python3 python3.13 python3.12 python3.11 python3.14; do
        if command -v "$found" >/dev/null 2>&1 && recent_enough "$found"; then return; fi
    done
    command -v python3 >/dev/null 2>&1 || die "python3 was not found; memorytree needs Python 3.11 or newer"
    die "python3 is $(python3 -V 2>&1 || true); memorytree needs Python 3.11 or newer"
}

make_venv() {
    find_python
    "$found" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        die "$found has no venv module (on Debian and Ubuntu: apt install python3-venv)"
    rm -rf "$venv"
    "$found" -m venv "$venv" || die "could not make $venv"
}

# An editable install remembers where the checkout is, so the stamp holds that as well as what is asked for.
stamp_text() { printf '%s\n' "$root" && cksum <"$root/pyproject.toml"; }

# need EXTRA: have .venv with memorytree[EXTRA], installing only when something changed.
need() {
    stamp=$venv/.installed-$1
    if [ -x "$python" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(stamp_text)" ]; then return; fi
    chat "setting up .venv for \"$1\" (once; a minute or so) ..."
    recent_enough "$python" && "$python" -m pip --version >/dev/null 2>&1 || make_venv
    # Byte code is written on first import: compiling all of every package up front takes longer than the download.
    (cd "$root" && "$python" -m pip install -qq --no-compile --disable-pip-version-check -e ".[$1]") ||
        die "pip could not install memorytree[$1]; its messages are above"
    stamp_text >"$stamp"
}

# Run every check, whether or not an earlier one failed.
lint() {
    failed=0
    "$python" -m ruff check --output-format concise . || failed=1
    "$python" -m ruff format --check . || failed=1
    "$python" -m mypy || failed=1
    "$python" -c 'from importlinter.cli import lint_imports_command as check; check()' --no-logo --no-cache || failed=1
    "$python" -m tests.house || failed=1
    return $failed
}

# from_root MODULE: run a module that is in the checkout, not in the package.
from_root() {
    export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
    exec "$python" -P -m "$@"
}

step() { [ -n "${CI:-}" ] || printf '\n== %s\n' "$*"; }

command=${1:-help}
[ $# -eq 0 ] || shift
export MPLBACKEND="${MPLBACKEND:-Agg}"
quiet=''
[ -z "${CI:-}" ] || quiet=-q

case $command in
demo)
    need demo
    from_root examples.demo "$@"
    ;;
lab)
    need lab
    from_root lab "$@"
    ;;
bench)
    need bench
    from_root lab.benchmarks "$@"
    ;;
test)
    need test
    cd "$root"
    # For two cores: two workers share the tests, file by file, unless arguments say which to run. Beside them run the lint and the
    # tests with bounds checks, whose compiled code must not share a cache with the others'.
    [ $# -gt 0 ] || set -- --numprocesses=logical --maxprocesses=4 --dist=loadfile
    lint >"$venv/lint.log" 2>&1 &
    linting=$!
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR="$venv/numba-boundscheck" \
        "$python" -m pytest -q -p no:cacheprovider -m boundscheck tests >"$venv/boundscheck.log" 2>&1 &
    checking=$!
    trap 'kill "$linting" "$checking" 2>/dev/null || :' EXIT
    passed=0
    step "tests"
    "$python" -m pytest $quiet "$@" || passed=$?
    step "lint"
    wait "$linting" || passed=$?
    cat "$venv/lint.log"
    step "engine tests with bounds checks"
    wait "$checking" || passed=$?
    trap - EXIT
    cat "$venv/boundscheck.log"
    exit "$passed"
    ;;
crash | damage)
    need test
    cd "$root"
    exec "$python" -m "tests.faults.$command" "$@"
    ;;
lint)
    need test
    cd "$root"
    lint
    ;;
format)
    need test
    cd "$root"
    "$python" -m ruff check --fix-only --quiet .
    "$python" -m ruff format .
    ;;
help | -h | --help) usage ;;
*)
    usage >&2
    printf '\n' >&2
    die "no command \"$command\""
    ;;
esac
