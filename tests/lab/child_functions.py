"""Functions that tests run in child processes; this module imports little, so that the children start fast."""

import os
import signal
import time

from lab.process import save_partial


def double(spec):
    """Print something and return a result."""
    print("printed by a child")
    return {"doubled": 2 * spec["number"]}


def fail_halfway(spec):
    """Save partial results, then fail."""
    save_partial(first=1)
    save_partial(first=1, second=2)
    raise ValueError("no third")


def crash(spec):
    """Crash the process."""
    os.kill(os.getpid(), signal.SIGSEGV)


def never_return(spec):
    """Use CPU time until the process is stopped."""
    save_partial(rounds=0)
    while True:
        pass


def wait_for_the_end(spec):
    """Report the start in a pipe, then take a minute."""
    with open(spec["pipe"], "w") as pipe:
        print("started", file=pipe, flush=True)
        time.sleep(60)
        print("finished", file=pipe, flush=True)
    return {}
