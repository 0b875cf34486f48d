"""One member over all its processes: starts the product's own manager on its machine, kills it, looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from chaos.history import Seen
from chaos.sim.kernel import judging
from chaos.sim.kernel.asked import NAME as ASKED
from chaos.sim.kernel.asked import Asked
from chaos.sim.kernel.environment import Machine, SimMachineAccess
from chaos.sim.kernel.loop import Process
from chaos.sim.kernel.register import SimAuthority
from chaos.sim.pair.run import ADMINISTRATOR, ALONE, NEAR, REGISTER
from failover.local_authority import LocalAuthority
from replica.manager import Manager
from tandemq.ambient import monotonic_ms
from tandemq.config import Failover, Limits, ManagerConfig, Timers
from tandemq.config_links import Links
from tandemq.config_security import Security
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from chaos.sim.kernel.judging import Judging
    from chaos.sim.kernel.register import Route
    from chaos.sim.pair.run import Run
    from failover.register import Register
    from replica.core.domain import Domain
    from storage.store import WriteBatch

RESTART_S = 0.5
"""Between the end of a process that ended by itself and the next one."""
SECURED = Security(credentials="/nonexistent", administrators=(ADMINISTRATOR,), audit_bytes=0)
"""No file of it is read: who somebody is, the simulated connection says."""
WORK_S = 0.0002
"""What a read, or any other work in a thread, takes."""


BY_REGISTER = Failover(meet_ms=0)
"""A start goes on alone at once, but where a plan sets `meet_ms`: runs are short, and much happens alone."""
BY_CLASSIFIER = Failover(
    classifier=judging.NAME,
    accept_unproven=True,
    call_ms=2000,
    attempts=2,
    total_ms=5000,
    cold_start_ms=3000,
    meet_ms=0,
)


def endpoint_of(member: str) -> str:
    """Where it serves clients."""
    return f"{member}:7600"


def config_of(
    name: str,
    peer: str,
    judge: str = REGISTER,
    limits: Limits | None = None,
    meet_ms: int = 0,
    *,
    pair: str = NEAR,
    links: Links | None = None,
    secured: bool = False,
) -> ManagerConfig:
    """How the members of the simulated pair are configured."""
    failover = BY_REGISTER if judge == REGISTER else BY_CLASSIFIER
    return ManagerConfig(
        member=name,
        data_dir="/nonexistent",
        pair=pair,
        peer_member=peer,
        peer_address=f"{peer}:7601",
        peer_endpoint=endpoint_of(peer),
        witness="" if judge == ALONE else "w:7620",
        failover=msgspec.structs.replace(failover, meet_ms=meet_ms),
        limits=limits or Limits(),
        timers=Timers(hung_ms=2_000),  # within the longest pause of a loop that a run has
        listen_client=endpoint_of(name),
        listen_peer=f"{name}:7601",
        listen_http=f"{name}:7602",
        links=links or Links(),
        security=SECURED if secured else Security(),
    )


class SimMember:
    """See the module. A process that ends by itself is started again, as a supervisor does."""

    def __init__(self, run: Run, machine: Machine, route: Route, judging: Judging, peer: str) -> None:
        self.run, self.machine, self.name, self.peer = run, machine, machine.name, peer
        self.route, self.judging = route, judging
        self.process: Process | None = None
        self.manager: Manager | None = None
        self.starts = 0
        self.imaged = 0
        """The start of which an image is kept; 0: there is none."""
        self.opened: Process | None = None
        """The last one that could be stopped: it has started."""
        self.stopping: Process | None = None
        self.ended: list[str] = []
        """Why processes ended by themselves."""
        network = run.network
        for port in (7600, 7601):
            network.machines[f"{self.name}:{port}"] = self.name

    # -- life ----------------------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        """A new process on what the disk has."""
        assert self.process is None
        self.starts += 1
        run, name = self.run, f"{self.name}#{self.starts}"
        run.network.dark.discard(self.name)
        self.process = process = run.process(name, run.plan.stream(f"process {name}"))
        process.carry_out = self._carry_out
        run.note(self.name, "role", f"start {self.starts}")
        run.loop.spawn(process, self._run(process))

    async def _run(self, process: Process) -> None:
        run = self.run
        config = config_of(
            self.name,
            self.peer,
            run.judge,
            run.limits,
            run.meet_ms,
            pair=run.pair_name,
            links=run.links,
            secured=run.secured,
        )
        authority = LocalAuthority(self.name) if run.judge == ALONE else SimAuthority(self.route)
        access = SimMachineAccess(run.network, self.machine, process, authority, self.judging)
        self.manager = manager = Manager(config, access, {ASKED: Asked()})
        try:
            await manager.start()
            self.opened = process
            await manager.wait_closed()
            if self.stopping is process:
                return  # it has more to do than to close
            why = "closed"
        except Exception as error:  # a process that fails ends, whatever it is
            why = self._failed(error)
        run.loop.at(run.loop.now, None, self._ended, process, why)

    def _failed(self, error: Exception) -> str:
        if not isinstance(error, TandemqError) and not _is_known(error):
            self.run.violation("process failed", f"{self.name}: {error!r}")
        return f"{type(error).__name__}: {error}"

    def _ended(self, process: Process, why: str) -> None:
        if self.process is process:
            self.ended.append(why)
            self.run.count("ended")
            self.kill()
            if "move the directory away" in why:  # an operator does what the error says
                self.machine.disk.strike("lost")
            self.run.loop.at(self.run.loop.now + RESTART_S, None, self.start_if_down)

    def start_if_down(self) -> None:
        """Somebody looks after it."""
        if self.process is None:
            self.start()

    def stop(self, within_s: float, down_s: float) -> bool:
        """SIGTERM; kill -9 if it is not done by then; started again. False: it has not started, or stops already."""
        process, manager, run = self.process, self.manager, self.run
        if process is None or manager is None or self.opened is not process or self.stopping is process:
            return False
        self.stopping = process

        def over(count: str) -> None:
            if self.process is process:
                run.count(count)
                self.kill()
                run.loop.at(run.loop.now + down_s, None, self.start_if_down)

        async def stop() -> None:
            try:
                await manager.stop()
            except Exception as error:  # as of a process that runs
                self._failed(error)
            run.loop.at(run.loop.now, None, over, "stopped in order")

        run.loop.spawn(process, stop())
        run.loop.at(run.loop.now + within_s, None, over, "stopped too late")
        return True

    def kill(self, *, silently: bool = False) -> None:
        """kill -9; `silently`: the machine lost power, so that nobody hears of it."""
        process = self.process
        if process is None:
            return
        run = self.run
        run.note(self.name, "fault", "power lost" if silently else "killed")
        run.note(self.name, "role", "DOWN")
        commits = [args[0] for func, args in process.pending.values() if _is_commit(func)]
        in_flight: WriteBatch | None = commits[0] if commits else None
        run.loop.kill(process)
        run.network.on_death(process, silently=silently)
        if silently:
            run.network.dark.add(self.name)
        self.machine.disk.crash(in_flight, power=silently)
        self.process = self.manager = None

    def pause(self, *, hung: bool = False) -> None:
        """SIGSTOP; or its loop alone stands still (`hung`)."""
        if self.process is not None:
            self.process.hung = hung
            self.run.loop.pause(self.process)
            if not hung:
                self.run.network.on_pause(self.process)

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None:
            self.run.loop.resume(self.process)

    def believe_lost(self, *, refused: bool) -> bool:
        """Its watch says that the peer is lost, as `replica.peer.watch` does; False when there is nothing to report."""
        manager, process = self.manager, self.process
        if manager is None or process is None or process.paused or self.domain is None:
            return False
        node, link, loop = manager._node, manager._link, self.run.loop  # noqa: SLF001  # what the watch has
        if node is None or link is None:
            return False

        def report() -> None:
            if link.session is not None:
                link.session.close("believed lost")
            for domain in node.paired():
                domain.on_lost(monotonic_ms(), refused=refused, cause="believed lost")
                node.dispatch(domain)

        loop.at(loop.now, process, report)
        return True

    def image(self) -> None:
        """Keep an image of the disk, to be put back after a later start."""
        if not self.imaged and self.up and self.machine.disk.strike("snapshot", "image"):
            self.imaged = self.starts

    def forget_image(self) -> None:
        """It shall not be put back: nobody could know that it is old."""
        self.imaged = 0

    def _carry_out(self, func: Callable[..., Any], end: Callable[[], None]) -> None:
        loop, disk, process = self.run.loop, self.machine.disk, self.process
        delay_s = disk.commit_delay_s() if _is_commit(func) else WORK_S
        loop.at(loop.now + delay_s, process, disk.when_free, end)

    # -- what is seen --------------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain | None:
        """The domain `main`, once the manager has opened it."""
        manager = self.manager
        members = manager._members if manager is not None else None  # noqa: SLF001  # looked at, never touched
        return members.by_name.get("main") if members is not None else None

    @property
    def own_register(self) -> Register | None:
        """Its copy, where members keep the register themselves."""
        manager = self.manager
        authority = manager._authority if manager is not None else None  # noqa: SLF001  # looked at, never touched
        return authority.now("main") if isinstance(authority, LocalAuthority) and self.domain is not None else None

    @property
    def is_serving(self) -> bool:
        return self.domain is not None and self.domain.shared.serving

    @property
    def is_opened(self) -> bool:
        return self.domain is not None and self.domain.target.opened

    def look(self) -> None:
        """Writes down what it would say of itself."""
        domain, manager = self.domain, self.manager
        if domain is None or manager is None:
            return
        disk = manager._instance  # noqa: SLF001  # looked at, never touched
        shared, now = domain.shared, self.run.loop.now
        digest = shared.machine.digest().hex() if shared.machine is not None else ""
        self.run.history.seen.append(
            Seen(
                now, now, self.name, disk, self.starts, shared.role.name, shared.state.data.name, shared.state.epoch,
                shared.log.last_index, shared.log.digest.hex(), digest, len(domain.holding),
            )
        )  # fmt: skip

    def describe(self) -> str:
        domain = self.domain
        if domain is None:
            return f"{self.name}: {'starting' if self.up else 'down'} {self.ended[-1:]}"
        shared = domain.shared
        return (
            f"{self.name}: {shared.role.name} epoch {shared.state.epoch} {shared.state.data.name} "
            f"log {shared.log.last_index} durable {shared.progress.durable_index} "
            f"commit {shared.progress.commit_index} "
            f"{domain.source.phase.name} opened {domain.target.opened}: {shared.last_change}"
        )


def _is_commit(func: Callable[..., Any]) -> bool:
    return getattr(func, "__name__", "") == "commit"


def _is_known(error: Exception) -> bool:
    """What a manager ends by on purpose."""
    return type(error).__name__ in ("StoreFailed", "FailedInstanceError", "CorruptRecord", "StoreFull")
