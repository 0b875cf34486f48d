"""The commands of a script that start and end members of a pair in one process, and move what is on its wires.

Nothing happens by itself: after `send op1 to a` one disk, one frame or one call is moved by a command of its own, or by
`run` and `wait`. Each command returns what happened, in words (`tests.support.describing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from failover.authority import MemoryAuthority
from replica.core.mastership.verdicts import Policy
from replica.peer.identity import incarnation
from storage.memory import MemoryStore
from tandemq.ambient import random_bytes
from tests.support.clients import Reader, create
from tests.support.describing import Teller, Told, frame_name
from tests.support.grammar import CommandError, command
from tests.support.pair import Member, Pair, drive
from tests.support.walk import UpkeepNode, trim

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.handoff.attempt import HandoffOutcome
    from tandemq.peer.v1.peer_service_pb2 import PeerFrame


class Acting:
    """One pair, what its clients sent, and what is held back."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.teller = Teller(self.pair)
        self.clients: dict[str, Told] = {}
        self.reader = Reader(self.pair)
        self.has_queue = False
        self.held: set[str] = set()
        self.copy: PeerFrame | None = None
        self.image: dict[str, MemoryStore] = {}
        self.accepted: set[str] = set()
        """Messages whose loss an operator has accepted."""
        self.told: list[tuple[Member, int, list[HandoffOutcome]]] = []

    def said(self) -> list[str]:
        return self.teller.take()

    def end_of_step(self) -> list[str]:
        """How the logs have changed, said once after the commands of a step."""
        return self.teller.take_logs()

    def member(self, name: str) -> Member:
        member = self.pair.members[name]
        if not member.up:
            raise CommandError(f"{name} is down: start it first")
        return member

    def op(self, name: str) -> Told:
        if name not in self.clients:
            raise CommandError(f"nobody has sent {name!r}; sent: {', '.join(self.clients) or 'nothing'}")
        return self.clients[name]

    # -- members ---------------------------------------------------------------------------------------------------

    @command("given a pair")
    def given_a_pair(self) -> list[str]:
        """Both members are up and in step: a is master of epoch 1, a queue is there, empty. Prints nothing of it."""
        self.pair.start()
        create(self.pair)
        self.has_queue = True
        self.teller.take()
        self.teller.take_logs()
        return []

    @command("given a pair that holds OP")
    def given_a_pair_that_holds(self, name: str) -> list[str]:
        """As above, with one message in the queue that both have written."""
        self.given_a_pair()
        self.clients[name] = Told(self.teller, name)
        self.clients[name].send(self.pair.a)
        self.pair.settle(200)
        self.teller.take()
        self.teller.take_logs()
        return []

    @command("given a pair that asks its classifiers")
    def given_a_pair_that_asks(self) -> list[str]:
        """As above; but the register alone does not let a member go on: it waits for a verdict as well."""
        self.given_a_pair()
        for member in self.pair.up:
            member.core.mastership.verdicts.set_policy(Policy(by_authority=False))
        return []

    @command("start MEMBER and wait for its peer")
    def start_and_wait(self, name: str) -> list[str]:
        """As `start`; but for three seconds it goes on alone only if its peer has no whole copy (failover.meet_ms)."""
        return self._start(name, meet_ms=3000)

    @command("start MEMBER")
    def start(self, name: str) -> list[str]:
        """The process starts, on the disk that it left."""
        return self._start(name, meet_ms=0)

    def _start(self, name: str, *, meet_ms: int) -> list[str]:
        if self.pair.members[name].up:
            raise CommandError(f"{name} is up already")
        self.pair.members[name].start(meet_ms=meet_ms)
        return self.said()

    @command("crash MEMBER")
    def crash(self, name: str) -> list[str]:
        """The process ends; what it had not written is gone. The connection breaks, and the other one notices."""
        self.pair.crash(self.member(name))
        return self.said()

    @command("crash MEMBER unnoticed")
    def crash_unnoticed(self, name: str) -> list[str]:
        """As above; the other one has not noticed yet, and goes on reading what was sent before."""
        self.pair.crash(self.member(name), noticed=False)
        return self.said()

    @command("crash MEMBER after its write")
    def crash_after_its_write(self, name: str) -> list[str]:
        """The batch that was being written is on the disk, and nobody was told."""
        self.pair.crash(self.member(name), written=True)
        return self.said()

    @command("new disk for MEMBER")
    def new_disk(self, name: str) -> list[str]:
        """It lost its disk while it was down, and gets an empty one."""
        self.down(name).store = MemoryStore(member=name, instance=b"new".ljust(16))
        return self.said()

    @command("begin the pair anew")
    def begin_anew_from_nothing(self) -> list[str]:
        """Both are down: all disks are lost, that of the witness too, and an operator has stated that all is gone."""
        for name in self.pair.members:
            self.down(name).store = MemoryStore(member=name, instance=f"anew {name}".encode().ljust(16))
        self.pair.registers._registers.clear()
        self.pair.checks.forget()
        self.pair.seen.clear()
        self.accepted.update(self.clients)
        return self.said()

    @command("the disk of MEMBER loses its last COUNT writes")
    def lose_last_writes(self, name: str, count: str) -> list[str]:
        """While it is down: its disk had said that they were written, and they were not. Nothing else shows it."""
        store = self.down(name).store
        kept = len(store.undo_kept) if store.undo_kept is not None else 0
        if int(count) > kept:
            raise CommandError(f"the disk of {name} has {kept} writes that can be taken back")
        store.take_back(int(count))
        return self.said()

    @command("keep an image of the disk of MEMBER")
    def keep_image(self, name: str) -> list[str]:
        """While it is down, its disk is copied."""
        self.image[name] = copy_of(self.down(name).store)
        return self.said()

    @command("put the image back for MEMBER")
    def put_image_back(self, name: str) -> list[str]:
        """While it is down, its disk is replaced by the copy."""
        if name not in self.image:
            raise CommandError(f"no image of the disk of {name} was kept")
        self.down(name).store = copy_of(self.image[name])
        return self.said()

    def down(self, name: str) -> Member:
        member = self.pair.members[name]
        if member.up:
            raise CommandError(f"{name} is up: crash it first")
        return member

    @command("trim MEMBER")
    def trim(self, name: str) -> list[str]:
        """It takes a checkpoint and drops the records that it does not need any more."""
        trim(self.member(name))
        self.member(name).commit()
        return self.said()

    @command("MEMBER counts its start at the witness")
    def counts_its_start(self, name: str) -> list[str]:
        """As each start does: one number on its disk, one at the witness. An older copy of a disk has the lower one."""
        if self.pair.witness_away:
            raise CommandError("the witness is away")
        node = StartingNode(self.member(name))
        authority = MemoryAuthority(self.pair.registers, name)
        known = drive(incarnation.begin(node, random_bytes(16)))  # type: ignore[arg-type]  # a node as far as a start needs
        own = incarnation.Own(node, known, node)  # type: ignore[arg-type]  # as above
        number = known.number
        drive(incarnation.prove(own, authority, name))
        proven = own.starts.number
        older = "" if proven == number else f"; this disk said {number}: an older copy was put back"
        self.teller.say(f"witness: start {proven} of {name}{older}")
        node.member.commit()
        return self.said()

    # -- wires -----------------------------------------------------------------------------------------------------

    @command("connect")
    def connect(self) -> list[str]:
        """A new connection. HELLOs cross: both are on their way."""
        if len(self.pair.up) < 2:
            raise CommandError("both members must be up")
        if self.pair.greeted:
            raise CommandError(f"{', '.join(sorted(self.pair.greeted))} has not noticed the end of the old connection")
        self.pair.connect()
        return self.said()

    @command("cut")
    def cut(self) -> list[str]:
        """The connection breaks. What was sent before still arrives at whoever has not noticed."""
        self.pair.cut()
        return self.said()

    @command("MEMBER notices")
    def notices(self, name: str) -> list[str]:
        """It hears that the connection is gone, and reads nothing more of it."""
        self.member(name).notice()
        return self.said()

    @command("disconnect")
    def disconnect(self) -> list[str]:
        """The connection breaks and both notice."""
        self.pair.disconnect()
        return self.said()

    @command("MEMBER gives its peer up")
    def gives_up(self, name: str) -> list[str]:
        """Its peer was silent for longer than the lost time: it counts as lost."""
        self.member(name).lost()
        return self.said()

    @command("MEMBER is refused by its peer")
    def is_refused(self, name: str) -> list[str]:
        """Nobody listens at its peer's port: it counts as lost at once."""
        self.member(name).lost(refused=True)
        return self.said()

    @command("flush MEMBER")
    def flush(self, name: str) -> list[str]:
        """It puts what it has to say on the wire now; else that happens when its next frame is delivered."""
        self.member(name).pump()
        return self.said()

    @command("deliver WAY")
    def deliver(self, way: str) -> list[str]:
        """The next frame arrives. All forms of `deliver` print the frames."""
        return self._deliver(way, lambda _frame: True)

    @command("deliver WAY COUNT")
    def deliver_count(self, way: str, count: str) -> list[str]:
        """So many frames arrive."""
        return [line for _ in range(int(count)) for line in self.deliver(way)]

    @command("deliver WAY up to FRAME")
    def deliver_up_to(self, way: str, name: str) -> list[str]:
        """All frames up to the first one of that name."""
        return self._deliver(way, lambda frame: frame_name(frame) == name, name)

    @command("deliver WAY all")
    def deliver_all(self, way: str) -> list[str]:
        """Every frame that is on its way, or to be said, in this direction."""
        self.teller.frames_too = True
        while self.pair.deliver(self.pair.members[way[0]]):
            pass
        self.teller.frames_too = False
        return self.said()

    @command("deliver WAY transfer")
    def deliver_transfer(self, way: str) -> list[str]:
        """The next frame of a full transfer arrives."""
        sender = self.member(way[0])
        sender.pump()
        self.teller.frames_too = True
        if not self.pair.deliver_transfer(sender):
            raise CommandError(f"{way[0]} sends no transfer that {way[2]} takes")
        self.teller.frames_too = False
        return self.said()

    def _deliver(self, way: str, is_last: Any, name: str = "frame") -> list[str]:
        sender = self.pair.members[way[0]]
        self.teller.frames_too = True
        while True:
            if not self.pair.wires[way[0]] and sender.up:
                sender.pump()
            wire = self.pair.wires[way[0]]
            last = bool(wire) and is_last(wire[0])
            if not self.pair.deliver(sender):
                self.teller.frames_too = False
                raise CommandError(f"no {name} is on its way from {way[0]} to {way[2]}")
            if last:
                self.teller.frames_too = False
                return self.said()

    @command("copy the next frame of MEMBER")
    def copy_next(self, name: str) -> list[str]:
        """Somewhere on the way the frame is kept; it arrives all the same."""
        wire = self.pair.wires[name]
        if not wire:
            raise CommandError(f"nothing of {name} is on its way")
        self.copy = type(wire[0]).FromString(wire[0].SerializeToString())
        return self.said()

    @command("deliver the copy to MEMBER")
    def deliver_copy(self, name: str) -> list[str]:
        """What was kept arrives, late."""
        if self.copy is None:
            raise CommandError("no frame was copied")
        member = self.member(name)
        self.teller.frames_too = True
        self.teller._hear("frame", member.peer, self.copy)
        member.take_frame(self.copy)
        self.teller.frames_too = False
        return self.said()


class StartingNode(UpkeepNode):
    """What the product's count of starts needs of a node."""

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.member = member

    def paired(self) -> list[Domain]:
        return [self.member.core]

    def dispatch(self, domain: Domain) -> None:
        self.member.dispatch(domain)

    def on_old(self, _text: str) -> None:
        self.member.pair.disconnect()

    def on_number(self, number: int) -> None:
        """The command says it."""


def copy_of(store: MemoryStore) -> MemoryStore:
    """A second disk with the same contents."""
    other = MemoryStore()
    for domain, log in store._logs.items():
        table = other._logs.setdefault(domain, type(log)())
        for key in log.order:
            table.replace(key, log.rows[key])
    for key in list(other._meta.order):
        other._meta.replace(key, None)
    for key in store._meta.order:
        other._meta.replace(key, store._meta.rows[key])
    other._used_bytes, other._file_bytes = store._used_bytes, store._file_bytes
    return other
