"""As a shell sees it: processes, pipes, signals."""

import json
import os
import signal
import subprocess
import sys

COMMAND = [sys.executable, "-m", "memorytree"]


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_through_pipes(store):
    def run(*arguments, input=""):
        return subprocess.run([*COMMAND, *arguments], input=input, env=ENVIRONMENT, capture_output=True, text=True)

    asked = run("recall", "--json", "chess")
    answer = json.loads(asked.stdout)
    rewards = {"receipt": answer["receipt"], "rewards": {str(hit["id"]): int(hit["id"] == 2) for hit in answer["hits"]}}
    learned = run("reward", "--jsonl", "--json", input=json.dumps(rewards))
    assert json.loads(learned.stdout)["receipts"] == 1
    assert (asked.returncode, learned.returncode, asked.stderr, learned.stderr) == (0, 0, "", "")


def test_a_reader_that_stops_is_no_error(store):
    store("remember", input="\n".join(f"a line of some length with the number {i}" for i in range(3000)))
    with subprocess.Popen(
        [*COMMAND, "export"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as exporting:
        json.loads(exporting.stdout.readline())
        exporting.stdout.close()
        assert exporting.stderr.read() == b""
    assert exporting.returncode == 141


def test_ctrl_c_is_quiet(store):
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Who is started in the background may have been told to ignore Ctrl-C, and so would the command be.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen([*COMMAND, "remember"], env=ENVIRONMENT, **piped, **heeding) as remembering:
        # More than a pipe holds: once this is written, the command is reading.
        remembering.stdin.write(b"one more line\n" * 20_000)
        remembering.stdin.flush()
        remembering.send_signal(signal.SIGINT)
        out, err = remembering.communicate()
    assert (remembering.returncode, out, err) == (130, b"", b"")
    assert store("stats", "--json").json["memories"] == 4


def test_light_commands_load_nothing_heavy(store):
    code = (
        "import sys; sys.argv = ['memorytree', 'recall', 'tea'];"
        "import memorytree.cli, typer\n"
        "try: memorytree.cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'matplotlib', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def test_letters_that_the_output_cannot_hold(store):
    store("remember", "naïve café 東京", "--id", 9)
    plain = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run([*COMMAND, "recall", "café", "-k", "1"], env=plain, capture_output=True)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"na?ve caf?" in shown.stdout
    exported = subprocess.run([*COMMAND, "export"], env=plain, capture_output=True)
    assert "naïve café 東京".encode() in exported.stdout


def test_a_table_that_nobody_reads_any_more_has_the_same_exit_code(store):
    with subprocess.Popen([*COMMAND, "recall", "chess"], env=ENVIRONMENT, stdout=subprocess.PIPE) as recalling:
        recalling.stdout.close()
    assert recalling.returncode == 141


def test_streams_may_be_closed(store):
    shell = f'"{sys.executable}" -m memorytree'
    for command, code in ((f"{shell} recall chess >&-", 0), (f"{shell} recall <&-", 1), (f"{shell} import <&-", 0)):
        run = subprocess.run(command, shell=True, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        assert (run.returncode, "Traceback" in run.stderr) == (code, False), (command, run.stderr)
