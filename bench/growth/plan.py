"""What is varied, and in which steps. Pure: values only.

A curve varies one thing. Each of its points has a pair of its own, all of them run at the same time, and the points
take turns: what others take from the machine meets every point alike. All points of a curve have had the same number of
messages before they are measured, so that depth is not mistaken for age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

KIB, MIB = 1 << 10, 1 << 20
UNANSWERED_MAX, BACKLOG_MAX, BYTES_MAX = 6400, 8000, 32 * MIB
BATCH_BYTES_MAX = 1 * MIB
CALLS_FILL = 10  # messages in one call, and so at least in one queue, when many queues are filled


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of everything; a turn sends so many messages, and receives and acknowledges as many."""

    label: str
    x: float
    turn: int
    depth: int = 0  # messages in the queue before a turn, and after it
    before: int = 0  # messages that have gone through the queue before it was filled
    size: int = KIB
    producers: int = 1  # and as many consumers, each with a connection of its own
    queues: int = 1  # with streams all but one only exist, with a message in each
    calls: bool = False  # unary, visiting the queues in turns; else streams of one queue
    through: str = "master"  # the member that clients talk to

    @property
    def batch(self) -> int:
        """Messages in a frame."""
        return max(1, min(100, BATCH_BYTES_MAX // self.size))

    @property
    def unanswered(self) -> int:
        """Most messages sent and not answered, over all producers."""
        return max(self.batch * self.producers, min(UNANSWERED_MAX, BYTES_MAX // self.size))

    @property
    def backlog(self) -> int:
        """Most messages of a turn that are sent and not received."""
        return max(2 * self.unanswered, min(BACKLOG_MAX, BYTES_MAX // self.size))


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    title: str
    axis: str
    points: tuple[Point, ...]
    flat: bool = False  # it is a target that the cost stays within 20 %


def depths(deepest: Sequence[int], size: int, turn: int, name: str, title: str) -> Curve:
    most = deepest[-1]
    points = tuple(Point(f"{depth:,}", depth, turn, depth=depth, before=most - depth, size=size) for depth in deepest)
    return Curve(name, title, "messages in the queue", points, flat=True)


def curves(*, deep: bool = False) -> tuple[Curve, ...]:
    """All of them; `deep` with ten million messages of 100 B."""
    shallow = (0, 100_000, 1_000_000)
    return (
        depths((0, 10_000, 100_000, 1_000_000), KIB, 40_000, "depth", "Cost per message against depth, 1 KiB"),
        depths(
            (*shallow, 10_000_000) if deep else shallow, 100, 200_000, "depth-small",
            "Cost per message against depth, 100 B",
        ),
        Curve(
            "queues",
            "Cost per message of one queue against how many there are, 1 KiB",
            "queues",
            tuple(Point(f"{count:,}", count, 40_000, queues=count) for count in (1, 100, 10_000)),
            flat=True,
        ),
        Curve(
            "queues-visited",
            "Cost per message by unary calls against the number of queues that they visit, 1 KiB",
            "queues",
            tuple(
                Point(f"{count:,}", count, 10_000, depth=100_000, queues=count, calls=True)
                for count in (1, 10, 100, 1_000, 10_000)
            ),
            flat=True,
        ),
        Curve(
            "producers",
            "Cost per message against producers, and as many consumers, 1 KiB",
            "producers, and as many consumers",
            tuple(Point(f"{count}", count, 40_000, producers=count) for count in (1, 8, 64)),
        ),
        Curve(
            "payload",
            "Cost per message against payload",
            "bytes of a payload",
            (
                Point("100 B", 100, 100_000, size=100),
                Point("1 KiB", KIB, 40_000),
                Point("16 KiB", 16 * KIB, 4_000, size=16 * KIB),
                Point("1 MiB", MIB, 100, size=MIB),
            ),
        ),
        Curve(
            "through",
            "Cost per message for clients of the master and clients of the replica, 1 KiB",
            "member that the clients talk to",
            (Point("master", 0, 30_000), Point("replica", 1, 30_000, through="replica")),
        ),
    )  # fmt: skip


def shrunk(curve: Curve, share: float) -> Curve:
    """The same with so much less of everything that is counted: to see that it runs."""

    def less(count: int, least: int) -> int:
        return min(count, max(least, round(count * share)))

    def less_of(point: Point) -> Point:
        queues = less(point.queues, 2)
        return replace(
            point,
            turn=less(point.turn, 2 * point.batch),
            depth=less(point.depth, CALLS_FILL * queues if point.calls else 1),
            before=less(point.before, 0),
            queues=queues,
        )

    return replace(curve, points=tuple(map(less_of, curve.points)))


OPEN_RATES = (1_000.0, 5_000.0, 20_000.0, 50_000.0)
FAULT_RATE = 5_000.0
