"""`python -m memorytree`: the command line."""

from memorytree.cli import main

if __name__ == "__main__":
    main()
