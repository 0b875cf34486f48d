"""Decides from what was seen whether twins kept their promises; it never talks to a manager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PASS, FAIL = "PASS", "FAIL"


class Fault(NamedTuple):
    """What was done, or seen, when."""

    at_s: float
    what: str
    member: str


class Sample(NamedTuple):
    """How far everybody was."""

    at_s: float
    sent: int
    """Inputs."""
    a: int
    """Inputs that are settled at member a, as of the last record of it."""
    b: int
    outputs: int
    """Of the queue that each input has an output for."""


@dataclass(slots=True)
class Watched:
    """Of one run."""

    inputs: int = 0
    order: list[int] = field(default_factory=list)
    """Inputs, by the number that they were sent as from 1, in the order in which the pair has selected them."""
    outputs: dict[str, list[bytes]] = field(default_factory=dict)
    """By queue, in order."""
    digests: dict[str, str] = field(default_factory=dict)
    """Of the last state, by member; missing: it did not end in order."""
    duplicate_attempts: int = 0
    divergences: int = 0
    differed_behind: int = 0
    """Input up to which the twins said that they had made the same; 0: none was compared, or nothing differed."""
    differed_up_to: int = 0
    """Input up to which they compared when they differed; 0: they did not."""
    kills: int = 0
    handoffs: int = 0
    absent_inputs: int = 0
    """That came while one twin was away."""
    faults: list[Fault] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


class TwinTotals(NamedTuple):
    """`build/demo/twin.json`."""

    inputs: int
    outputs: int
    outputs_expected: int
    duplicates: int
    duplicate_attempts: int
    digest_a: str
    digest_b: str
    digest_single: str
    order_breaks: int
    divergences: int
    first_difference: int
    """The first input of which the two make something else, by their programs over what was selected; 0: none."""
    differed_behind: int
    differed_up_to: int
    """The twins found it behind the one input and up to the other one; 0, 0: they found none."""
    kills: int
    handoffs: int
    absent_inputs: int
    overtakes: int
    longest_pause_ms: int
    verdict: str


def longest_pause_ms(samples: Sequence[Sample]) -> int:
    """The longest time without a new output while inputs waited for theirs."""
    longest, since_s, before = 0.0, 0.0, -1
    for sample in samples:
        if sample.outputs != before:
            since_s, before = sample.at_s, sample.outputs
        if sample.outputs < sample.sent:
            longest = max(longest, sample.at_s - since_s)
        else:
            since_s = sample.at_s
    return round(1000 * longest)


def priority_of(flight: bytes) -> int:
    """With which a flight is sent: cancelled ones first, then those that are an hour late."""
    delay = flight.decode().split(",")[5]
    if not delay.lstrip("-").isdigit():
        return 9
    return 7 if int(delay) >= 60 else 4


def unlawful(order: Sequence[int], priorities: Sequence[int]) -> int:
    """Inputs that are not there once, or come before an older one of their priority."""
    breaks = len(priorities) - len(set(order)) + len(order) - len(set(order))
    last: dict[int, int] = {}
    for number in order:
        priority = priorities[number - 1]
        breaks += number < last.get(priority, 0)
        last[priority] = max(number, last.get(priority, 0))
    return breaks


def overtakes_in(order: Sequence[int]) -> int:
    """Inputs that come after one that was sent later."""
    highest = found = 0
    for number in order:
        found += number < highest
        highest = max(highest, number)
    return found


def judge(
    watched: Watched,
    expected: Mapping[str, Sequence[bytes]],
    single: str,
    priorities: Sequence[int],
    *,
    unhurt: bool = False,
    first_difference: int = 0,
) -> TwinTotals:
    """`expected` outputs by queue and the digest `single` of the last state are those of one process over the file, in
    the order that was selected. `priorities`: of the inputs, in the order in which they were sent.
    `unhurt`: nothing was to be killed. `first_difference`: the first input of which the twins' programs do not make the
    same, 0 where both are one program.
    """
    duplicates, breaks = 0, unlawful(watched.order, priorities)
    overtakes = overtakes_in(watched.order)
    for queue, wanted in expected.items():
        found = watched.outputs.get(queue, [])
        duplicates += sum((Counter(found) - Counter(wanted)).values())
        breaks += sum(one != other for one, other in zip(found, wanted, strict=False))
    outputs, outputs_expected = sum(map(len, watched.outputs.values())), sum(map(len, expected.values()))
    digest_a, digest_b = watched.digests.get("a", ""), watched.digests.get("b", "")
    totals = TwinTotals(
        watched.inputs,
        outputs,
        outputs_expected,
        duplicates,
        watched.duplicate_attempts,
        digest_a,
        digest_b,
        single,
        breaks,
        watched.divergences,
        first_difference,
        watched.differed_behind,
        watched.differed_up_to,
        watched.kills,
        watched.handoffs,
        watched.absent_inputs,
        overtakes,
        longest_pause_ms(watched.samples),
        PASS,
    )
    return totals._replace(verdict=FAIL if findings(totals, unhurt=unhurt) else PASS)


def findings(totals: TwinTotals, *, unhurt: bool) -> list[str]:
    """What is wrong, in words; the last ones say that too little happened to show anything. `unhurt`: nothing was to be
    killed.
    """
    wrong: list[tuple[bool, str]] = [
        (totals.outputs != totals.outputs_expected, f"{totals.outputs:,} outputs, and not {totals.outputs_expected:,}"),
        (totals.duplicates > 0, f"{totals.duplicates:,} outputs stand twice"),
        (totals.order_breaks > 0, f"{totals.order_breaks:,} inputs or outputs stand out of order"),
        (totals.divergences > 0, f"the twins said {totals.divergences} times that they differ"),
        (
            not totals.digest_a == totals.digest_b == totals.digest_single,
            "the last states of a, b and of one process over the same inputs are not the same",
        ),
        (totals.duplicate_attempts == 0, "no output came from both: nothing shows that one of two was let in"),
        (totals.overtakes == 0, "no input overtook another one: nothing shows that both sides have one order"),
        (not unhurt and totals.kills == 0, "nothing was killed"),
        (not unhurt and totals.handoffs == 0, "no manager handed over"),
        (not unhurt and totals.absent_inputs == 0, "no input came while a twin was away"),
    ]
    found = [text for is_wrong, text in wrong if is_wrong]
    if any(is_wrong for is_wrong, _ in wrong[5:]) and not any(is_wrong for is_wrong, _ in wrong[:5]):
        found.append("nothing that was promised was broken; with more rows more happens")
    return found
