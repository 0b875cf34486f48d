"""Says in words what happens in a pair: frames, roles, the register, what clients hear. Changes nothing.

It listens to the pair, so that a script prints the same whatever command made it happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from failover.marks import Role
from replica.core.state.durable import data_of
from replica.core.state.effects import AskVerdict, Fail, Persist, RoleChanged, Salvage, SetRegister, StartTransfer
from replica.core.state.outcomes import EnqueueDone, Failed
from storage.records import _PREFIX, PREFIX_SIZE, Prefix
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.common_pb2 import Reason
from tests.support.clients import Op, Producer
from tests.support.pair import NUMBER, Member, Pair, RegisterCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from failover.register import Register
    from tandemq.peer.v1.peer_service_pb2 import Op, PeerFrame


def names(members: Iterable[str]) -> str:
    return "{" + " ".join(sorted(members)) + "}"


def call_name(call: RegisterCall) -> str:
    return call.name.partition(":")[0]


def register_text(register: Register) -> str:
    if register.is_new:
        return "register: empty"
    text = f"register: epoch {register.epoch} {register.state.name} by {register.holder}, in sync"
    before = f", before {names(register.committed_set)}" if register.state.name == "CLAIMED" else ""
    return f"{text} {names(register.in_sync_set)}{before}"


def prefix_of(record: bytes) -> Prefix:
    """Also of a record whose body the receiver holds: it travels without."""
    return Prefix(*_PREFIX.unpack_from(record)[2:])


def header_of(record: bytes) -> RecordHeader:
    return RecordHeader.FromString(record[PREFIX_SIZE : PREFIX_SIZE + prefix_of(record).header_len])


def message_of(record: bytes) -> str:
    """What its client called it; empty for a record that is no message."""
    return header_of(record).enqueue.client_id.decode()


def record_text(record: bytes) -> str:
    """Number, epoch and what it is, as in `3 op1 (epoch 1)`."""
    prefix = prefix_of(record)
    kind = header_of(record).WhichOneof("op")
    what = {"role": "an epoch begins", "queue": "a queue", "enqueue": message_of(record)}.get(kind, kind)
    return f"{prefix.log_index} {what} (epoch {prefix.epoch})"


def frame_name(frame: PeerFrame) -> str:
    return str(frame.WhichOneof("frame")).upper()


def frame_text(frame: PeerFrame) -> str:
    """Name, and what matters of it."""
    name = frame_name(frame)
    match name:
        case "HELLO":
            told = frame.hello.domains[0]
            promised = f", promised {told.promised_epoch}" if told.promised_epoch > told.epoch else ""
            mark = data_of(told.data_state).name
            return f"HELLO: {Role(told.role).name}, epoch {told.epoch}{promised}, {mark}, log {told.last_index}"
        case "SYNC_BEGIN":
            sync = frame.sync_begin
            what = f"full at {sync.base_index}" if sync.full else f"delta above {sync.base_index}"
            rest = f"{what}, up to {sync.target_index}"
        case "SYNC_END":
            rest = f"at {frame.sync_end.last_index}"
        case "OPEN_ACK":
            ack = frame.open_ack
            rest = f"durable {ack.durable_index}" if ack.done else f"refused: {ack.refusal}"
        case "OP":
            rest = _op_text(frame.op)
        case "OP_ACK":
            rest = f"durable {frame.op_ack.durable_index}, applied {frame.op_ack.applied_index}"
        case "HOLD":
            rest = frame.hold.key.client_id.decode()
        case "HANDOFF_ACK":
            rest = f"ceded epoch {frame.handoff_ack.ceded_epoch}, everything up to {frame.handoff_ack.final_index}"
        case "HANDOFF_NACK":
            rest = ", ".join(frame.handoff_nack.reasons)
        case "DIGEST_QUERY":
            rest = f"at {frame.digest_query.index}"
        case "DIGEST_REPLY":
            rest = f"at {frame.digest_reply.index}, epoch {frame.digest_reply.epoch}"
        case _:
            rest = ""
    return f"{name} of epoch {frame.epoch}" + (f": {rest}" if rest else "")


def _op_text(op: Op) -> str:
    records = [record_text(entry.record) for entry in op.entries] or ["nothing new"]
    return f"{', '.join(records)}; committed {op.commit_index}"


class Teller:
    """Collects lines since it was last asked."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.lines: list[str] = []
        self.frames_too = False
        """Frames that arrive are told as well."""
        self.aside: dict[tuple[str, str], tuple[int, int]] = {}
        """Member and message: log index and epoch of the record that was asked to be set aside."""
        self._marks: dict[str, str] = {}
        self._logs: dict[str, str] = {}
        self._register = register_text(pair.register)
        pair.listener = self._hear
        for member in pair.up:
            self._look(member)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def take(self) -> list[str]:
        """What was said since the last time."""
        taken, self.lines = self.lines, []
        return taken

    def take_logs(self) -> list[str]:
        """How the logs have changed since the last time."""
        lines = []
        for member in self.pair.up:
            shared = member.shared
            progress = shared.progress
            where = f"log {shared.log.last_index}, durable {progress.durable_index}"
            where += f", committed {progress.commit_index}"
            if self._logs.get(member.name) != where:
                self._logs[member.name] = where
                lines.append(f"{member.name}: {where}")
        return lines

    def _hear(self, what: str, member: Member, thing: Any) -> None:
        match what:
            case "frame":
                if self.frames_too:
                    self.say(f"{member.name}>{member.peer_name} {frame_text(thing)}")
            case "transfer":
                if self.frames_too:
                    self.say(f"{member.name}>{member.peer_name} transfer: {thing.WhichOneof('frame')}")
            case "effect":
                self._effect(member, thing)
            case "landed":
                self._landed(member, thing)
            case "lost":
                if isinstance(thing.effect, SetRegister):
                    self.say(f"{member.name}'s {call_name(thing)} gets no answer")
            case "step":
                self._look(member)

    def _effect(self, member: Member, effect: Any) -> None:
        name = member.name
        match effect:
            case RoleChanged(role, epoch, reason):
                self.say(f"{name} is {Role(role).name}, epoch {epoch}: {reason}")
            case SetRegister(_, desired, _):
                call = RegisterCall(name, 0, effect)
                what = f"epoch {desired.epoch} for {names(desired.in_sync_set)}"
                forced = ", by an operator's word" if effect.forced else ""
                self.say(f"{name} asks the register: {call_name(call)} {what}{forced}")
            case Persist(cut=cut, wipe=wipe):
                if wipe:
                    self.say(f"{name} wipes its copy")
                elif cut is not None:
                    self.say(f"{name} cuts its log above {cut}")
            case Salvage(first, last):
                which = f"record {first}" if first == last else f"records {first} to {last}"
                self.say(f"{name} sets {which} aside before the cut")
                for log_index, record in member.store.scan(NUMBER, first, limit_records=1000, limit_bytes=1 << 30):
                    if log_index <= last:
                        self.aside[name, message_of(record)] = (log_index, prefix_of(record).epoch)
            case StartTransfer():
                self.say(f"{name} sends everything")
            case AskVerdict(kind, _, _, cause):
                self.say(f"{name} asks its classifier: {kind.name}, {cause}")
            case Fail(why):
                self.say(f"{name} ends its process: {why}")

    def _landed(self, member: Member, call: RegisterCall) -> None:
        text = register_text(self.pair.register)
        if text != self._register:
            self._register = text
            self.say(text)
        else:
            self.say(f"register: refuses {member.name}'s {call_name(call)}")

    def _look(self, member: Member) -> None:
        mark = member.shared.state.data.name
        if self._marks.get(member.name, mark) != mark:
            self.say(f"{member.name}'s copy is {mark}")
        self._marks[member.name] = mark


def log_text(member: Member) -> str:
    """Every record on a member's disk."""
    rows = member.store.scan(NUMBER, 1, limit_records=1000, limit_bytes=1 << 30)
    return f"{member.name}'s disk: " + (", ".join(record_text(record) for _, record in rows) or "nothing")


class Told(Producer):
    """A client that sends one message, and says what it is told."""

    def __init__(self, teller: Teller, name: str) -> None:
        super().__init__(teller.pair, name)
        self.teller = teller

    def _on_answer(self, op: Op, member: Member, result: Any) -> None:
        at = f"client: {self.name} at {member.name}:"
        if isinstance(result, EnqueueDone):
            self.teller.say(f"{at} index {result.first_index} epoch {result.epoch} copies {result.copies}")
        elif isinstance(result, Failed):
            self.teller.say(f"{at} refused, {Reason.Name(result.reason).removeprefix('REASON_')}")
        else:
            self.teller.say(f"{at} no answer, the role has moved")
        super()._on_answer(op, member, result)


def messages_on_disk(member: Member) -> list[str]:
    rows = member.store.scan(NUMBER, 1, limit_records=1000, limit_bytes=1 << 30)
    return [message for _, record in rows if (message := message_of(record))]
