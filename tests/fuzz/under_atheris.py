"""One target under atheris, in a process of its own: `python -m tests.fuzz.under_atheris TARGET [libFuzzer options]`.

Our modules must be imported after atheris has been told to count their branches, so nothing of ours stands above.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["replica", "storage", "failover", "tandemq.config", "tests.fuzz.targets"]):
    from tests.fuzz.engine import load

    one = load(sys.argv[1]).one


def main() -> None:
    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
