"""The product's command line with one rule taken out: python -m chaos.sim.bugs BUG serve --config FILE ...

For the campaign on real processes, which must find what the simulator's campaign finds. The product's own command has
no such way.
"""

from __future__ import annotations

import sys

from chaos.sim.bugs import BUGS, planted
from tandemq.cli import main


def plant_and_run() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in BUGS:
        sys.exit(f"name a bug: {', '.join(BUGS)}")
    name = sys.argv.pop(1)
    sys.stderr.write(f"PLANTED BUG {name}: {BUGS[name].text}\n")
    with planted(name):
        main()


if __name__ == "__main__":
    plant_and_run()
