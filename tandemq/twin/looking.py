"""What is known of twins from outside: which there are, what each says of itself, and orders for one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tandemq.client import aio
from tandemq.client.sides import behind
from tandemq.errors import NotFound
from tandemq.twin.faults import TwinFault
from tandemq.twin.meeting import LOG, PREFIX, Asked, ask, asked_queue, latest, log_queue, logged, marks

LOOK_S = 0.1
NAMED_MAX = 50
"""Twins that a refusal names."""


@dataclass(frozen=True, slots=True)
class SeenTwin:
    """The process of one member, as the pair's queues say it."""

    name: str
    member: str
    running: bool
    """It waits for orders."""
    version: str
    """Empty: none has begun there yet."""
    began_at: datetime | None
    host: str
    pid: int
    passed: int
    """Inputs that are settled at that member, as of the last record of it."""
    behind: int
    """Inputs that are not."""


@dataclass(frozen=True, slots=True)
class SeenTwins:
    """Both of one name."""

    name: str
    inputs: str
    twins: list[SeenTwin]
    sent: int
    """The last input of which outputs are in their queues; 0: none."""
    digest: str
    """Of all outputs up to there; empty: not known."""
    mark: int
    """The last input behind which the state was compared; 0: none."""
    differences: list[dict[str, Any]]
    """What was found since both began, the latest last: member, at, number, equal, own, other, where (TwinsDiffer)."""


async def names(client: aio.Client) -> list[str]:
    """Of all twins that have ever begun at this pair."""
    found = await client.list_queues(PREFIX)
    return [info.name.removeprefix(PREFIX).removesuffix(LOG) for info in found if info.name.endswith(LOG)]


async def look(client: aio.Client, name: str) -> SeenTwins:
    """Raises TwinFault (TWIN_NOT_FOUND): none of that name has ever begun."""
    try:
        inputs = (await client.get_queue(log_queue(name))).config.labels.get("inputs", "")
    except NotFound as error:
        begun = sorted(await names(client))
        those = f"those that have: {', '.join(begun[:NAMED_MAX])}" if begun else "no others have either"
        more = f" and {len(begun) - NAMED_MAX} more" if len(begun) > NAMED_MAX else ""
        raise TwinFault("TWIN_NOT_FOUND", f"no twins {name!r} have begun at this pair; {those}{more}") from error
    log = await logged(client, name)
    began, sides, waiting = latest(log, "began"), dict[str, int](), dict[str, int]()
    try:
        info = await client.get_queue(inputs)
        sides = {side.member: side.passed for side in info.sides}
        waiting = {side.member: behind(info, side.passed) for side in info.sides}
    except NotFound:
        pass  # deleted; what they said is still there
    twins = []
    for member in sorted(sides.keys() | began.keys()):
        said, passed = began.get(member, {}), sides.get(member, 0)
        running, version = await _is_running(client, name, member), said.get("version", "")
        who = said.get("at"), said.get("host", ""), said.get("pid", 0)
        twins.append(SeenTwin(name, member, running, version, *who, passed, waiting.get(member, 0)))
    state = await client.writer_state(name, digests=True)
    sent = state.batch if state is not None else 0
    digest = f"{state.digests[sent]:016x}" if state is not None and sent in state.digests else ""
    since = max((said["at"] for said in began.values()), default=None)
    differences = [each for each in log if each["what"] == "differed" and since is not None and each["at"] >= since]
    return SeenTwins(name, inputs, twins, sent, digest, max(await marks(client, name), default=0), differences)


async def _is_running(client: aio.Client, name: str, member: str) -> bool:
    try:
        return (await client.get_queue(asked_queue(name, member))).consumers > 0
    except NotFound:
        return False


async def order(client: aio.Client, name: str, member: str, what: str) -> None:
    """Has the twin of that member `stop`, or `restart`; returns when it has. Raises TwinFault. The caller bounds it."""
    seen = await look(client, name)
    if not any(each.member == member and each.running for each in seen.twins):
        running = ", ".join(each.member for each in seen.twins if each.running) or "none"
        raise TwinFault("INVALID_STATE", f"no twin of {name} runs at {member}; those that run: {running}")
    wanted = "began" if what == "restart" else "ended"
    before = latest(await logged(client, name), wanted).get(member)
    await ask(client, name, member, Asked(what, "", 0, b""))
    while latest(await logged(client, name), wanted).get(member) == before:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(LOOK_S)
