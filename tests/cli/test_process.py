"""Commands as processes: pipes, signals and closed streams. All processes share the kernel cache of this checkout."""

import json
import os
import signal
import subprocess
import sys

COMMAND = [sys.executable, "-m", "memorytree"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_pipes_and_light_imports(store):
    code = (
        "import sys; sys.argv = ['memorytree', 'recall', '--json']; import memorytree.cli\n"
        "try: memorytree.cli.main()\n"
        "finally: print({'matplotlib', 'sklearn', 'pandas'} & set(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    recall = subprocess.run(command, input="chess?\n東京?\n", env=ENVIRONMENT, capture_output=True, encoding="utf8")
    assert [json.loads(line)["question"] for line in recall.stdout.splitlines()] == ["chess?", "東京?"]
    assert (recall.returncode, recall.stderr) == (0, "set()\n")


def test_a_closed_pipe(store):
    store("remember", input="\n".join(f"a line of some length with the number {i}" for i in range(3000)))
    command = [*COMMAND, "export"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as export:
        json.loads(export.stdout.readline())
        export.stdout.close()
        messages = export.stderr.read().splitlines()
        assert [line for line in messages if b"compiling" not in line] == []
    assert export.returncode == 141


def test_ctrl_c(store):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Background processes may inherit a disabled SIGINT.
    enable = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen([*COMMAND, "remember"], env=ENVIRONMENT, **pipes, **enable) as remember:
        # More than the pipe holds: when this is written, the command is reading.
        remember.stdin.write(b"one more line\n" * 20_000)
        remember.stdin.flush()
        remember.send_signal(signal.SIGINT)
        out, err = remember.communicate()
    assert (remember.returncode, out, err) == (130, b"", b"")
    assert store("stats", "--json").json["memories"] == 4


def test_closed_streams(store):
    command = f'"{sys.executable}" -m memorytree recall chess <&- >&-'
    recall = subprocess.run(command, shell=True, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert (recall.returncode, recall.stderr) == (0, "")
