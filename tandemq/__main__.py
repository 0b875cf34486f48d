"""Runs the command line as `python -m tandemq`; decides nothing."""

from tandemq.cli import main

if __name__ == "__main__":
    main()
