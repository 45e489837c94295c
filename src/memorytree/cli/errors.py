"""Exit codes, and how exceptions become exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from memorytree.cli.output import messages_of_library, write_message
from memorytree.errors import DamagedFile, MemoryTreeError, StoreError, StoreLocked

SUCCESS, NOT_FOUND, INVALID_INPUT, UNUSABLE_STORE, LOCKED = range(5)
INTERRUPTED, BROKEN_PIPE = 130, 141  # 128 + SIGINT, 128 + SIGPIPE, as shells report them

EXIT_CODES = {
    SUCCESS: "success",
    NOT_FOUND: "nothing was found, or verify found damage",
    INVALID_INPUT: "wrong usage or invalid input",
    UNUSABLE_STORE: "the store, or a file, cannot be read or written",
    LOCKED: "another process has the store open for writing",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the program that reads the output has closed the pipe",
}

EXTRAS = {"plot": "plot"}
"""Commands that need an extra of the package."""


class CommandGroup(TyperGroup):
    """The group of all commands. It turns expected exceptions into one line on standard error and an exit code."""

    def invoke(self, ctx: Any) -> object:  # a context of click, which newer versions of typer contain under another name
        """Run a command."""
        set_encodings()
        try:
            with warnings.catch_warnings(), messages_of_library():
                warnings.showwarning = lambda message, *_: write_message(str(message))
                result = super().invoke(ctx)
            sys.stdout.flush()  # raises BrokenPipeError here and not when the interpreter exits
            return result
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except BrokenPipeError:
            discard_output()
            code = BROKEN_PIPE
        except (MemoryTreeError, OSError, RecursionError, UnicodeDecodeError) as error:
            write_message(describe(error))
            code = exit_code(error)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(ctx.invoked_subcommand)
            if extra is None or str(error.name).startswith("memorytree"):
                raise
            write_message(f'{error.name} is not installed: pip install "memorytree[{extra}]"')
            code = INVALID_INPUT
        raise typer.Exit(code)


def describe(error: Exception) -> str:
    """The message for an exception."""
    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"the input is not UTF-8 text: {error}"
    return str(error)


def exit_code(error: Exception) -> int:
    """The exit code for an exception."""
    if isinstance(error, StoreLocked):
        return LOCKED
    if isinstance(error, StoreError | DamagedFile) or (
        isinstance(error, OSError) and not isinstance(error, MemoryTreeError)
    ):
        return UNUSABLE_STORE
    return INVALID_INPUT


def set_encodings() -> None:
    """Read UTF-8 in any locale, and write "?" for characters that the output encoding lacks.

    A standard stream that the parent process has closed is None; it is replaced by the null device.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (stays open until the process ends)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def discard_output() -> None:
    """Connect standard output to the null device, so that the interpreter does not report the broken pipe at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
