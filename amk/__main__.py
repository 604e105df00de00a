"""`python -m amk` is `amk`."""

from amk.cli.main import entry

if __name__ == "__main__":
    entry()
