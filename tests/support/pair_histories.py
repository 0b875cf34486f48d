"""Makes small runs of a pair, right and spoilt: rows of both members' journals, client histories and heads."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from chaos.journals import LEASE_BITS, Asked, Head, Row
from pipeline.schema import HEADS, HISTORY, LAKE, ddl

MEMBERS = ("a", "b")
APART = 1 << 16
"""Log indexes of one run are below it: runs stand side by side in one journal."""


def message_id(epoch: int, log_index: int, ordinal: int) -> bytes:
    return b"main" + epoch.to_bytes(4, "big") + log_index.to_bytes(6, "big") + ordinal.to_bytes(2, "big")


@dataclass
class Run:
    """What a right pair wrote down. `place` sets runs apart."""

    place: int = 0
    rows: list[Row] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """Up to which record the journals were read."""
    every_record_from: dict[str, int] = field(default_factory=dict)
    """From where on each record has a row."""
    epoch: int = 1
    log_index: int = 0
    now_ns: int = 0
    next_index: dict[int, int] = field(default_factory=dict)
    sequences: dict[tuple[bytes, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.epoch += 10 * self.place
        self.log_index += APART * self.place
        self.now_ns += 10**9 * self.place

    def queue_id(self, number: int) -> int:
        return 10 * self.place + number

    def record(self, *facts: dict[str, Any]) -> None:
        """At both members."""
        self.log_index += 1
        for member in MEMBERS:
            for fact in facts:
                self.rows.append(Row(member, self.log_index, self.epoch, time_us=self.log_index * 1000, **fact))

    def about(self, kind: str, number: int, index: int = 0, count: int = 0, lease_id: int = 0) -> dict[str, Any]:
        queue_id = self.queue_id(number)
        return {
            "kind": kind,
            "queue_id": queue_id,
            "index": index,
            "count": count,
            "lease_id": lease_id,
            "queue": f"q{queue_id}",
        }

    def create(self, number: int) -> None:
        self.record(self.about("QUEUE_CREATED", number))
        self.next_index[number] = 1

    def take_over(self) -> None:
        self.epoch += 1
        self.record({"kind": "EPOCH_BEGAN"})

    def send(
        self, number: int, count: int, producer: bytes = b"p", outcome: str = "ok", *, stored: bool = True
    ) -> None:
        """A batch over a stream; without `stored` nothing came of it."""
        first, key = self.next_index[number], (producer, number)
        sequence = self.sequences.get(key, 0) + 1
        self.sequences[key] = sequence + count - 1
        self.now_ns += 10
        messages = [
            dict(
                self.about("ENQUEUED", number, first + at, 1),
                id=message_id(self.epoch, self.log_index + 1, at),
                producer=producer,
                sequence=sequence + at,
                payload=b"body",
                attributes=b"text/plain",
            )
            for at in range(count)
        ]
        if stored:
            self.record(*messages)
            self.next_index[number] += count
        for message in messages:
            answer = {"index": message["index"], "id": message["id"], "epoch": self.epoch} if outcome == "ok" else {}
            name, who = message["queue"], {"producer": producer, "sequence": message["sequence"]}
            who["payload_crc32"] = zlib.crc32(message["payload"])
            self.asked.append(Asked("send", outcome, self.now_ns, self.now_ns + 5, name, **answer, **who))

    def lease(self, number: int, index: int, count: int, *, stored: bool = True) -> int:
        """One delivery; without `stored` its record is lost with its master. Returns the lease."""
        lease_id = self.epoch << LEASE_BITS | self.log_index + 1
        if stored:
            self.record(self.about("LEASED", number, index, count, lease_id))
        self._tell("recv", number, index, count)
        return lease_id

    def settle(self, number: int, index: int, count: int, lease_id: int, kind: str = "ACKED") -> None:
        self.record(self.about(kind, number, index, count, lease_id))
        if kind == "ACKED":
            self._tell("ack", number, index, count)

    def ack(self, number: int, index: int, count: int, kind: str = "ACKED") -> None:
        if kind == "TAKEN":
            self.record(self.about(kind, number, index, count, self.epoch << LEASE_BITS | self.log_index + 1))
            self._tell("recv", number, index, count)
            return
        lease_id = self.lease(number, index, count)
        if kind == "EXPIRED":  # only what nobody holds does
            self.record({"kind": "LEASE_ENDED", "lease_id": lease_id})
            lease_id = 0
        self.settle(number, index, count, lease_id, kind)

    def _tell(self, op: str, number: int, index: int, count: int) -> None:
        """What one consumer saw of a queue of one priority."""
        self.now_ns += 10
        name = f"q{self.queue_id(number)}"
        for each in range(index, index + count):
            came = next(row for row in self.rows if (row.kind, row.queue, row.index) == ("ENQUEUED", name, each))
            asked = Asked(op, "ok", self.now_ns, self.now_ns + 5, name, each, came.id, client="consumer")
            more = {"priority": 4, "payload_crc32": came.crc32} if op == "recv" else {"id": None}
            self.asked.append(replace(asked, **more))

    def move(self, number: int, to: int, index: int, kind: str = "MOVED") -> None:
        """To another queue, under the name of the request that asked for it."""
        stored = dict(
            self.about("ENQUEUED", to, self.next_index[to], 1),
            id=message_id(self.epoch, self.log_index + 1, 0),
            producer=b"request",
            payload=b"body",
        )
        self.record(stored, self.about(kind, number, index, 1))
        self.next_index[to] += 1

    def end(self) -> Run:
        """Both members say where they end."""
        first = APART * self.place + 1
        for member in MEMBERS:
            self.ends[member] = self.log_index + 1
            self.every_record_from[member] = first
            for number, index in self.next_index.items():
                queue_id = self.queue_id(number)
                self.heads.append(Head(member, first, self.log_index + 1, f"q{queue_id}", queue_id, 1, index))
        return self


def usual(place: int = 0) -> Run:
    """Two queues, three epochs, everything that is right and looks odd."""
    run = Run(place)
    run.create(1)
    run.create(2)
    run.send(1, 20)
    run.send(2, 5, b"other")
    run.ack(1, 1, 8)
    run.take_over()
    run.send(1, 10, outcome="unknown")  # stored, and nobody was told
    run.send(1, 3, b"third", outcome="unknown", stored=False)
    run.send(1, 3, b"fourth", outcome="fail", stored=False)
    run.ack(1, 9, 2, "RELEASED")
    run.ack(1, 9, 2)
    run.ack(1, 12, 1, "REJECTED")
    run.move(1, 2, 12, "DEAD_LETTERED")
    run.take_over()
    run.move(1, 2, 11)
    run.record({"kind": "NOTHING"})  # a reader moved
    run.send(1, 10)
    run.send(2, 3, b"other")
    run.record(run.about("EXPIRED", 2, 1, 2))
    run.ack(1, 20, 5)
    slow = run.lease(1, 25, 2)
    run.record({"kind": "LEASE_ENDED", "lease_id": slow})  # its time was over, and both come again
    run.ack(1, 25, 2)
    gone = run.lease(1, 27, 2, stored=False)
    run.take_over()
    run.settle(1, 27, 2, gone)  # delivered by a master that could not store its lease any more
    run.record(run.about("TAKEN", 1, 29, 2, run.epoch << LEASE_BITS | run.log_index + 1))
    return run.end()


def sided(place: int = 0) -> Run:
    """A queue with lockstep SELECTED: both sides give six messages, in an order and by numbers of their own, and the
    pair writes down which they are, and when both have passed some. Another one with lockstep PLAIN.
    """
    run = Run(place)
    for number in (1, 2):
        run.create(number)
        run.send(number, 6)
    order = (4, 5, 1, 2, 3, 6)
    run.record(run.about("SELECTED", 1, 4, 2), run.about("SELECTED", 1, 1, 2))
    run.take_over()
    run.record(run.about("SELECTED", 1, 3, 1), run.about("SELECTED", 1, 6, 1))
    for client in ("a", "b"):
        for number, places in ((1, order), (2, range(1, 7))):
            name = f"q{run.queue_id(number)}"
            for given, index in enumerate(places, 1):
                came = next(row for row in run.rows if (row.kind, row.queue, row.index) == ("ENQUEUED", name, index))
                run.now_ns += 10
                asked = Asked("recv", "ok", run.now_ns, run.now_ns + 1, name, given, came.id, client=client)
                run.asked += [asked, replace(asked, op="ack", id=None, complete_ns=run.now_ns + 2)]
    run.record(run.about("ACKED", 1, 4, 2), run.about("ACKED", 1, 1, 1))
    run.record(run.about("ACKED", 2, 1, 5))
    return run.end()


def any_run(random: Random, place: int) -> Run:
    """A right run of a few random steps."""
    run = Run(place)
    run.create(1)
    run.create(2)
    settled = {1: 1, 2: 1}
    for _ in range(random.randrange(2, 12)):
        number = random.choice((1, 2))
        left = run.next_index[number] - settled[number]
        step = random.choice(("send", "send", "ack", "again", "gone", "take_over", "move", "lost", "nothing"))
        if step == "nothing":
            run.record({"kind": "NOTHING"})
        elif step == "send":
            run.send(
                number, random.randrange(1, 9), random.choice((b"p", b"r")), random.choice(("ok", "ok", "unknown"))
            )
        elif step == "lost":
            run.send(number, 2, b"s" + bytes([len(run.rows) % 250]), random.choice(("fail", "unknown")), stored=False)
        elif step == "ack" and left:
            count = random.randrange(1, left + 1)
            kind = random.choice(("ACKED", "ACKED", "TAKEN", "EXPIRED", "REJECTED"))
            run.ack(number, settled[number], count, kind)
            settled[number] += count
        elif step == "again" and left:
            lease = run.lease(number, settled[number], left)
            over = {"kind": "LEASE_ENDED", "lease_id": lease}
            run.record(random.choice((over, run.about("RELEASED", number, settled[number], left, lease))))
        elif step == "gone" and left:
            lease = run.lease(number, settled[number], 1, stored=False)
            run.take_over()
            run.settle(number, settled[number], 1, lease)
            settled[number] += 1
        elif step == "move" and left:
            run.move(number, 3 - number, settled[number])
            settled[number] += 1
        elif step == "take_over":
            run.take_over()
    return run.end()


def change(run: Run, kind: str, index: int, **changes: Any) -> None:
    """The first such row, at both members."""
    log_index = next(row.log_index for row in run.rows if (row.kind, row.index) == (kind, index))
    run.rows = [
        replace(row, **changes) if (row.log_index, row.kind, row.index) == (log_index, kind, index) else row
        for row in run.rows
    ]


def spoil(run: Run, random: Random) -> None:
    """Something that no right pair writes, or that only looks so; the two audits must say the same of it."""
    random.choice((_spoil_what_is_there, _spoil_what_it_says))(run, random)


def _spoil_what_is_there(run: Run, random: Random) -> None:
    """Rows, outcomes and heads."""
    rows, asked, at = run.rows, run.asked, random.randrange(len(run.rows))
    row = rows[at]
    match random.randrange(12):
        case 0:
            del rows[at]
        case 1:
            rows.append(row)
        case 2:
            rows[at] = replace(row, epoch=max(1, row.epoch - 1))
        case 3:
            rows[at] = replace(row, index=row.index + random.choice((-1, 1, 5)))
        case 4:
            rows[at] = replace(row, payload=random.choice((None, b"else")))
            if random.random() < 0.5:
                rows[at] = replace(rows[at], attributes=random.choice((None, b"text/html")))
        case 5:
            rows[at] = replace(row, id=None if row.id is None else row.id[:-1] + b"\x77")
        case 6:  # at both members
            run.rows = [each for each in rows if (each.log_index, each.index) != (row.log_index, row.index)]
        case 7:
            member = random.choice(MEMBERS)
            run.rows = [each for each in rows if each.member != member or each.log_index < row.log_index]
        case 8:
            run.rows += [
                replace(each, log_index=run.log_index, epoch=run.epoch, index=each.index + random.choice((0, 40)))
                for each in rows
                if (each.log_index, each.index) == (row.log_index, row.index)
            ]
        case 9 if asked:
            one = random.randrange(len(asked))
            asked[one] = replace(asked[one], outcome=random.choice(("ok", "fail", "unknown")))
        case 10 if asked:
            del asked[random.randrange(len(asked))]
        case 11 if asked:
            one = random.randrange(len(asked))
            asked[one] = replace(asked[one], invoke_ns=asked[one].invoke_ns + random.choice((-1000, 1000)))
        case _:
            run.heads.clear()


def _spoil_what_it_says(run: Run, random: Random) -> None:
    """Leases, times and what clients were told."""
    rows, asked, at = run.rows, run.asked, random.randrange(len(run.rows))
    row = rows[at]
    match random.randrange(10):
        case 0:
            rows[at] = replace(row, lease_id=row.lease_id + random.choice((-1, 1, 1 << LEASE_BITS)))
        case 1:  # at both members, as are the next two
            change(run, row.kind, row.index, lease_id=row.lease_id + random.choice((-1, 1, 1 << LEASE_BITS)))
        case 2:
            change(run, row.kind, row.index, time_us=row.time_us + random.choice((-5000, 5000)))
        case 3:
            run.rows = [each for each in rows if each.kind != "LEASE_ENDED"]
        case 4 if asked:
            one = random.randrange(len(asked))
            asked.append(replace(asked[one], invoke_ns=run.now_ns + 9, complete_ns=run.now_ns + 19))
        case 5 if asked:
            one = random.randrange(len(asked))
            asked[one] = replace(asked[one], epoch=random.choice((None, 77)), priority=random.choice((None, 4, 5)))
        case 6 if asked:
            one = random.randrange(len(asked))
            asked[one] = replace(asked[one], id=None, index=random.choice((None, 1, 60)))
        case 7:
            rows[at] = replace(row, log_index=row.log_index + random.choice((-2, 2)))
        case 8:  # at both members
            change(run, row.kind, row.index, payload=random.choice((None, b"else")))
        case 9 if asked:
            one = random.randrange(len(asked))
            asked[one] = replace(asked[one], payload_crc32=random.choice((None, 77)))


def joined(runs: list[Run]) -> Run:
    """All of them as one."""
    whole = Run()
    for run in runs:
        whole.rows += run.rows
        whole.asked += run.asked
        whole.heads += run.heads
        whole.ends |= run.ends
    return whole


def frames(spark: Any, run: Run) -> tuple[Any, Any, Any]:
    """As the pipeline's tables: journal, history, heads."""
    rows = [
        {
            **asdict(row),
            "time": datetime.fromtimestamp(row.time_us / 1_000_000, UTC),
            "content_type": row.attributes.decode() if row.attributes else None,
        }
        for row in run.rows
    ]
    heads = [{"domain": "main", **asdict(head), "epoch": None} for head in run.heads]

    def table(found: list[dict[str, Any]], columns: Any) -> Any:
        return spark.createDataFrame(
            [tuple(each.get(c.name) for c in columns) for each in found], ddl(columns)
        ).persist()

    return table(rows, LAKE), table([asdict(asked) for asked in run.asked], HISTORY), table(heads, HEADS)
