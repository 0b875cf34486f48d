"""Composition root of a queue manager: the one place that builds stores, clocks, sockets and cores and puts them
together.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from failover.detector import Detector
from failover.local_authority import LocalAuthority
from failover.marks import Role
from replica.core.domain import Domain
from replica.core.ordering.orders import ENQUEUE_STORE_SHARE
from replica.core.ports import Settings, ports_of
from replica.listen.direct import PEER
from replica.listen.machine_access import MachineAccess
from replica.listen.ports import STOP_S, Served
from replica.machine.plan.sides import SideLimits
from replica.node.access import access_of
from replica.node.bounds import kept_quotas, limits_for
from replica.node.hand_over import hand_over_all
from replica.node.loop import FailedInstanceError, Node
from replica.node.maintenance import HOUR_MS, Keep, Maintenance
from replica.node.members import LOCAL, MAIN, Members, domain_number
from replica.node.recovery import open_shared, recover
from replica.operations.operator import Operator
from replica.operations.reports import Reports
from replica.peer.about import About
from replica.peer.beats import Beats
from replica.peer.greeter import Greeter, OwnStart
from replica.peer.hearing import Hearing
from replica.peer.identity import incarnation
from replica.peer.identity.certified import certified_peer
from replica.peer.identity.proving import Proving
from replica.peer.judge import Judge
from replica.peer.link import PeerInfo, PeerLink, PeerServicer, dials
from replica.peer.local_register import KeptRegister
from replica.peer.reach import Reach
from replica.peer.session import Current, held_call
from replica.peer.verify import Verifier
from replica.peer.watch import Watch
from replica.reactions import Health, Parts, Reactions
from replica.rpc.handlers import pair_handler
from replica.services.admin.backup import BackupHandlers
from replica.services.admin.batches import BatchHandlers
from replica.services.admin.journal import JournalHandlers
from replica.services.admin.macros import MacroHandlers
from replica.services.admin.names import NamesHandlers
from replica.services.admin.proxies import ProxyHandlers
from replica.services.admin.queues import AdminHandlers
from replica.services.admin.readers import ReaderHandlers
from replica.services.admin.restore import RestoreHandlers
from replica.services.admin.rights import RightHandlers
from replica.services.admin.sweeps import SweepHandlers
from replica.services.admin.weights import WeightHandlers
from replica.services.guarding import door_of, guarded
from replica.services.links.agent import Agent
from replica.services.links.showing import LinkHandlers
from replica.services.messages.custom import Customs, advisers_of
from replica.services.messages.queue import QueueHandlers
from replica.services.messages.react import ReactionHandlers
from replica.services.messages.stage import StageHandlers
from replica.services.messages.transactions import TransactionHandlers
from replica.services.pair.divergence import DivergenceHandlers
from replica.services.pair.events import EventHandlers
from replica.services.pair.handoff import HandoffHandlers
from replica.services.pair.orders import OrderHandlers, journalled
from replica.services.pair.status import StatusHandlers
from replica.services.proxies.door import ProxyDoor
from replica.services.proxies.keeper import Keeper
from storage.errors import StorageError
from tandemq.ambient import monotonic_ms, random_bytes
from tandemq.config_links import endpoints_of, routes_of
from tandemq.errors import error_of
from tandemq.finding.directory import Directory
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client.registry import Collector

    from failover.authority import Authority
    from failover.journal import Journal
    from replica.listen.direct import DirectChannel
    from replica.node.access import Access
    from replica.node.salvage import SalvageFiles
    from replica.peer.identity.starts import Starts
    from replica.services.messages.custom_advisers import Adviser
    from storage.store import Store
    from tandemq.config import ManagerConfig
    from tandemq.errors import TandemqError

log = logging.getLogger("tandemq.manager")

ROOM_S = 0.25
HAND_OVER_S = 3.0
"""How long an orderly stop waits for its handoffs."""
ROOM_AGAIN_SHARE = 0.05
"""Of the store: free again below the limit before sending is allowed again, so that it does not flicker."""
_STORAGE_REASONS = MappingProxyType(
    {
        "NewerFormat": "NEWER_FORMAT",
        "DirectoryInUse": "DIRECTORY_IN_USE",
        "WrongPair": "WRONG_PAIR",
        "StoreFull": "STORAGE_FULL",
        "StoreFailed": "INTERNAL",
        "RestoreUnfinished": "INVALID_STATE",
    }
)


def _of_storage(error: StorageError) -> TandemqError:
    return error_of(_STORAGE_REASONS.get(type(error).__name__, "CORRUPT_STORE"), str(error))


class Manager:
    """One queue manager. `start` once, `stop` once; several may live in one process, each with its own directory and
    ports.
    """

    def __init__(
        self,
        config: ManagerConfig,
        access: MachineAccess | None = None,
        advisers: Mapping[str, Adviser] = MappingProxyType({}),
    ) -> None:
        """`advisers`: whom custom reactions may ask by these names, beside those of the configuration."""
        self.config, self.advisers = config, advisers
        self.access = access if access is not None else MachineAccess(config)
        self._open_ports = self.access.ports(config)
        self._kept = kept_quotas(config)
        self._store: Store | None = None
        self._node: Node | None = None
        self._members: Members | None = None
        self._link: PeerLink | None = None
        self._authority: Authority | None = None
        self._current = Current()
        self._reports: Reports | None = None
        self._operator: Operator | None = None
        self._watch: Watch | None = None
        self._journal: Journal | None = None
        self._salvage: SalvageFiles | None = None
        self._verifier: Verifier | None = None
        self._customs: Customs | None = None
        self.backups: BackupHandlers | None = None
        self._closed = asyncio.Event()
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
                raise _of_storage(error) from error
            undo.pop_all()

    async def _start(self) -> None:
        config = self.config
        store = self.access.store(config)
        self._store = store
        store.reader_check()
        if config.pair:
            self._authority = self.access.authority(config)
        self._salvage = self.access.salvage(config)
        self._customs = Customs(config.custom, {**advisers_of(config.custom), **self.advisers})
        reactions = Reactions()
        self._node = node = Node(
            store, self._authority, limits_for(config, MAIN, self._kept), reactions, self._salvage, self.access.writer()
        )
        node.start()
        self._instance = (store.get_meta("instance") or b"").hex()
        known = await incarnation.begin(node, self._process_id)
        self._incarnation = known.number
        self._members = members = Members(
            node,
            self.access,
            pair=config.pair,
            member=config.member,
            endpoint=config.endpoint,
            peer=config.peer_member,
            peer_endpoint=config.peer_endpoint,
            park_ms=config.limits.park_ms,
            streams_max=config.limits.consume_streams,
            is_late=lambda: bool(config.pair) and self.detector.is_late(monotonic_ms()),
            words_by_operators=bool(config.security.credentials) and config.authority == "witness",
        )
        await self._open_domains(node, members, access := access_of(config, members.home))
        self._reports = reports = Reports(self.access.events(config))
        node.spawn(reports.events.run())
        greeter = Greeter(node, config, self._instance, self._process_id, known.number)
        self._verifier = verifier = Verifier(node, reports.note, self._current.close)
        node.spawn(verifier.run(config.failover.verify_hours))
        proving = self._with_peer(node, members, reports, greeter, known) if config.pair else None
        link, watch = self._link, self._watch
        judge = watch.judge if watch is not None else None
        self._operator = operator = Operator(
            reports,
            members,
            config,
            authority=self._authority,
            judge=judge,
            beats=watch.beats if watch is not None else None,
            link=link,
        )
        node.on_tick.append(operator.look)
        self._watch_credentials(node, operator)
        agent = Agent(members, reports, endpoints_of(config.links))
        members.directory, members.routes = Directory(agent.resolvers), routes_of(config.links)
        node.on_tick.append(agent.look)
        health = Health(node, members, self._open_ports)
        upkeeps: list[Maintenance] = []
        reactions.connect(
            Parts(reports, members, upkeeps, greeter, health, judge, link.peer if link is not None else None)
        )
        await self._serve(members, health, agent, access)
        self._start_domains(node, upkeeps)
        if link is not None and watch is not None and proving is not None:
            link.begun.set()
            operator.resume_maintenance()
            node.spawn(proving.run())
            node.spawn(link.run())
            node.on_tick.append(watch.look)
            node.spawn(Reach(node, link, self.access, self._open_ports.own_address).run())
        node.spawn(self._watch_room(node))
        node.on_tick.append(health.look)
        node.spawn(self._watch_failure(node, reports))

    def _watch_credentials(self, node: Node, operator: Operator) -> None:
        if (credentials := self._open_ports.credentials) is not None:
            from replica.operations.certificates import Certificates  # with a library that others do without

            operator.certificates = watched = Certificates(credentials, operator.reports.note)
            node.on_tick.append(watched.look)

    def _with_peer(self, node: Node, members: Members, reports: Reports, greeter: Greeter, known: Starts) -> Proving:
        """The connection to the peer, who watches it, and who is asked about it."""
        config, authority, current = self.config, self._authority, self._current
        assert authority is not None
        assert self._verifier is not None
        beats = Beats(self.detector)
        register = KeptRegister(node, authority, greeter.say) if isinstance(authority, LocalAuthority) else None
        start = OwnStart(greeter, current, dials=dials(config.member, config.peer_member))
        own = incarnation.Own(node, known, start)
        proving = Proving(own, authority, config.member, greeter.on_counted)
        self._link = link = PeerLink(
            node,
            config.member,
            PeerInfo(config.peer_member, config.peer_address),
            greeter.hello,
            self.access,
            current,
            proving,
            Hearing(greeter, beats, self._verifier, register),
            reports,
            heartbeat_s=config.timers.heartbeat_ms / 1000,
            lost_ms=config.timers.lost_ms,
        )
        link.begun.clear()
        self._journal = self.access.journal(config)
        about = About(node, link, beats, lambda: members.attached.counts().all, lambda: reports.recent)
        judge = Judge(node, config, self._journal, about.facts, known.number, self.access.classifier)
        node.spawn(judge.preflight())
        self._watch = Watch(node, link, config, self.detector, beats, judge, reports)
        return proving

    async def _open_domains(self, node: Node, members: Members, access: Access) -> None:
        config = self.config
        call_of = functools.partial(held_call, member=config.peer_member)
        may = access.may if config.security.credentials else None
        settings = Settings(
            bias_ms=config.timers.replica_bias_ms,
            meet_ms=config.failover.meet_ms,
            slow_peer_ms=config.failover.slow_peer_ms,
            volatile_bytes_max=config.limits.volatile_bytes,
            hold_ms=config.failover.hold_ms,
            cooldown_ms=config.failover.cooldown_ms,
        )
        opened = []
        for name in dict.fromkeys((*config.domains, MAIN, LOCAL)):
            peer = "" if name == LOCAL else config.peer_member
            limits = limits_for(config, name, self._kept)
            shared = open_shared(node.store, domain_number(name), name, config.member, peer, self._incarnation, limits)
            at_hand = node.sides.is_whole if name == LOCAL else None
            domain = Domain(shared, ports_of(node.store, shared, call_of, at_hand, may), settings)
            domain.mastership.claims.let_claim(allowed=not peer)  # until the witness has seen this start
            shared.set_machine(await recover(node.store, shared))
            opened.append(domain)
        # Not one by one: the loop's clock runs already, and nobody would hear what a core asks for at its first tick.
        for domain in opened:
            members.add(domain)
        own = config.limits
        sides = SideLimits(own.side_bytes, own.side_hours * HOUR_MS, own.side_full_seconds * 1_000)
        node.sides.connect(members.by_name[LOCAL], sides)
        node.on_tick.append(node.sides.look)

    def _start_domains(self, node: Node, upkeeps: list[Maintenance]) -> None:
        config = self.config
        keep = Keep(
            journal_bytes=config.limits.journal_bytes,
            journal_ms=config.limits.journal_hours * HOUR_MS,
            checkpoint_bytes=config.limits.checkpoint_bytes,
            reader_bytes=config.limits.reader_bytes,
            reader_ms=config.limits.reader_hours * HOUR_MS,
        )
        node.mark_bytes = max(1 << 16, config.limits.journal_bytes // 64)
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
            self._operator.reports.note(PairEventKind.PAIR_EVENT_KIND_ROLE, "stops in good order")
        await self._release()

    async def _release(self) -> None:
        # A member that failed answers nobody, and its peer waits for the end of their connection: no grace for anybody.
        failed = self._node is not None and self._node.failed.done()
        await self._open_ports.close(0.0 if failed else STOP_S)
        if self._watch is not None:
            await self._watch.judge.close()
        if self._node is not None:
            await self._node.stop()
        if self._members is not None:
            await self._members.close()
        if self._reports is not None:
            await self._reports.events.close()
        if self._operator is not None and self._operator.audit is not None:
            await self._operator.audit.close()
        if self._journal is not None:
            self._journal.close()
        if self._authority is not None:
            await self._authority.close()
        if self._customs is not None:
            self._customs.close()
        if self._store is not None:
            self._store.close()
        self._node, self._store, self._reports, self._operator = None, None, None, None

    async def wait_closed(self) -> None:
        """Until `stop` is called, or the manager cannot go on. Raises TandemqError for what a manager ends by on
        purpose, a disk that cannot be trusted or a verdict; anything else is a bug, and raised as it is.
        """
        assert self._node is not None
        closed = asyncio.create_task(self._closed.wait())
        failed = self._node.failed
        await asyncio.wait([closed, failed], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]  # a task and a future
        if not closed.done():
            closed.cancel()
            error = failed.result()
            if isinstance(error, StorageError):
                raise _of_storage(error) from error
            if isinstance(error, FailedInstanceError):
                raise error_of("INTERNAL", str(error)) from error
            raise error

    async def _watch_failure(self, node: Node, reports: Reports) -> None:
        await asyncio.wait({node.failed})
        log.error("this manager stops: %r", node.failed.result())
        reports.note(PairEventKind.PAIR_EVENT_KIND_FAULT, f"this manager stops: {node.failed.result()}")

    # -- ports -----------------------------------------------------------------------------------------------------

    async def _serve(self, members: Members, health: Health, agent: Agent, access: Access) -> None:
        assert self._operator is not None
        assert self._salvage is not None
        assert self._verifier is not None
        assert self._customs is not None
        status = StatusHandlers(
            members,
            self._operator,
            instance_id=self._instance,
            incarnation=self._incarnation,
            facts=self._facts,
        )
        pair = pair_handler(
            status.methods(),
            EventHandlers(self._operator.reports.events, members.by_name).methods(),
            OrderHandlers(self._operator, members).methods(),
            journalled(self._operator, HandoffHandlers(members).methods()),
            journalled(
                self._operator,
                DivergenceHandlers(members, self._salvage, self._verifier, self._current.close).methods(),
            ),
        )
        self.backups = BackupHandlers(members)
        backup_dir = Path(self.config.backup_dir or Path(self.config.data_dir) / "backups")
        queues = AdminHandlers(members)
        restoring, names = RestoreHandlers(members, backup_dir), NamesHandlers(queues, self.config.profile)
        others = [SweepHandlers(members).methods(), LinkHandlers(members, agent).methods()]
        admin = queues.handler(restoring.methods(), names.methods(), *others)
        manager = status.manager_handler(self.backups.methods())
        journal = JournalHandlers(members).handler(ReaderHandlers(queues).methods())
        stage, units = StageHandlers(members).handler(), TransactionHandlers(members).handler()
        batches, weights = BatchHandlers(queues).handler(), WeightHandlers(queues).handler()
        keeper = Keeper(members, self._operator.reports, agent.linked)
        macros = MacroHandlers(queues, keeper).handler()
        proxied, proxies = ProxyDoor(members, keeper), ProxyHandlers(queues, keeper).handler()
        reactions = ReactionHandlers(members, self._customs, enabled=self.config.reactions)
        messages = [proxied.before(QueueHandlers(members, reactions, keeper).handler()), reactions.handler()]
        rights = RightHandlers(queues, access).handler()
        handlers = [*messages, journal, stage, units, batches, weights, rights, macros, proxies, manager, pair]
        handlers.append(proxied.before(admin))
        behind_guard = guarded(self.config, members, access, self._operator, handlers)
        door = door_of(self.config, members, self._operator)
        peer = PeerServicer(self._link, certified_peer(self.config)) if self._link is not None else None
        await self._open_ports.open(
            Served(handlers, behind_guard, peer, health.facts, self._collectors, door, access.may_observe)
        )
        await health.report()

    def _collectors(self) -> list[Collector]:
        from replica.operations.metrics import Metrics  # and its library, which a restart does not wait for
        from replica.operations.metrics_operator import OperatorMetrics

        assert self._members is not None
        assert self._operator is not None
        assert self._verifier is not None
        assert self._customs is not None
        judge = self._watch.judge if self._watch is not None else None
        return [Metrics(self._members, judge, self._verifier, self._customs.counts), OperatorMetrics(self._operator)]

    # -- the peer --------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        session = self._link.session if self._link is not None else None
        return {
            "peer_connected": session is not None,
            "witness_connected": self._authority.connected if self._authority is not None else False,
            "peer_heard_ago_ms": max(0, monotonic_ms() - session.heard_ms) if session is not None else 0,
        }

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
