"""Clients of a simulated pair: the product's own SDK in processes whose plan says what to do, when to die, and when
to come back.

What each role does is a class of its own; `roles` has all of them. A client's object is what its machine
keeps over its deaths; what its process knew is gone. Every answer it gets goes into the books of its queue.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from chaos.history import Answered
from chaos.sim.kernel.rpc import Channel
from chaos.sim.pair.member import endpoint_of
from tandemq import aio, retry
from tandemq.errors import Closed, TandemqError
from tandemq.finding.target import Target

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.kernel.loop import Process
    from chaos.sim.pair.books import Book
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq.v1.common_pb2 import ResponseHeader

QUEUE = "q"
TOTAL_S, ATTEMPT_S = 600.0, 2.0
EXPECTED = frozenset({"STORAGE_FULL", "NOT_ENOUGH_COPIES", "LEASE_LOST"})
"""Refusals that a client must expect. Any other one is a violation: it did nothing wrong, and repeats what may help."""
DAMAGE = "CORRUPT_STORE"
CHANGED = "PAIR_CHANGED"
DIE = "die"


class SimClient(ABC):
    """One client, over all its processes. `at` is the first call of its plan that is not over."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        self.run, self.pair, self.memory, self.plan = pair.run, pair, memory, plan
        self.calls = tuple(call for call in plan.calls if call.kind != DIE)
        self.at = 0
        self.done = False
        self.down = False
        self.stopping = False
        self.lives = 0
        self.began_s = 0.0
        self.process: Process | None = None
        self.header: ResponseHeader | None = None
        """Of the last reply."""
        self.before = self.run.earlier if plan.args.get("before", False) else None
        """Where it was in the journal of the pair that was there before, and goes on; None: nowhere, or it knows."""

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the plan's calls; its deaths are due at their times."""
        run = self.run
        self.began_s = run.loop.now
        for call in self.plan.calls:
            if call.kind == DIE:
                run.loop.at(self.began_s + call.at_ms / 1000, None, self.die, int(call.args["down_ms"]))
        self._begin()

    def _begin(self) -> None:
        run, name = self.run, self.plan.name
        self.lives += 1
        self.down = False
        life = name if self.lives == 1 else f"{name}#{self.lives}"
        self.process = run.process(life, run.plan.stream(f"client {life}"))
        run.loop.spawn(self.process, self._main())

    def die(self, down_ms: int) -> None:
        """kill -9, and a restart after a while."""
        run = self.run
        if self.process is None or self.down or self.done or run.healed:
            return
        run.note(self.plan.name, "fault", "killed")
        run.count("client_deaths")
        run.loop.kill(self.process)
        run.network.on_death(self.process)
        self.down = True
        run.loop.at(run.loop.now + down_ms / 1000, None, self._begin)

    def is_done(self) -> bool:
        """All its calls are over."""
        return self.done

    def stop(self) -> None:
        """No more of it, where it would go on for ever."""
        self.stopping = True

    def is_stopping(self) -> bool:
        """Whether that was said, perhaps a moment ago."""
        return self.stopping

    async def _main(self) -> None:
        try:
            async with self.connect() as client:
                await self.work(client)
        except Exception as error:  # whatever answer a client does not expect
            self.run.violation("client failed", f"{self.plan.name}: {error!r}")
        self.done = True

    @abstractmethod
    async def work(self, client: aio.Client) -> None:
        """What this role does in one life."""

    # -- for the roles -------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.run.loop.now

    @property
    def queue(self) -> str:
        return str(self.plan.args.get("queue", QUEUE))

    @property
    def book(self) -> Book:
        return self.run.book_of(self.queue)

    def connect(self, only: str = "") -> aio.Client:
        """The SDK on the simulated network; `only`: through one member, which asks the master for us."""
        network, machine = self.run.network, self.plan.name
        first = only or str(self.plan.args.get("first", "a"))
        names = (first,) if only else (first, "b" if first == "a" else "a")
        client = aio.Client(
            Target(tuple(self._endpoint(name) for name in names), "the plan"),
            retry.Policy(total_s=TOTAL_S, attempt_s=ATTEMPT_S),
            follow_master=not only and bool(self.plan.args.get("follow", True)),
            open_channel=lambda address, _options: Channel(network, machine, address),  # type: ignore[arg-type,return-value]  # in its shape
        )
        members = client.links.own.members  # the SDK keeps headers to itself; one is what an empty answer is judged by
        learn = members.learn

        def listen(header: ResponseHeader, queue: str = "") -> None:
            self.header = header
            learn(header, queue)

        members.learn = listen  # type: ignore[method-assign]  # one instance's, in its shape
        return client

    def _endpoint(self, place: str) -> str:
        """Where it reaches a member: of its own pair, or of the first one, which has a proxy for the queue there."""
        return endpoint_of(place) if self.plan.args.get("through") else self.pair.endpoint(place)

    async def due(self, call: Call) -> None:
        """Wait until the call is due."""
        wait_s = self.began_s + call.at_ms / 1000 - self.now_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def counted(self, call: Call) -> None:
        """One call more of a client."""
        self.run.count("calls")
        self.run.count(f"call.{self.plan.role}.{call.kind}")

    def answered(self, asked_s: float) -> None:
        """A master's answer, by its header: it must have been master."""
        header = self.header
        if self.plan.args.get("through"):
            return  # it is of the pair that has the proxy
        if header is not None and header.master_endpoint:
            member = header.master_endpoint.partition(":")[0]
            self.run.history.answered.append(Answered(asked_s, self.now_s, member, header.epoch))

    def expects(self, error: TandemqError) -> None:
        """Raises it again unless a client must put up with it."""
        if error.reason not in EXPECTED and not isinstance(error, Closed):
            raise error

    def went_on(self) -> None:
        """It was answered: with the place of another pair that must not be."""
        if self.before is not None:
            self.run.violation("who goes on does so in its own history", f"{self.plan.name} goes on from {self.before}")
            self.before = None

    def finds_another_pair(self, error: TandemqError) -> bool:
        """Whether the answer is that this is not the pair that it knows; it starts over then."""
        if self.before is None or error.reason != CHANGED:
            return False
        self.run.sometimes("a client of the pair before was refused")
        self.before = None
        return True

    def is_damage(self, error: TandemqError) -> bool:
        """Whether it was refused what is damaged at the master: asked for by itself, that cannot be passed over."""
        disks = [member.machine.disk for member in self.pair.members.values()]
        if error.reason != DAMAGE or not any(disk.is_damaged for disk in disks):
            return False
        self.run.sometimes("damage refused to who asked for it")
        return True


def number_of(call: Call, name: str, default: int = 0) -> int:
    """An argument that is a number."""
    value: Any = call.args.get(name, default)
    return int(value)
