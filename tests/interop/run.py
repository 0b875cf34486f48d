"""Runs every client against a fresh pair and ends with a table; exit code 1 when one fails, or when there was none to
run. Names of languages as arguments run only these.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chaos.cluster import ClusterError
from tests.interop.clients import CLIENTS, ClientFailed, Missing
from tests.interop.judge import Wrong
from tests.interop.secured import secured
from tests.interop.sessions import COPIES, SCRIPT, STREAMS, UNITS, Session, run_false_scripts, run_session
from tests.support.clusters import quick

COLUMNS = (
    "client",
    "script",
    "steps",
    "sent",
    "taken",
    "kills",
    "lost",
    "handoffs",
    "broken connections",
    "repeated",
    "seconds",
    "outcome",
)

SCRIPTS = (SCRIPT, STREAMS, COPIES, UNITS)
SECURED = (f"{SCRIPT.stem}, with certificates", f"{SCRIPT.stem}, with a token")
WITH_TOKENS = ("go", "node")
"""Clients that can show one."""


async def _one(name: str, say: Console) -> list[Session]:
    """A run of each script, each at a pair of its own, and of the first one again with certificates."""

    def tell(line: str) -> None:
        say.print(f"  {line}", highlight=False)

    say.print(f"{name}: builds", highlight=False)
    command = CLIENTS[name]()
    runs = []
    for script in SCRIPTS:
        with tempfile.TemporaryDirectory(prefix="tandemq-interop-") as folder:
            async with quick(Path(folder)).running() as cluster:
                if not runs:
                    count = await run_false_scripts(command, cluster.endpoint("a"))
                    tell(f"{count} false scripts failed, each at its line")
                runs.append(await run_session(cluster, command, tell, script))
    with tempfile.TemporaryDirectory(prefix="tandemq-interop-") as folder:
        async with secured(Path(folder)) as pair:
            runs.append(await run_session(pair.cluster, command, tell, credentials=pair.credentials))
            if name in WITH_TOKENS:
                shown, at = pair.token, pair.endpoints
                runs.append(await run_session(pair.cluster, command, tell, credentials=shown, at=at))
    return runs


async def main(names: list[str]) -> int:
    if unknown := sorted(set(names) - CLIENTS.keys()):
        print(f"interop: no client in {', '.join(unknown)}; there are {', '.join(CLIENTS)}", file=sys.stderr)  # noqa: T201
        return 2
    say = Console(soft_wrap=True, width=140)
    table = Table(*COLUMNS, box=None)
    passed, failed = 0, 0
    for name in names:
        try:
            runs = await _one(name, say)
        except Missing as missing:
            say.print(f"{name}: {missing}", highlight=False, markup=False)
            table.add_row(name, *[""] * (len(COLUMNS) - 2), "SKIPPED, NOT PASSED")
        except (ClientFailed, Wrong, ClusterError) as error:
            failed += 1
            say.print(f"{name}: {error}", highlight=False, markup=False)
            table.add_row(name, *[""] * (len(COLUMNS) - 2), "FAILED")
        else:
            passed += 1
            for script, run in zip((*(each.stem for each in SCRIPTS), *SECURED), runs, strict=False):
                figures = (run.steps, run.sent, run.taken, run.kills, run.lost, run.handoffs, run.broken, run.repeated)
                table.add_row(name, script, *map(str, figures), f"{run.seconds:.1f}", "passed")
    say.print(table)
    return int(bool(failed) or not passed)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or list(CLIENTS))))
