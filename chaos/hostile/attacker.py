"""One hostile input, in a process of its own: `python -m chaos.hostile.attacker NAME`, with a target on standard input.

Writes its answer as JSON. It is to take no time from the pair and its clients, as if it had a machine of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

import chaos.hostile.bearers
import chaos.hostile.inside
import chaos.hostile.keeping
import chaos.hostile.outside  # noqa: F401 - each enters what it has
from chaos.hostile.inputs import INPUTS
from chaos.hostile.target import Target
from tandemq.cli.output import say_lines

NICE = 19

if __name__ == "__main__":
    os.nice(NICE)
    target = msgspec.json.decode(sys.stdin.buffer.read(), type=Target)

    async def attack() -> str:
        """See Attack."""
        return await INPUTS[sys.argv[1]].attack(target)

    answer = asyncio.run(attack())
    say_lines(msgspec.json.encode(answer).decode())
