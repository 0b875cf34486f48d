"""Composition root of a queue manager: the one place that builds stores, clocks, sockets and cores and puts them
together.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from failover.detector import Detector
from failover.local_authority import LocalAuthority
from failover.marks import Role
from replica.core.domain import Domain
from replica.core.ordering.orders import ENQUEUE_STORE_SHARE
from replica.core.ports import Settings, ports_of
from replica.listen.direct import PEER
from replica.listen.machine_access import MachineAccess
from replica.listen.ports import Served
from replica.machine import Limits
from replica.machine.state.profiles import limits_of
from replica.node.hand_over import hand_over_all
from replica.node.loop import Node
from replica.node.maintenance import HOUR_MS, Keep, Maintenance
from replica.node.members import LOCAL, MAIN, Members, domain_number
from replica.node.recovery import open_shared, recover
from replica.operations.metrics import Metrics
from replica.operations.metrics_operator import OperatorMetrics
from replica.operations.operator import Operator
from replica.peer.identity import incarnation
from replica.peer.identity.proving import Proving
from replica.peer.judge import Judge
from replica.peer.link import Link, PeerInfo, PeerServicer
from replica.peer.local_register import keep_register
from replica.peer.reach import Reach
from replica.peer.session import PROTOCOL_MAX, PROTOCOL_MIN, held_call
from replica.peer.verify import Verifier
from replica.peer.watch import Watch
from replica.rpc.handlers import pair_handler
from replica.services.admin.backup import BackupHandlers
from replica.services.admin.batches import BatchHandlers
from replica.services.admin.journal import JournalHandlers
from replica.services.admin.names import NamesHandlers
from replica.services.admin.queues import AdminHandlers
from replica.services.admin.readers import ReaderHandlers
from replica.services.admin.restore import RestoreHandlers
from replica.services.admin.sweeps import SweepHandlers
from replica.services.admin.weights import WeightHandlers
from replica.services.messages.queue import QueueHandlers
from replica.services.messages.stage import StageHandlers
from replica.services.pair.divergence import DivergenceHandlers
from replica.services.pair.events import EventHandlers
from replica.services.pair.handoff import HandoffHandlers
from replica.services.pair.orders import OrderHandlers, journalled
from replica.services.pair.status import StatusHandlers
from storage.errors import StorageError
from tandemq.ambient import monotonic_ms, random_bytes
from tandemq.errors import error_of
from tandemq.peer.v1.peer_service_pb2 import Hello
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from failover.authority import Authority
    from failover.journal import Journal
    from replica.core.state.effects import RoleChanged
    from replica.listen.direct import DirectChannel
    from replica.node.salvage import SalvageFiles
    from storage.store import Store
    from tandemq.config import ManagerConfig

log = logging.getLogger("tandemq.manager")

ROOM_S = 0.25
HAND_OVER_S = 3.0
"""How long an orderly stop waits for its handoffs."""
ROOM_AGAIN_SHARE = 0.05
"""Of the store: free again below the limit before sending is allowed again, so that it does not flicker."""
_STORAGE_REASONS = {
    "NewerFormat": "NEWER_FORMAT",
    "DirectoryInUse": "DIRECTORY_IN_USE",
    "WrongPair": "WRONG_PAIR",
    "StoreFull": "STORAGE_FULL",
    "RestoreUnfinished": "INVALID_STATE",
}


class Manager:
    """One queue manager. `start` once, `stop` once; several may live in one process, each with its own directory and
    ports.
    """

    def __init__(self, config: ManagerConfig, access: MachineAccess | None = None) -> None:
        self.config = config
        self.access = access if access is not None else MachineAccess()
        self._open_ports = self.access.ports(config)
        self._store: Store | None = None
        self._node: Node | None = None
        self._members: Members | None = None
        self._link: Link | None = None
        self._authority: Authority | None = None
        self._operator: Operator | None = None
        self._watch: Watch | None = None
        self._journal: Journal | None = None
        self._salvage: SalvageFiles | None = None
        self._verifier: Verifier | None = None
        self.backups: BackupHandlers | None = None
        self._closed = asyncio.Event()
        self._told_ready: bool | None = None
        self._incarnation = 0
        self._instance = ""
        self._process_id = random_bytes(16)
        timers = config.timers
        self.detector = Detector(timers.suspect_ms, timers.lost_ms, hung_ms=timers.hung_ms)

    @property
    def ports(self) -> dict[str, int]:
        """Port numbers by name, once they are open."""
        return self._open_ports.bound

    def epoch(self, domain: str = MAIN) -> int:
        """In force here in this domain; 0 where there is none, or not yet. Safe from any thread."""
        found = self._members.by_name.get(domain) if self._members is not None else None
        return found.shared.state.epoch if found is not None else 0

    def channel(self, peer: str = PEER) -> DirectChannel:
        """A client's way in without a network; for the event loop in which the manager was started. See
        DirectServer.channel.
        """
        direct = self._open_ports.direct
        if direct is None:
            raise RuntimeError("start the manager first")
        return direct.channel(peer)

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the directory, recover, bind, serve. Raises TandemqError naming what, where and what to do; nothing
        stays open then.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._release)
            try:
                await self._start()
            except StorageError as error:
                reason = _STORAGE_REASONS.get(type(error).__name__, "CORRUPT_STORE")
                raise error_of(reason, str(error)) from error
            undo.pop_all()

    async def _start(self) -> None:
        config = self.config
        store = self.access.store(config)
        self._store = store
        store.reader_check()
        if config.pair:
            self._authority = self.access.authority(config)
        self._node = node = Node(store, self._authority, self._limits(MAIN))
        self._salvage = salvage = self.access.salvage(config)
        node.on_salvage = lambda domain, cut: salvage.keep(store, domain.shared.domain, domain.shared.name, cut)
        node.start()
        self._instance = (store.get_meta("instance") or b"").hex()
        own = await incarnation.begin(node, self._process_id)
        self._incarnation = own.starts.number
        members = Members(
            node,
            self.access,
            pair=config.pair,
            member=config.member,
            endpoint=config.endpoint,
            peer=config.peer_member,
            peer_endpoint=config.peer_endpoint,
        )
        members.park_ms, members.streams.most = config.limits.park_ms, config.limits.consume_streams
        if config.pair:
            members.is_late = lambda: self.detector.is_late(monotonic_ms())
        self._members = members
        await self._open_domains(node, members)
        self._operator = operator = Operator(self.access.events(config), members, config)
        operator.authority_reachable = lambda: self._authority is not None and self._authority.connected
        node.spawn(operator.events.run())
        node.on_tick.append(operator.look)
        node.on_role = self._on_role
        node.on_note = operator.on_note
        node.on_fault = operator.on_fault
        self._verifier = verifier = Verifier(node, operator.note, self._reconnect)
        node.on_verify = verifier.on_frame
        node.spawn(verifier.run(config.failover.verify_hours))
        proving: Proving | None = None
        if config.pair:
            peer = PeerInfo(config.peer_member, config.peer_address)
            beat_s = config.timers.heartbeat_ms / 1000
            self._link = Link(node, config.member, peer, self._hello, self.access, heartbeat_s=beat_s)
            self._link.lost_ms = config.timers.lost_ms
            node.on_stale = lambda _domain: self._send_hello()
            self._link.on_change = operator.on_link
            assert self._authority is not None
            own.on_old = self._reconnect
            if not self._link.dials:  # it may be filled before it is counted: its peer has to know which start that was
                own.on_number = self._on_counted
            proving = Proving(own, self._authority, config.member, self._on_counted)
            self._link.counted, self._link.on_refused = proving.counted, proving.on_refused
            self._link.on_seen = proving.on_seen
            self._link.goes_alone = lambda: any(domain.replication.claims.goes_alone for domain in node.paired())
            self._watch_with(node, self._link)
            self._link.begun.clear()
        await self._serve(members)
        self._start_domains(node)
        if self._link is not None and proving is not None:
            self._link.begun.set()
            operator.shut_link = self._link.close
            operator.resume_maintenance()
            node.spawn(proving.run())
            node.spawn(self._link.run())
            assert self._watch is not None
            node.on_tick.append(self._watch.look)
            node.spawn(Reach(node, self._link, self.access, self._open_ports.own_address).run())
        node.spawn(self._watch_room(node))
        node.on_tick.append(self._watch_health)
        node.spawn(self._watch_failure(node))

    def _limits(self, domain: str) -> Limits:
        unreplicated = domain == LOCAL or not self.config.pair
        return limits_of(
            self.config.profile,
            replication=admin_pb2.REPLICATION_NONE if unreplicated else admin_pb2.REPLICATION_FULL,
            domain_name=domain,
            batch_bytes_max=self.config.limits.max_batch_bytes,
        )

    def _watch_with(self, node: Node, link: Link) -> None:
        """Who watches the peer, and who is asked about it."""
        config = self.config
        self._watch = watch = Watch(node, link, config, self.detector)
        self._journal = self.access.journal(config)
        watch.judge = Judge(node, config, self._journal, watch.about, self._incarnation, self.access.classifier)
        node.spawn(watch.judge.preflight())
        node.on_beat = watch.on_beat
        node.on_ask = watch.judge.on_ask
        assert self._operator is not None
        self._operator.judge, self._operator.last_beat = watch.judge, lambda: watch.last_beat
        watch.on_lost = self._operator.on_link
        watch.on_fault = self._operator.on_fault
        if isinstance(self._authority, LocalAuthority):
            keep_register(node, self._authority, self._send_hello)

    def _on_counted(self, start: int) -> None:
        self._incarnation = start
        self._send_hello()

    async def _open_domains(self, node: Node, members: Members) -> None:
        config = self.config
        call_of = functools.partial(held_call, member=config.peer_member)
        settings = Settings(
            bias_ms=config.timers.replica_bias_ms,
            volatile_bytes_max=config.limits.volatile_bytes,
            hold_ms=config.failover.hold_ms,
            cooldown_ms=config.failover.cooldown_ms,
        )
        for name in dict.fromkeys((*config.domains, MAIN, LOCAL)):
            peer = "" if name == LOCAL else config.peer_member
            limits = self._limits(name)
            shared = open_shared(node.store, domain_number(name), name, config.member, peer, self._incarnation, limits)
            domain = Domain(shared, ports_of(node.store, shared, call_of), settings)
            domain.replication.claims.may_claim = not peer  # until the witness has seen this start
            shared.set_machine(await recover(node.store, shared))
            members.add(domain)

    def _start_domains(self, node: Node) -> None:
        config = self.config
        upkeeps: list[Maintenance] = []
        keep = Keep(
            journal_bytes=config.limits.journal_bytes,
            journal_ms=config.limits.journal_hours * HOUR_MS,
            checkpoint_bytes=config.limits.checkpoint_bytes,
            reader_bytes=config.limits.reader_bytes,
            reader_ms=config.limits.reader_hours * HOUR_MS,
        )
        node.mark_bytes = max(1 << 16, config.limits.journal_bytes // 64)

        def mark_all() -> None:
            for each in upkeeps:
                each.mark()

        node.on_mark = mark_all
        for domain in node.domains.values():
            domain.start(monotonic_ms(), node.clock.now_ms())
            node.dispatch(domain)
            upkeep = Maintenance(node, domain, keep)
            upkeeps.append(upkeep)
            node.spawn(upkeep.run())

    async def stop(self) -> None:
        """Hand over what the peer can take, stop serving, write what is pending, free ports and directory. A clean stop
        leaves nothing to repair.
        """
        node, members = self._node, self._members
        wanted = self.config.failover.hand_over_at_stop
        if wanted and node is not None and members is not None and not node.failed.done():
            await hand_over_all(members, node.paired(), HAND_OVER_S)
        self._closed.set()
        if self._operator is not None:
            self._operator.note(PairEventKind.PAIR_EVENT_KIND_ROLE, "stops in good order")
        await self._release()

    async def _release(self) -> None:
        await self._open_ports.close()
        if self._watch is not None and self._watch.judge is not None:
            await self._watch.judge.close()
        if self._node is not None:
            await self._node.stop()
        if self._members is not None:
            await self._members.close()
        if self._operator is not None:
            await self._operator.events.close()
        if self._journal is not None:
            self._journal.close()
        if self._authority is not None:
            await self._authority.close()
        if self._store is not None:
            self._store.close()
        self._node, self._store, self._operator = None, None, None

    async def wait_closed(self) -> None:
        """Until `stop` is called, or the manager cannot go on: then the reason is raised."""
        assert self._node is not None
        closed = asyncio.create_task(self._closed.wait())
        failed = self._node.failed
        await asyncio.wait([closed, failed], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]  # a task and a future
        if not closed.done():
            closed.cancel()
            raise failed.result()

    async def _watch_failure(self, node: Node) -> None:
        await asyncio.wait({node.failed})
        log.error("this manager stops: %r", node.failed.result())
        assert self._operator is not None
        self._operator.note(PairEventKind.PAIR_EVENT_KIND_FAULT, f"this manager stops: {node.failed.result()}")

    # -- ports -----------------------------------------------------------------------------------------------------

    async def _serve(self, members: Members) -> None:
        assert self._operator is not None
        assert self._salvage is not None
        assert self._verifier is not None
        status = StatusHandlers(
            members,
            self._operator,
            instance_id=self._instance,
            incarnation=self._incarnation,
            facts=self._facts,
        )
        pair = pair_handler(
            status.methods(),
            EventHandlers(self._operator.events, members.by_name).methods(),
            OrderHandlers(self._operator, members).methods(),
            journalled(self._operator, HandoffHandlers(members).methods()),
            journalled(
                self._operator,
                DivergenceHandlers(members, self._salvage, self._verifier, self._reconnect).methods(),
            ),
        )
        self.backups = BackupHandlers(members)
        backup_dir = Path(self.config.backup_dir or Path(self.config.data_dir) / "backups")
        queues = AdminHandlers(members)
        restoring, names = RestoreHandlers(members, backup_dir), NamesHandlers(queues, self.config.profile)
        admin = queues.handler(restoring.methods(), names.methods(), SweepHandlers(members).methods())
        manager = status.manager_handler(self.backups.methods())
        journal = JournalHandlers(members).handler(ReaderHandlers(queues).methods())
        stage = StageHandlers(members).handler()
        batches, weights = BatchHandlers(queues).handler(), WeightHandlers(queues).handler()
        handlers = [QueueHandlers(members).handler(), journal, stage, batches, weights, admin, manager, pair]
        peer = PeerServicer(self._link) if self._link is not None else None
        await self._open_ports.open(Served(handlers, peer, self._ready, self._collectors))
        await self._report_health()

    def _collectors(self) -> list[Collector]:
        assert self._members is not None
        assert self._operator is not None
        assert self._verifier is not None
        judge = self._watch.judge if self._watch is not None else None
        return [Metrics(self._members, judge, self._verifier), OperatorMetrics(self._operator)]

    def _reconnect(self, why: str) -> None:
        if self._link is not None and self._link.session is not None:
            self._link.session.close(why)

    def _ready(self) -> tuple[bool, dict[str, Any]]:
        members = self._members
        if members is None:
            return False, {}
        main = members.by_name[MAIN]
        return self._is_ready(), {
            "member": members.member,
            "role": main.shared.role.name,
            "epoch": main.shared.state.epoch,
        }

    def _is_ready(self) -> bool:
        assert self._members is not None
        main = self._members.by_name[MAIN]
        return main.shared.serving or main.target.opened

    def _watch_health(self, _now_ms: int) -> None:
        """A replica becomes readable when its copy is synchronised, which is no change of role."""
        ready = self._is_ready()
        if ready is not self._told_ready:
            self._told_ready = ready
            assert self._node is not None
            self._node.spawn(self._report_health())

    async def _report_health(self) -> None:
        assert self._members is not None
        master = self._members.by_name[MAIN].shared.serving
        await self._open_ports.report_health(master=master, readable=self._ready()[0])

    # -- the peer --------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        session = self._link.session if self._link is not None else None
        return {
            "peer_connected": session is not None,
            "witness_connected": self._authority.connected if self._authority is not None else False,
            "peer_heard_ago_ms": max(0, monotonic_ms() - session.heard_ms) if session is not None else 0,
        }

    def _hello(self) -> Hello:
        assert self._node is not None
        return Hello(
            pair=self.config.pair,
            member=self.config.member,
            instance_id=self._instance,
            incarnation=self._incarnation,
            process_id=self._process_id,
            protocol_min=PROTOCOL_MIN,
            protocol_max=PROTOCOL_MAX,
            endpoint=self.config.endpoint,
            domains=[domain.hello() for domain in self._node.paired()],
        )

    def _send_hello(self) -> None:
        if self._link is not None and self._link.session is not None:
            self._link.session.send_hello(self._hello())

    def _on_role(self, domain: Domain, change: RoleChanged) -> None:
        assert self._members is not None
        assert self._operator is not None
        self._operator.on_role(domain, change)
        if self._watch is not None and self._watch.judge is not None:
            self._watch.judge.on_role(domain, change)
        assert self._node is not None
        if self._link is not None and self._link.peer.endpoint:
            self._members.peer_endpoint = self._link.peer.endpoint
        self._members.on_change()
        self._send_hello()
        if domain.shared.name == MAIN:
            self._node.spawn(self._report_health())

    async def _watch_room(self, node: Node) -> None:
        """Sending stops while there is still room to settle."""
        while True:
            usage = node.store.usage()
            # What is ordered and not written yet takes room too.
            room = int(ENQUEUE_STORE_SHARE * usage.map_bytes) - usage.used_bytes - node.unwritten_bytes
            for domain in node.domains.values():
                domain.orders.on_room(room, int(ROOM_AGAIN_SHARE * usage.map_bytes))
            await asyncio.sleep(ROOM_S)


__all__ = ["Manager", "Role"]
