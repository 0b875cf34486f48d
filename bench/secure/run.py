"""Measures what certificates and rights cost: `python -m bench.secure.run`, which is `make bench-secure`.

Two pairs, one with certificates; each key of the document is turns of both, one right after the other.

Exit code 1 when something failed. A bound that is missed is said, and fails nothing.

Example: python -m bench.secure.run --only in_flight
"""

from __future__ import annotations

from bench.secure.measures import QUICK, Size, enqueue, in_flight, plain, processor, secured, takeover
from bench.turns.command import Bench, Run, run

KEYS = ("enqueue", "processor", "in_flight", "takeover_ms")


async def measured(asked: Run[Size]) -> None:
    """One pair beside the other; a takeover has the machine to itself."""
    folder = asked.place.role("secure")
    async with secured(folder, asked.size) as ours:
        async with plain(folder, asked.size) as beside:
            for key, measure in (("enqueue", enqueue), ("processor", processor), ("in_flight", in_flight)):
                if key in asked.keys:
                    await asked.take(key, measure(ours, beside))
        if "takeover_ms" in asked.keys:
            await asked.take("takeover_ms", takeover(ours))


if __name__ == "__main__":
    run(Bench("secure", __doc__, KEYS, Size(), QUICK, measured))
