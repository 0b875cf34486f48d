"""Judges what a client says it has seen: every message once, in order, with its own content; every acknowledgement for
what it was asked for. Pure: steps and reports in, `Wrong` out. It knows what a client has to be told.

The numbers of a queue's messages are 1, 2, 3 and so on; a message's payload is its number, and so is its index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.interop.script import Step

# What a client's lines begin with; other lines are noise of its language, and shown when it fails.
WORDS = ("sent", "acked", "message", "settled", "unit", "answer", "length", "facts", "refused", "repeated")

# What a client reads when it asks for two copies: the number of the status, the reason, and whether it is stored.
ASKED = {
    "sent": "sent {}",
    "stored": "refused 10 NOT_ENOUGH_COPIES stored",
    "refused": "refused 14 NOT_ENOUGH_COPIES -",
}


class Wrong(AssertionError):  # noqa: N818 - a verdict, not a fault
    """The client has seen, or done, what it should not have."""


@dataclass(slots=True)
class _Queue:
    """Numbers; settled <= taken <= sent, and what is between the first two is leased."""

    sent: int = 0
    taken: int = 0
    settled: int = 0


@dataclass(slots=True)
class Judge:
    """Of one run; `told` and then `judge` for each step."""

    run: str  # its queues are those of this run alone
    queues: dict[str, _Queue] = field(default_factory=lambda: defaultdict(_Queue))
    refused: bool = False  # the message that had to be on two copies, and was not stored

    @property
    def sent(self) -> int:
        return sum(queue.sent for queue in self.queues.values())

    @property
    def taken(self) -> int:
        return sum(queue.taken for queue in self.queues.values())

    def told(self, step: Step) -> str:
        """The step as the client is told it. What it has to find is not in it."""
        values, name = step.values, f"{self.run}/{step.values.get('queue')}"
        first = self.queues[values["queue"]].sent + 1 if "queue" in values else 0
        match step.verb:
            case "create":
                return f"create {name} QUEUE_TYPE_{values['type'].upper()}"
            case "send":
                return f"send {name} {first} {values['count']}"
            case "stream":
                return f"stream {name} {first} {values['count']} {values['batch']}"
            case "receive" | "consume":
                return f"{step.verb} {name} {values['count']}"
            case "expect":
                return f"length {name}"
            case "unit":
                return f"unit {name} {self.run}/{values['into']} {self.run}/{values['also']}"
            case "ask":
                return f"ask {name} {first} {values['copies']}"
            case verb:
                return f"{verb} {name}"

    def judge(self, step: Step, found: list[str]) -> None:
        """Raises Wrong."""
        values = step.values
        if step.verb == "decode":
            _same(found, [f"facts {values['facts']}"])
            return
        queue, count = self.queues[values["queue"]], int(values.get("count", 0))
        match step.verb:
            case "send":
                _same(found, [f"sent {queue.sent + n}" for n in range(1, count + 1)])
                queue.sent += count
            case "stream":
                _acked(found, queue.sent, count)
                queue.sent += count
            case "browse":
                _same(found, _messages(int(values["first"]), count))
            case "receive":
                _same(found, _messages(queue.taken + 1, count))
                queue.taken += count
            case "settle" | "consume":
                _same([line for line in found if not line.startswith("settled ")], _messages(queue.taken + 1, count))
                _settled(found, queue)
            case "unit":
                self._units(found, queue, [self.queues[values[each]] for each in ("into", "also")])
            case "reply":
                _same(found, [])
                queue.settled = queue.taken
            case "ask":
                _same(found, [ASKED[values["answer"]].format(queue.sent + 1)])
                self.refused = values["answer"] == "refused"
                queue.sent += not self.refused
            case "once":
                queue.sent += self.refused  # what is stored already keeps its place
                _same(found, [f"sent {queue.sent}"])
                self.refused = False
            case "answers":
                _same(found, [f"answer re:{n}" for n in range(1, count + 1)])
            case "expect":
                _same(found, [f"length {values['length']}"])
            case _:
                _same(found, [])

    @staticmethod
    def _units(found: list[str], queue: _Queue, entered: list[_Queue]) -> None:
        """Each that was taken is settled, once, and is followed by one message in each of two queues."""
        for number in range(queue.settled + 1, queue.taken + 1):
            for other in entered:
                other.sent += 1
            expected = " ".join(["unit", *map(str, [number, *(other.sent for other in entered)])])
            _same(found[:1], [expected])
            found = found[1:]
            queue.settled = number
        _same(found, [])


def _messages(first: int, count: int) -> list[str]:
    return [f"message {n} {n}" for n in range(first, first + count)]


def _same(found: list[str], expected: list[str]) -> None:
    for place in range(max(len(found), len(expected))):
        saw = repr(found[place]) if place < len(found) else "nothing"
        want = repr(expected[place]) if place < len(expected) else "nothing"
        if saw != want:
            raise Wrong(f"found {saw}, not {want}")


def _numbers(line: str, word: str, count: int) -> list[int]:
    first, *rest = line.split(" ")
    if first != word or len(rest) != count or not all(each.isdecimal() for each in rest):
        raise Wrong(f"found {line!r}, not {word} and {count} numbers")
    return [int(each) for each in rest]


def _acked(found: Iterable[str], base: int, count: int) -> None:
    """Every sequence of a stream, none before those below it; one may be acknowledged again after a break."""
    acked = 0
    for line in found:
        sequence, length, index = _numbers(line, "acked", 3)
        if index != base + sequence:
            raise Wrong(f"found {line!r}, not index {base + sequence}")
        if not 1 <= sequence <= acked + 1 or not length:
            raise Wrong(f"found {line!r} after sequence {acked}")
        acked = max(acked, sequence + length - 1)
    if acked != count:
        raise Wrong(f"found {acked} sequences acknowledged, not {count}")


def _settled(found: Iterable[str], queue: _Queue) -> None:
    """All that was taken, a part after the other, none before it was delivered."""
    for line in found:
        if line.startswith("message "):
            queue.taken += 1
            continue
        last, count = _numbers(line, "settled", 2)
        queue.settled += count
        if queue.settled != last or queue.settled > queue.taken:
            raise Wrong(f"found {line!r}, which makes {queue.settled} settled of {queue.taken} taken")
    if queue.settled != queue.taken:
        raise Wrong(f"found {queue.settled} settled of {queue.taken} taken")
