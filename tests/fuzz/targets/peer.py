"""Two real managers, and between them somebody who repeats, reorders, changes and invents frames.

Whatever arrives: an acknowledgement is true, an epoch never falls, the log stays one chain, no process gives up, and a
session ends in order. (What a lying peer says of its own disk is believed; that it lies cannot be known.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from tests.fuzz.clients import Client
from tests.fuzz.loop import pass_time
from tests.fuzz.messages import fill
from tests.fuzz.pair import KINDS, NUMBER, Pair, handler_of
from tests.fuzz.source import Source

STEPS_MAX = 20
FRAMES_MAX = 40


def one(data: bytes) -> None:
    source = Source(data)
    Pair(witness=not source.rarely()).run(lambda pair: _story(pair, source))


class Meddler:
    """Who holds the wire."""

    def __init__(self, pair: Pair, source: Source) -> None:
        self.pair, self.source = pair, source
        self.armed = 0
        """Frames that are meddled with from now on."""
        self.seen: list[tuple[str, bytes]] = []
        self.kept: list[bytes] = []
        pair.tamper = self.tamper
        near = self._near
        self.hints: dict[str, Callable[[Source], Any]] = {
            "domain": lambda _source: NUMBER,
            "epoch": lambda source: source.u64(self._epoch()),
            "promised_epoch": lambda source: source.u64(self._epoch()),
            "ceded_epoch": lambda source: source.u64(self._epoch() + 1),
            **dict.fromkeys(
                ("index", "last_index", "base_index", "target_index", "durable_index", "commit_index", "first_index"),
                near,
            ),
            **dict.fromkeys(("applied_index", "final_index", "solo_since", "volatile_floor"), near),
            "digest": self._digest,
            "base_digest": self._digest,
            "final_digest": self._digest,
            "sync_id": lambda source: source.u64(self._sync_id()),
            "verify_id": lambda source: source.number(0, 3),
            "name": lambda _source: "main",
            "owner": lambda source: source.pick("ab"),
            "member": lambda source: source.pick("ab"),
            "pair": lambda _source: "p",
            "queue": lambda _source: "q",
            "record": self._record,
            "id": lambda source: source.pick((b"i" * 16, b"")),
        }

    def _any_domain(self) -> Any:
        return self.pair.domain(self.source.pick(sorted(self.pair.managers)))

    def _epoch(self) -> int:
        return max(self.pair.domain(name).shared.state.epoch for name in self.pair.managers)

    def _sync_id(self) -> int:
        return int(self._any_domain().source.sync_id)

    def _near(self, source: Source) -> int:
        return source.u64(self._any_domain().shared.log.last_index)

    def _digest(self, source: Source) -> bytes:
        log = self._any_domain().shared.log
        found = log.digest_at(source.number(max(0, log.last_index - 7), log.last_index))
        return found[1] if found is not None and not source.rarely() else source.take(16)

    def _record(self, source: Source) -> bytes:
        """One that somebody holds, or a part or a changed copy of it."""
        rows = self.pair.stores[source.pick("ab")].scan(NUMBER, source.number(1, 8), limit_records=1)
        record = rows[0][1] if rows else b""
        return source.mutated(record) if source.rarely() else record

    # -- the wire --------------------------------------------------------------------------------------------------

    def tamper(self, sender: str, kind: str, frame: bytes) -> list[bytes]:
        if kind == "Data":
            self.seen = [*self.seen[-30:], (sender, frame)]
        if self.armed <= 0 or not self.source.more:
            return [frame]
        self.armed -= 1
        choice = self.source.byte() % 12
        match choice:
            case 0:
                return []
            case 1:
                return [frame, frame]
            case 2:
                self.kept.append(frame)  # it comes later, after others
                return []
            case 3:
                kept, self.kept = self.kept, []
                return [frame, *kept]
            case 4:
                return [self.source.mutated(frame)]
            case 5 | 6:
                return [self.changed(kind, frame)]
            case 7 if kind == "Data":
                old = [data for who, data in self.seen if who == sender]
                return [self.source.pick(old), frame]
            case 8 if kind == "Data":
                theirs = [data for who, data in self.seen if who != sender]
                return [frame, self.source.pick(theirs)] if theirs else [frame]
            case 9:
                return [self.forged(kind), frame]
            case _:
                return [frame]

    def changed(self, kind: str, data: bytes) -> bytes:
        """The same frame with one field of it filled anew."""
        message = KINDS[kind]()
        try:
            message.ParseFromString(data)
        except DecodeError:
            return data
        inner = message
        for _ in range(3):
            parts = [value for field, value in inner.ListFields() if field.message_type and not field.is_repeated]
            if not parts or self.source.rarely():
                break
            inner = self.source.pick(parts)
        anew = fill(self.source, inner.DESCRIPTOR, self.hints)
        set_fields = [field for field, _ in inner.ListFields()]
        if set_fields:
            field = self.source.pick(set_fields)
            inner.ClearField(field.name)
            taken = type(inner)()
            taken.CopyFrom(anew)
            for other, _ in anew.ListFields():
                if other.name != field.name:
                    taken.ClearField(other.name)
            inner.MergeFrom(taken)
        return bytes(message.SerializeToString())

    def forged(self, kind: str) -> bytes:
        frame = fill(self.source, KINDS[kind].DESCRIPTOR, self.hints)
        return frame.SerializeToString()


async def _story(pair: Pair, source: Source) -> None:
    client = Client(lambda member, method: handler_of(pair, member, method))
    for name in "ab":
        await pair.start(name)
    await pass_time(0.3)
    assert await client.create("a", "q")
    assert await client.send("a", "q", [b"one", b"two"])
    meddler = Meddler(pair, source)
    for _ in range(STEPS_MAX):
        if not source.more:
            break
        await _step(pair, source, client, meddler)
        pair.check_alive()
    meddler.armed = 0
    pair.cut()
    await pass_time(0.05)
    for name, manager in pair.managers.items():
        assert manager._link is not None
        session = manager._link.session
        assert session is None or not session.ended.is_set(), f"a session of {name} does not end"
        pair.stores[name].check_chain(NUMBER)
    await pass_time(0.3)
    pair.check_alive()


async def _step(pair: Pair, source: Source, client: Client, meddler: Meddler) -> None:
    member = source.pick("ab")
    match source.byte() % 12:
        case 0 | 1 | 2:
            meddler.armed = source.number(1, FRAMES_MAX)
        case 3 | 4:
            await client.send(member, "q", [source.blob()] * source.number(1, 3))
        case 5:
            await client.receive(member, "q", source.number(1, 3), ack=source.flag())
        case 6:
            pair.cut()
        case 7:
            await _inject(pair, source, meddler)
        case 8:
            pair.domain(member).handoff.start(
                "asked", dry_run=source.rarely(), automatic=False, on_end=lambda _done: None
            )
            pair.node(member).dispatch(pair.domain(member))
        case 9:
            await pair.stop(member)
            await pass_time(source.pick((0.0, 0.5)))
            await pair.start(member)
        case _:
            await pass_time(source.pick((0.01, 0.01, 0.05, 0.5)))
    await pass_time(0.01)


async def _inject(pair: Pair, source: Source, meddler: Meddler) -> None:
    """Frames out of nothing, on a connection that is open."""
    ends = [
        (side.member, end, channel) for side in pair.sides.values() for channel in side.channels for end in channel.ends
    ]
    if not ends:
        return
    _, end, _ = source.pick(ends)
    for _ in range(source.number(1, 3)):
        wire = source.pick((end.reads, end.writes))
        wire.frames.append(meddler.forged(wire.kind))
        wire.wake.set()
        await pass_time(0)
