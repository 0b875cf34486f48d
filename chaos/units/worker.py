"""A worker of the demo: takes flight after flight, each in a unit that puts a leg and an entry. It may be killed.

`python -m chaos.units.worker TARGET OUT COUNT` has COUNT units under way at once, until its standard input ends.
OUT gets a line for each unit of which the answer to its commit is here: row, index of the leg, index of the entry.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from pathlib import Path
from typing import TextIO

from chaos.units.plan import entry_of, flight_of, leg_of
from chaos.units.seen import FLIGHTS, LEDGER, LEGS, Committed
from tandemq import aio
from tandemq.errors import UnitAborted

TIMEOUT_S = 600.0
ATTEMPT_S = 2.0
WAIT_S = 0.5  # for a flight


class FlightFailedError(Exception):
    """What its handler came to."""


async def work(client: aio.Client, out: TextIO) -> None:
    """Unit after unit, until it is cancelled."""
    while True:
        with contextlib.suppress(UnitAborted, FlightFailedError):  # nothing of it happened; it comes again
            if done := await one_unit(client):
                out.write(f"{done.row},{done.leg_index},{done.entry_index}\n")
                out.flush()


async def one_unit(client: aio.Client) -> Committed | None:
    """None when there was no flight. Raises FlightFailedError and UnitAborted: nothing happened."""
    async with client.unit(puts_at_commit=True) as unit:
        taken = await unit.dequeue(FLIGHTS, wait=WAIT_S)
        if not taken:
            return None
        flight = flight_of(taken[0].payload)
        await unit.enqueue(LEGS, [leg_of(flight)])
        await unit.enqueue(LEDGER, [entry_of(flight)])
        if flight.hopeless or (flight.fails_at_first and taken[0].delivery_count == 1):
            raise FlightFailedError
    return Committed(flight.row, unit.receipts[LEGS][0].index, unit.receipts[LEDGER][0].index)


def committed_in(file: Path) -> list[Committed]:
    """A last line that was cut off with its process says nothing."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    return [Committed(*(int(number) for number in line.split(","))) for line in lines]


async def main(target: str, file: Path, count: int) -> None:
    async with aio.connect(target, timeout=TIMEOUT_S, attempt_timeout=ATTEMPT_S) as client:
        with file.open("a", encoding="utf-8") as out:
            tasks = [asyncio.create_task(work(client, out)) for _ in range(count)]
            loop, ended = asyncio.get_running_loop(), asyncio.Event()

            def listen() -> None:
                sys.stdin.buffer.read()
                loop.call_soon_threadsafe(ended.set)

            threading.Thread(target=listen, daemon=True).start()
            over = asyncio.create_task(ended.wait())
            await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in tasks if task.done()]
            for task in (over, *tasks):
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)
            for task in failed:
                task.result()  # what a worker did not expect


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
