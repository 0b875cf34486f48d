"""Runs every client against a fresh pair; exit code 1 when one fails, or when there was none to run."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from chaos.cluster import Cluster
from tests.interop.clients import CLIENTS, ClientFailed, Missing, run_all


async def main(names: list[str]) -> int:
    outcomes: dict[str, str] = {}
    for name in names:
        try:
            command = CLIENTS[name]()
            with tempfile.TemporaryDirectory(prefix="tandemq-interop-") as folder:
                async with Cluster(Path(folder)).running() as cluster:
                    await run_all(cluster, command, lambda line, name=name: print(f"  {name}: {line}", flush=True))  # noqa: T201
            outcomes[name] = "passed"
        except Missing as missing:
            outcomes[name] = f"SKIPPED, NOT PASSED: {missing}"
        except ClientFailed as failed:
            outcomes[name] = f"FAILED: {failed}"
        print(f"{name}: {outcomes[name]}", flush=True)  # noqa: T201
    failed = any(outcome.startswith("FAILED") for outcome in outcomes.values())
    return int(failed or "passed" not in outcomes.values())


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or list(CLIENTS))))
