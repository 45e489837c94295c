"""The door of the command line: every way out of a command, and the exit code that stands for it."""

from __future__ import annotations

import os
import sys
import warnings
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from memorytree.cli.output import say
from memorytree.errors import DamagedFile, MemoryTreeError, StoreError, StoreLocked

FINE, NOTHING, WRONG, UNUSABLE, LOCKED = range(5)
INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + SIGINT, 128 + SIGPIPE: what a shell expects

EXIT_CODES = {
    FINE: "fine",
    NOTHING: "nothing was found, or verify found damage",
    WRONG: "wrong usage or bad input",
    UNUSABLE: "the store, or a file, cannot be read or written",
    LOCKED: "another process is writing to the store",
    INTERRUPTED: "stopped by Ctrl-C",
    BROKEN_PIPE: "whoever read the output has stopped reading",
}

EXTRAS = {"draw": "plot"}
"""What has to be installed for some commands besides memorytree itself."""


class Door(TyperGroup):
    """The group of all commands. An error of ours leaves as one line and an exit code, never as a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        _agree_on_letters()
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: say(str(message))
                result = super().invoke(ctx)
            sys.stdout.flush()  # a pipe may turn out to be broken only now
            return result
        except (KeyboardInterrupt, typer.Abort):
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _write_nowhere()
            raise typer.Exit(BROKEN_PIPE) from None
        except RecursionError:
            say("the input is nested too deep")
            raise typer.Exit(WRONG) from None
        except UnicodeDecodeError as error:
            say(f"the input is not UTF-8 text: {error}")
            raise typer.Exit(WRONG) from None
        except (MemoryTreeError, OSError) as error:
            say(str(error))
            raise typer.Exit(exit_code_of(error)) from None
        except ModuleNotFoundError as error:
            if ctx.invoked_subcommand not in EXTRAS or str(error.name).startswith("memorytree"):
                raise
            say(f'{error.name} is not installed: pip install "memorytree[{EXTRAS[ctx.invoked_subcommand]}]"')
            raise typer.Exit(WRONG) from None


def exit_code_of(error: MemoryTreeError | OSError) -> int:
    """The exit code that stands for an error."""
    if isinstance(error, StoreLocked):
        return LOCKED
    if isinstance(error, StoreError | DamagedFile) or not isinstance(error, MemoryTreeError):
        return UNUSABLE
    return WRONG


def _agree_on_letters() -> None:
    """What comes in is UTF-8, whatever the locale; what cannot be shown is shown as a question mark.

    Who closed one of the three streams has nothing to say, or does not want to hear.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (for as long as the process lives)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _write_nowhere() -> None:
    """Send what is still to be written nowhere, so that the interpreter does not complain of the pipe once more."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
