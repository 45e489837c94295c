"""The command line: `memorytree COMMAND`."""

from memorytree.cli.app import app, main

__all__ = ["app", "main"]
