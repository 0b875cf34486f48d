"""One member with its side of a queue: two real cores, and what a process at it is given."""

from __future__ import annotations

from replica.core.state.calls import Consumer, PendingCall
from replica.core.state.outcomes import Answer, Failed, LeaseDone
from replica.machine import Limits, Machine, Refused, SettleCall
from replica.machine.plan.sides import SideLimits
from replica.machine.state.queue import QueueState
from replica.node.members import LOCAL, MAIN, domain_number
from replica.node.recovery import open_shared, recover
from storage.memory import MemoryStore
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, Outcome, Settlement
from tests.support.domains import domain_over
from tests.support.listening import quiet_node
from tests.unit.replica.machine.driver import MEMBERS, Driver, ranges_of

NUMBER, HISTORY = 7, b"h" * 16
NOW_MS = 1_000_000


class Process:
    """A consumer's stream, as far as the core sees it."""

    def __init__(self) -> None:
        self.cancelled = False
        self.given: list[tuple[int, list[int]]] = []
        self.answers: list[Answer] = []

    @property
    def indexes(self) -> list[int]:
        return [index for _, indexes in self.given for index in indexes]

    def answer(self, result: Answer) -> None:
        self.answers.append(result)

    def deliver(self, done: LeaseDone) -> None:
        indexes = [part.first_index + at for part in done.slices for at in range(part.count)]
        self.given.append((done.lease_id, indexes))


def a_pair() -> Driver:
    """The pair's domain, with a queue that has sides."""
    driver = Driver()
    role = record_pb2.RoleOp(owner="a", history_id=HISTORY)
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=role))
    driver.create(replication=admin_pb2.REPLICATION_PRODUCER)
    return driver


class Member:
    """Member a, or the one of that name: its copy of the pair's domain is what a test makes it, and its own domain
    runs.
    """

    def __init__(self, driver: Driver | None = None, name: str = "a") -> None:
        self.store, self.name = MemoryStore(), name
        self.driver = a_pair() if driver is None else driver
        self._open(1)
        self.own.shared.set_machine(Machine(self.own.shared.domain, MEMBERS, Limits()))
        self._start()

    async def restart(self) -> None:
        """Its process dies and comes back: what is not durable is gone."""
        self._open(2)
        self.own.shared.set_machine(await recover(self.store, self.own.shared))
        self._start()

    def _open(self, incarnation: int) -> None:
        self.node = quiet_node(self.store)
        peer = "b" if self.name == "a" else "a"
        shared = open_shared(self.store, NUMBER, MAIN, self.name, peer, incarnation, Limits())
        self.pair = domain_over(self.store, shared)
        self.pair.shared.set_machine(self.driver.master if self.name == "a" else self.driver.replica)
        number = domain_number(LOCAL)
        shared = open_shared(self.store, number, LOCAL, self.name, "", incarnation, Limits())
        self.own = domain_over(self.store, shared, self.node.sides.is_whole)
        self.node.domains |= {NUMBER: self.pair, number: self.own}
        self.sides = self.node.sides
        self.sides.connect(self.own, SideLimits())

    def _start(self) -> None:
        self.own.start(0, NOW_MS)
        self.node.dispatch(self.own)
        self.flush()

    @property
    def queue(self) -> QueueState:
        """The pair's, in its copy."""
        assert self.pair.shared.machine is not None
        return self.pair.shared.machine.state.named("q")

    def flush(self) -> None:
        """All that is under way becomes durable."""
        while (group := self.node.steps.begin()) is not None:
            self.store.commit(group.batch)
            for domain, durable in self.node.steps.end():
                domain.on_persisted(*durable)
                self.node.dispatch(domain)

    def consume(
        self, client_id: bytes = b"twin", *, anew: bool = True, over: str = "", last_lease_id: int | None = None
    ) -> tuple[Process, Consumer]:
        """Opens a stream with credit for everything, as the service does."""
        process = Process()
        name = self.sides.open(self.pair, self.queue, anew=anew, client_id=client_id, connection=over)
        assert name is not None
        consumer = Consumer(process, "", client_id, 60_000, credit_messages=100, credit_bytes=1 << 20, connection=over)
        if isinstance(name, Refused):
            process.answer(Failed(name.reason, name.message, dict(name.metadata)))
            return process, consumer
        consumer.resolve(name)
        self.own.attach(consumer, NOW_MS, last_lease_id)
        self.node.dispatch(self.own)
        self.flush()
        return process, consumer

    def leave(self, consumer: Consumer) -> None:
        consumer.waiter.cancelled = True
        self.own.consumers.detach(consumer)

    def settle(
        self, process: Process, lease_id: int, index: int, outcome: Outcome = OUTCOME_ACK, *, last: int = 0
    ) -> None:
        """One message, or all up to `last`."""
        settlement = Settlement(lease_id=lease_id, ranges=ranges_of((index, last or index)), outcome=outcome)
        self.own.submit(PendingCall(process, SettleCall("SYSTEM.SIDE/q", [settlement])), NOW_MS)
        self.node.dispatch(self.own)

    def commit(self) -> None:
        """What the test did to its copy of the pair's domain is committed, and seen here."""
        self.pair.shared.progress.commit_index = self.driver.log_index
        self.sides.on_moved()
        self.flush()

    def change(self, config: QueueConfig) -> None:
        """Attributes of the pair's queue."""
        self.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=config)
        self.commit()

    @property
    def side(self) -> QueueState:
        return self.own.orders.machine.state.named("SYSTEM.SIDE/q")

    @property
    def said(self) -> list[int]:
        """How far its side is, as its heartbeats say."""
        return [each.index for each in self.sides.beat(self.pair)]

    @property
    def has_side(self) -> bool:
        return "SYSTEM.SIDE/q" in self.own.orders.machine.names()
