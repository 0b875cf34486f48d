"""A process of Tandemq without what is named first: `python -m bench.levers.switched short-commits serve ...`."""

from __future__ import annotations

import sys

from bench.levers.table import ADDED, SWITCHES
from tandemq.cli import main


def switch_off(names: str) -> None:
    """Each of these, divided by commas; none of an empty text. KeyError: there is none of that name."""
    for name in filter(None, names.split(",")):
        {**SWITCHES, **ADDED}[name]()


if __name__ == "__main__":
    switch_off(sys.argv.pop(1))
    main()
