"""Runs the command line: `python -m memorytree`."""

from memorytree.cli import main

if __name__ == "__main__":
    main()
