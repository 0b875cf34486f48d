"""Bugs of proxies, and of members of macro queues at another pair; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import replica.services.proxies.door
from chaos.sim.bugs import links
from chaos.sim.bugs.planting import Patch, bug
from replica.core.delivery.far_heads import FarHeads, FarMember
from replica.services.links.far_side import FarSide
from replica.services.proxies import ways
from replica.services.proxies.far_manager import FarManager
from replica.services.proxies.far_tap import FarTap
from replica.services.proxies.keeper import Keeper
from tandemq.ambient import random_bytes
from tandemq.v1.queue_service_pb2 import EnqueueRequest

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.far_runs import FarRun
    from replica.services.passage import Passage
    from replica.services.proxies.ways import ProxyWay
    from tandemq import aio

PROFILE = "proxies"


@bug("far-head-delivered-twice", "M7", "A head that a consumer is given waits for the next one too.", PROFILE)
def heads_stay(patch: Patch) -> None:
    original = FarMember.take

    def take(self: FarMember, most: int, bytes_max: int) -> tuple[FarRun, ...]:
        runs = original(self, most, bytes_max)
        self.heads.extendleft(reversed(runs[-1:]))
        self._counted()
        return runs

    patch.setattr(FarMember, "take", take)


@bug("far-lease-of-two", "M7", "What one consumer leaves of a lease of heads is the next one's.", PROFILE)
def leases_are_shared(patch: Patch) -> None:
    patch.setattr(FarMember, "gives_to", lambda _self, _consumer: True)
    patch.setattr(FarHeads, "_is_short", lambda _self, _macro, _consumer: False)


@bug(
    "far-head-not-lengthened", "M7", "A head is delivered under the short lease that it was taken by.", PROFILE, first=4
)
def heads_go_out_at_once(patch: Patch) -> None:
    original = FarTap._parts

    def parts(self: FarTap, *, renews: bool) -> Any:
        while self.member.claims:
            claim = self.member.claims.popleft()
            self._deliver(claim, claim.lease.runs)
        return original(self, renews=renews)

    patch.setattr(FarTap, "_parts", parts)


@bug("far-head-forgotten", "M7", "What nobody takes is not given back, and returns when its lease ends.", PROFILE)
def heads_are_not_given_back(patch: Patch) -> None:
    def give_back(self: FarMember) -> None:
        self.holder = None
        self.heads.clear()
        self._counted()

    patch.setattr(FarMember, "give_back", give_back)


@bug("proxy-at-demoted-master", "M11", "A master that is replaced goes on with its proxies.", PROFILE)
def demoted_masters_go_on(patch: Patch) -> None:
    original = Keeper._see_to

    def see_to(self: Keeper, domain: Domain) -> None:
        if domain.shared.serving:
            original(self, domain)

    patch.setattr(Keeper, "_see_to", see_to)


@bug(
    "hung-member-blocks",
    "M7",
    "A member that does not answer holds up those behind it until it does.",
    PROFILE,
    first=3,
)
def silent_members_block(patch: Patch) -> None:
    patch.setattr(FarMember, "is_awaited", property(lambda self: not self.heads))


@bug("call-anew-through-proxy", "M11", "A proxy sends on what it is asked under an identity of its own.", PROFILE)
def identities_are_left_behind(patch: Patch) -> None:
    def there(way: ProxyWay, request: Any, queue: str) -> bytes:
        if isinstance(request, EnqueueRequest):
            request.request_id = random_bytes(16)
        return ways.there(way, request, queue)

    patch.setattr(replica.services.proxies.door, "there", there)


@bug(
    "another-manager-believed",
    "M11",
    "Nobody asks which manager it is that answers, or that is meant.",
    PROFILE,
    first=4,
)
def strangers_are_believed(patch: Patch) -> None:
    patch.setattr(replica.services.proxies.door, "problem_of_passage", lambda _passage, _own: None)
    original = FarManager._once

    async def once(self: FarManager, attempts: Any, path: str, data: bytes, reply: Any, passage: Passage) -> Any:
        return await original(self, attempts, path, data, _Believed(reply, self.manager), passage)  # type: ignore[arg-type]  # in its shape

    patch.setattr(FarManager, "_once", once)


@bug(
    "dealt-elsewhere-twice",
    "M4",
    "Each master has a name of its own for what it deals to another pair.",
    PROFILE,
    first=50,
)
def dealings_are_of_one_epoch(patch: Patch) -> None:
    links.writers_are_of_one_epoch(patch)


@bug(
    "dealt-to-another-manager",
    "M4",
    "A link to one queue gives what it has to whoever is at the address.",
    PROFILE,
    first=4,
)
def links_ask_nobody_who_he_is(patch: Patch) -> None:
    original = FarSide.__init__

    def init(self: FarSide, client: aio.Client, writer: str, forwarder: str, domain: str, _manager: str = "") -> None:
        original(self, client, writer, forwarder, domain)

    patch.setattr(FarSide, "__init__", init)
    patch.setattr(FarSide, "_check", lambda _self, _header: None)


class _Believed:
    """Reads answers, whoever they are of, as those of one pair."""

    def __init__(self, reply: Any, pair: str) -> None:
        self._reply, self._pair = reply, pair

    def FromString(self, data: bytes) -> Any:  # noqa: N802  # as protobuf has it
        answer = self._reply.FromString(data)
        answer.header.pair = self._pair
        return answer
