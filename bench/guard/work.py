"""The process that callgrind counts: does each workload once and names it. `bench.guard.run` starts it.

Example: python -m bench.guard.work /tmp/empty-folder, which must be there
"""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import closing
from pathlib import Path

from bench.guard import planted
from bench.guard.pair import Pair
from bench.guard.valgrind import Callgrind
from bench.guard.workloads import ALL, Runner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="for the stores; must be empty")
    parser.add_argument("--only", action="append", help="a workload by its name; may be repeated")
    parser.add_argument("--plant", choices=planted.REGRESSIONS, action="append", default=[])
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    counter = Callgrind()
    if not counter.is_running:
        print("guard: not run by valgrind, nothing is counted", file=sys.stderr)
    wanted = [workload for workload in ALL if options.only is None or workload.name in options.only]
    for name in options.plant:
        planted.plant(name)
    with Pair(options.directory) as pair, closing(Runner(pair)) as runner:
        runner.prepare({workload.shape for workload in wanted})
        counter.start()
        for workload in wanted:
            runner.count(workload, counter.toggle)
            counter.dump(workload.name)


if __name__ == "__main__":
    main()
