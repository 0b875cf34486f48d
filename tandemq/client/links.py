"""Decides over which connection a queue is spoken of: the client's own, or one to the manager that its full name names.

A full name of the client's own manager is made relative; one of another manager gets a connection of its own, which is
looked up and opened when it is first used. It never changes what is asked of a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from tandemq import retry
from tandemq.channels import Open, open_channel
from tandemq.client.calls import MANAGER_SERVICE, Caller
from tandemq.client.carrying import Carrier
from tandemq.client.members import Members
from tandemq.client.target import INSIDE
from tandemq.client.unit_calls import UnitCalls
from tandemq.client.whereabouts import Whereabouts
from tandemq.errors import NotFound, TandemqError, error_of
from tandemq.finding.directory import Directory
from tandemq.finding.names import FullName, is_full, parse_queue
from tandemq.finding.resolver import Manager, Resolver
from tandemq.finding.target import Target
from tandemq.v1 import manager_admin_service_pb2 as manager_admin

LINKS_MAX = 64  # managers that one client talks to beside its own
PROBE_S = 2.0
QUEUE_FIELDS = ("queue", "name", "alias", "to")  # of requests: those that may hold a queue's name
Request = TypeVar("Request", bound=Message)
Asking = Callable[[], Awaitable[tuple[Sequence[Manager], float]]]


class Link(NamedTuple):
    """One manager, as a client reaches it."""

    members: Members
    caller: Caller


class Links:
    """The connections of one client. Belongs to one event loop."""

    def __init__(
        self,
        target: Target,
        policy: retry.Policy,
        *,
        follow_master: bool = True,
        open_channel: Open = open_channel,
        extra: Sequence[Resolver] = (),
    ) -> None:
        self.policy, self._follow_master = policy, follow_master
        self.directory = Directory(lambda: _resolvers(extra))
        self._own_names = {name for name in (target.manager, target.pair) if name}
        self._named = target.manager
        self._own_queue = target.queue if not target.manager and not target.endpoints else ""
        self._others: dict[str, Link] = {}
        self._carriers: dict[Members, Carrier] = {}
        self._unit_calls: dict[Members, UnitCalls] = {}
        self._open_channel = open_channel
        self.own = self._link(target.endpoints, self._asking(target))
        self.own.caller.elsewhere = self.localise

    def at(self, queue: str, *, may_go_on: bool = False) -> tuple[Link, str]:
        """The connection for a queue, and the queue's name there. `may_go_on`: messages for it may be sent on by one's
        own manager instead, and the name may say to which domain. Raises BAD_NAME, QUOTA_EXCEEDED.
        """
        if not is_full(queue):
            return self.own, queue
        name = parse_queue(queue)
        if name.domain and not may_go_on:
            plain = name._replace(domain="")
            text = (
                f"{queue}: {name.domain} says to which domain one's own manager sends on (forward, or a unit of work); "
                f"whoever speaks with {name.manager or 'that manager'} itself finds the queue by {plain}"
            )
            raise error_of("BAD_NAME", text, {"name": queue})
        if name.manager in self._own_names or (name.queue == self._own_queue and not name.manager):
            return self.own, name.queue
        key = name.manager or str(name)
        link = self._others.get(key)
        if link is None:
            if len(self._others) >= LINKS_MAX:
                raise error_of(
                    "QUOTA_EXCEEDED",
                    f"{queue}: this client talks to {LINKS_MAX} other managers already; use another client for it",
                    {"limit": str(LINKS_MAX)},
                )
            link = self._others[key] = self._link((), lambda: self._where(name))
        return link, name.queue

    def carrier(self, link: Link) -> Carrier:
        """What begins units of work there."""
        carrier = self._carriers.get(link.members)
        if carrier is None:
            carrier = self._carriers[link.members] = Carrier(link.members, self.policy.attempt_s)
        return carrier

    def unit_calls(self, link: Link) -> UnitCalls:
        """What sends whole units of work there."""
        calls = self._unit_calls.get(link.members)
        if calls is None:
            calls = self._unit_calls[link.members] = UnitCalls(link.caller)
        return calls

    def epoch_of(self, queue: str) -> int:
        """Highest epoch seen of the queue's domain; 0 until a reply has said which domain that is."""
        masters = self.own.members.masters
        return masters.epoch(masters.domain_of(queue))

    def name_of(self, link: Link) -> str:
        """The name by which its manager was found; empty when it was given by endpoints, or not asked for yet."""
        whereabouts = link.members.whereabouts  # of every link but the own one, which may have endpoints
        return self._named if whereabouts is None else whereabouts.manager

    def localise(self, request: Request, queue: str) -> tuple[Caller, Request, str]:
        """Whom to send a request about a full name to, the request as that manager reads it, and the name there."""
        link, relative = self.at(queue)
        local = type(request)()
        local.CopyFrom(request)
        for field in QUEUE_FIELDS:
            named = getattr(request, field, "")
            if isinstance(named, str) and is_full(named):
                place, there = self.at(named)
                if place is not link:
                    raise error_of("BAD_NAME", f"{queue} and {named} are at different managers; name two of one")
                setattr(local, field, there)
        if "epoch" in request.DESCRIPTOR.fields_by_name:
            masters = link.members.masters
            setattr(local, "epoch", masters.epoch(masters.domain_of(relative)))  # noqa: B010 - not every request has it
        return link.caller, local, relative

    async def close(self) -> None:
        """Closes every connection."""
        for carrier in self._carriers.values():
            carrier.close()
        for calls in self._unit_calls.values():
            calls.close()
        for link in (self.own, *self._others.values()):
            await link.members.close()
        await self.directory.close()

    def _link(self, endpoints: tuple[str, ...], ask: Asking) -> Link:
        members = Members(endpoints, follow_master=self._follow_master, open_channel=self._open_channel)
        caller = Caller(members, self.policy)
        if not endpoints:
            members.whereabouts = Whereabouts(ask, lambda endpoint: probe(caller, endpoint))
        return Link(members, caller)

    def _asking(self, target: Target) -> Asking:
        async def ask() -> tuple[Sequence[Manager], float]:
            if target.candidates:
                return target.candidates, float("inf")
            return await self._look_up(FullName(target.manager, target.queue))

        return ask

    async def _where(self, name: FullName) -> tuple[Sequence[Manager], float]:
        """By the directory; a manager that no resolver knows may still be the one that this client is connected to."""
        try:
            return await self._look_up(name)
        except NotFound:
            own = tuple(each for each in await self.own.members.located() if not each.startswith(INSIDE))
            if own and name.manager and name.manager in await self._called(own):
                return [Manager(name.manager, own)], float("inf")
            raise

    async def _look_up(self, name: FullName) -> tuple[Sequence[Manager], float]:
        if name.manager:
            found = await self.directory.find(name.manager)
            return found.answer.managers, found.ttl_s
        exported, _ = await self.directory.find_queue(name.queue)
        if exported.endpoints:
            return [Manager(exported.manager, exported.endpoints)], 0.0
        found = await self.directory.find(exported.manager)
        return found.answer.managers, found.ttl_s

    async def _called(self, endpoints: tuple[str, ...]) -> set[str]:
        """What the own manager calls itself: its pair's name and those of the members that answer."""

        async def named(endpoint: str) -> set[str]:
            request, reply = manager_admin.GetManagerRequest(), manager_admin.GetManagerResponse
            try:
                answer = await self.own.caller.once(endpoint, MANAGER_SERVICE + "GetManager", request, reply, PROBE_S)
            except TandemqError:
                return set()
            return {answer.header.pair, answer.header.member}

        return set().union(*await asyncio.gather(*(named(endpoint) for endpoint in endpoints)))


class Linked(Protocol):
    """A client, as the functions see it that it has as methods."""

    @property
    def links(self) -> Links: ...


def _resolvers(extra: Sequence[Resolver]) -> list[Resolver]:
    from tandemq.finding.resolvers import standard  # only for who looks a name up

    return [*extra, *standard()]


async def probe(caller: Caller, endpoint: str) -> str:
    """Empty when a member answers there, else why not."""
    request, reply = manager_admin.GetManagerRequest(), manager_admin.GetManagerResponse
    try:
        await caller.once(endpoint, MANAGER_SERVICE + "GetManager", request, reply, PROBE_S)
    except TandemqError as error:
        return str(error)
    return ""
