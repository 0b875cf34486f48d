"""Messages on their way to other managers: what waits, whether it goes, and a batch that is given back. It decides
nothing.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from tandemq.client.calls import ADMIN_SERVICE
from tandemq.client.links import Linked
from tandemq.v1 import queue_admin_service_pb2 as pb

RELEASE_WAIT = timedelta(seconds=20)
"""A target that is away is waited for, and a call to it that was not answered."""


class Going(StrEnum):
    """Whether messages go to another manager."""

    IDLE = "idle"
    """Nothing waits."""
    CARRYING = "carrying"
    WAITING = "waiting"
    """It is away, or what comes first has no place there now."""


class Transmission(NamedTuple):
    """What waits for one other manager."""

    target: str
    queue: str
    """SYSTEM.XMIT/target."""
    messages: int
    state: Going
    waiting: timedelta
    """For how long it stands still."""
    why: str
    """What stopped it last; empty unless it stands still."""
    last_batch: int
    """Highest number that was taken; 0: none."""
    open_batches: tuple[int, ...]
    """Taken and not acknowledged."""
    open_messages: int
    addresses: tuple[str, ...]
    """host:port; none: nobody who was asked knows."""
    via: str = ""
    """The manager that sends it on; empty: this one reaches the target."""


class ReleasedTransmission(NamedTuple):
    """What became of the batches that were under way."""

    batches: tuple[int, ...]
    released: int
    """Messages that returned to the transmission queue."""
    acknowledged: int
    """Messages that the target has."""
    silence: str
    """Why the target has not said what it has; empty: it has said it."""
    in_doubt: int
    """Messages that may be there, and are there twice if they are sent again."""


async def list_transmissions(client: Linked, *, domain: str = "") -> list[Transmission]:
    """Those of a domain, by target."""
    request = pb.ListTransmissionsRequest(domain=domain)
    path = ADMIN_SERVICE + "ListTransmissions"
    found = await client.links.own.caller.call(path, request, pb.ListTransmissionsResponse)
    return [
        Transmission(
            each.target,
            each.queue,
            each.messages,
            _GOING.get(each.state, Going.CARRYING),
            each.waiting.ToTimedelta(),
            each.why,
            each.last_batch,
            tuple(each.open_batches),
            each.open_messages,
            tuple(each.addresses),
            each.via,
        )
        for each in found.transmissions
    ]


_GOING = MappingProxyType(
    {
        pb.TRANSMISSION_STATE_IDLE: Going.IDLE,
        pb.TRANSMISSION_STATE_CARRYING: Going.CARRYING,
        pb.TRANSMISSION_STATE_WAITING: Going.WAITING,
    }
)


async def release_transmission(
    client: Linked, target: str, *, unasked: bool = False, domain: str = ""
) -> ReleasedTransmission:
    """Gives back the batch that is under way to `target`, once that one has said whether it has it: what it has is
    acknowledged, the rest returns and goes under the next number. May be repeated; takes up to 20 s.

    unasked: also when it does not say so, and then what returns may be there twice; without, nothing is done then, and
    `silence` says why. Raises NotFound when nothing was ever sent to it.
    """
    request = pb.ReleaseTransmissionRequest(target=target, unasked=unasked, domain=domain)
    path = ADMIN_SERVICE + "ReleaseTransmission"
    done = await client.links.own.caller.call(path, request, pb.ReleaseTransmissionResponse, wait=RELEASE_WAIT)
    return ReleasedTransmission(tuple(done.batches), done.released, done.acknowledged, done.silence, done.in_doubt)
