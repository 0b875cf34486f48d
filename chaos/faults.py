"""Strikes a pair: each kind of fault begins, holds for its time and is healed whatever happens; it proves nothing.

Whether a fault had an effect is decided from what was seen, by `chaos.bites`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from chaos.healing import whole_again
from chaos.history import Handed, History, Struck
from chaos.network import Network
from chaos.pair import Hands, Pair
from chaos.preload import Preload
from tandemq.cli.view import PairView
from tandemq.credentials.chosen import opener_of
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.pair_service_pb2_grpc import PairServiceStub

WITNESS = "witness"
ROLES = ("master", "replica", "both")
LOOK_S = 0.05
SOMEBODY_S = 20.0  # for a role to be held by somebody
WHOLE_S, WHOLE_AGAIN = 60.0, "whole again after the faults were healed"
HANDOFF_S = 15.0
FLAP_S = 0.7  # longer than a member suspects, shorter than it takes for lost
NO_NETWORK = "the members' connections cannot be hurt here: start the pair with `tandemq dev --chaos`, or give --fresh"
NO_PRELOAD = "the members' disks and clocks cannot be hurt here: give --fresh"
_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))


class FaultError(RuntimeError):
    """This fault is not possible at this pair; the message says what would make it so."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what, which members, when after its round began, and for how long."""

    kind: str
    on: str = "master"  # master, replica, both; of one-way: whose words are lost
    for_s: float = 2.0
    after_s: float = 0.0
    delay_s: float = 0.0  # of slow, each way; of slow-fsync, each
    ahead_s: float = 0.0  # of clock-jump; negative: behind


@dataclass(slots=True)
class Injector:
    """Strikes one pair; `struck` grows as faults begin."""

    pair: Pair
    hands: Hands
    history: History
    clock: Callable[[], float]
    struck: list[Struck] = field(default_factory=list)

    async def round(self, faults: Iterable[Fault]) -> None:
        """Strikes with all of them, each at its time; when it returns all are healed and the pair is whole.

        Raises FaultError, or RuntimeError when the pair does not come together again.
        """
        before = len(self.struck)
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                tasks.create_task(self._strike(fault))
        frozen = [name for struck in self.struck[before:] if struck.kind == "freeze" for name in struck.members]
        if frozen:  # one that was away for long may end itself
            await whole_again(self.pair, self.hands, WHOLE_AGAIN, WHOLE_S, frozen)
        else:
            await self.pair.wait_for(PairView.whole, WHOLE_AGAIN, WHOLE_S)

    async def _strike(self, fault: Fault) -> None:
        await asyncio.sleep(fault.after_s)
        async with self.held(fault):
            if fault.kind not in REPEATED:
                await asyncio.sleep(fault.for_s)

    @asynccontextmanager
    async def held(self, fault: Fault) -> AsyncIterator[Struck]:
        """In force when the block begins, healed when it has ended, whatever the fault's own times say.

        Raises FaultError. Of what is REPEATED the block begins when it is over.
        """
        deed = DEEDS.get(fault.kind)
        if deed is None:
            raise FaultError(f"no fault is called {fault.kind!r}; there are {', '.join(DEEDS)}")
        names = await self.victims(fault.on)
        struck = Struck(fault.kind, names, self.clock(), delay_s=fault.delay_s)
        async with AsyncExitStack() as undo:
            undo.callback(self._healed, struck)
            self.struck.append(struck)
            await deed(self, fault, struck, undo)
            yield struck

    def _healed(self, struck: Struck) -> None:
        struck.to_s = self.clock()

    async def victims(self, on: str) -> tuple[str, ...]:
        """Names, from a role that somebody holds now."""
        if on == "both":
            return tuple(self.pair.members)
        if on in self.pair.members:
            return (on,)
        if on not in ROLES:
            raise FaultError(f"{on!r} is neither a member nor one of {', '.join(ROLES)}")
        view = await self.pair.wait_for(lambda view: bool(view.masters()), "a master to strike", SOMEBODY_S)
        master = view.masters()[0]
        return (master,) if on == "master" else (self.other(master),)

    def other(self, name: str) -> str:
        """The peer."""
        return next(each for each in self.pair.members if each != name)

    def network(self) -> Network:
        """The wires. Raises FaultError when there are none to hurt."""
        if self.hands.network is None:
            raise FaultError(NO_NETWORK)
        return self.hands.network

    def preload(self) -> Preload:
        """The members' disks and clocks. Raises FaultError when they cannot be hurt."""
        if self.hands.preload is None:
            raise FaultError(NO_PRELOAD)
        return self.hands.preload


# Puts a fault in force, and into `undo` what heals it.
Deed = Callable[[Injector, Fault, Struck, AsyncExitStack], Awaitable[None]]


async def _kill(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
    del fault
    for name in struck.members:
        undo.push_async_callback(injector.hands.start, name)
    await asyncio.gather(*(injector.hands.kill(name) for name in struck.members))


async def _freeze(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
    del fault
    for name in struck.members:
        undo.callback(injector.hands.thaw, name)
        injector.hands.freeze(name)


def _on_the_link(hurt: Callable[[Network, Fault, str, str], None]) -> Deed:
    """A fault of the wires between the two members."""

    async def deed(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
        network, one = injector.network(), struck.members[0]
        other = injector.other(one)
        undo.push_async_callback(asyncio.to_thread, network.heal, network.wires_between(one, other))
        await asyncio.to_thread(hurt, network, fault, one, other)

    return deed


async def _flap(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
    network, one = injector.network(), struck.members[0]
    wires = network.wires_between(one, injector.other(one))
    undo.push_async_callback(asyncio.to_thread, network.heal, wires)
    until = time.monotonic() + fault.for_s
    while time.monotonic() < until:
        await asyncio.to_thread(network.cut, one, injector.other(one))
        await asyncio.sleep(FLAP_S)
        await asyncio.to_thread(network.heal, wires)
        await asyncio.sleep(FLAP_S)


async def _isolate(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
    del fault
    network, one = injector.network(), struck.members[0]
    wires = [wire for wire in network.wires if one in wire]
    undo.push_async_callback(asyncio.to_thread, network.heal, wires)
    await asyncio.to_thread(network.isolate, one)


async def _without_witness(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
    del fault
    network = injector.network()
    for name in struck.members:
        undo.push_async_callback(asyncio.to_thread, network.heal, network.wires_between(name, WITNESS))
        await asyncio.to_thread(network.break_off, name, WITNESS)


async def _handoffs(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
    """One order after the other, whatever their answers."""
    del struck, undo
    until = time.monotonic() + fault.for_s
    while time.monotonic() < until:
        view = await injector.pair.wait_for(lambda view: bool(view.masters()), "a master to order", SOMEBODY_S)
        master = view.masters()[0]
        asked_s = injector.clock()
        opener = opener_of(injector.pair.credentials)
        async with opener(injector.pair.endpoint(master), _OPTIONS) as channel:
            with contextlib.suppress(grpc.aio.AioRpcError):  # how it ended is in the register
                request = pb.HandoffRequest(domain="main", to=injector.other(master), reason="drill")
                answer = await PairServiceStub(channel).Handoff(request, timeout=HANDOFF_S)
                facts = (answer.handoff_id, answer.done, answer.master, answer.epoch, tuple(answer.reasons))
                injector.history.handed.append(Handed(asked_s, injector.clock(), *facts))
        await asyncio.sleep(LOOK_S)


def _on_the_process(hurt: Callable[[Preload, Fault, str], None]) -> Deed:
    """A fault of disk or clock. A member may stop by itself because of it: it is started again."""

    async def deed(injector: Injector, fault: Fault, struck: Struck, undo: AsyncExitStack) -> None:
        preload = injector.preload()
        before = sum(preload.felt(name) for name in struck.members)
        for name in struck.members:
            undo.push_async_callback(injector.hands.start, name)
            undo.callback(preload.calm, name)
            hurt(preload, fault, name)
        undo.callback(count, preload, struck, before)

    def count(preload: Preload, struck: Struck, before: int) -> None:
        struck.felt = sum(preload.felt(name) for name in struck.members) - before

    return deed


DEEDS: dict[str, Deed] = {
    "kill": _kill,
    "freeze": _freeze,
    "cut": _on_the_link(lambda network, _, one, other: network.cut(one, other)),
    "one-way": _on_the_link(lambda network, _, one, other: network.lose(one, other)),
    "reset": _on_the_link(lambda network, _, one, other: network.reset(one, other)),
    "slow": _on_the_link(lambda network, fault, one, other: network.delay(one, other, fault.delay_s)),
    "flap": _flap,
    "isolate": _isolate,
    "no-witness": _without_witness,
    "handoffs": _handoffs,
    "disk-full": _on_the_process(lambda preload, _, name: preload.hurt(name, full=True)),
    "slow-fsync": _on_the_process(lambda preload, fault, name: preload.hurt(name, fsync_s=fault.delay_s)),
    "clock-jump": _on_the_process(lambda preload, fault, name: preload.hurt(name, ahead_s=fault.ahead_s)),
}
REPEATED = ("flap", "handoffs")  # go on for their time by themselves
ON_THE_NETWORK = ("cut", "one-way", "reset", "slow", "flap", "isolate", "no-witness")
ON_THE_PROCESS = ("disk-full", "slow-fsync", "clock-jump")
