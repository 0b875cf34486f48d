"""Decides which step of a promotion follows which: one literal table, (step, what was found) -> step. Takes none.

Each step waits for the one before it (P6). Whatever goes wrong ends in PROBE, where everything is read again and a new
number is taken; nothing leads back into the old epoch, and only SERVING has an effect that anybody can see. The table
in docs/PROTOCOL.md is `render()`; `replica/core/mastership/claims.py` walks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from failover.register import SetOutcome


class Step(StrEnum):
    """How far a claim of mastership is."""

    READING = "reading"  # a ceded epoch: the register as it is now
    CLAIMING = "claiming"  # the claim is at the register
    STORING = "storing"  # own epoch and its first record are on their way to the disk
    COMMITTING = "committing"  # the commit is at the register
    SERVING = "serving"
    PROBE = "probe"

    @property
    def is_steady(self) -> bool:
        """Nothing is under way."""
        return self in (Step.SERVING, Step.PROBE)


class Found(StrEnum):
    """What became of a step."""

    DONE = "done"  # the register says so; read, for READING
    REFUSED = "refused"  # it says that the call was not made and never will be
    UNKNOWN = "unknown"  # no answer: the call may still land, at any time (P1)
    UNKNOWN_CEDED = "unknown, of a ceded epoch"  # the other member has promised never to use it (P15, P18)
    DURABLE = "durable"
    DURABLE_UNRECORDED = "durable, unrecorded"  # no register was asked, by P18 or an operator's word
    SYNC = "a valid SYNC of the peer"  # P12
    HIGHER_EPOCH = "a higher epoch elsewhere"  # P7, P13


S, F = Step, Found
TABLE: Mapping[tuple[Step, Found], tuple[Step, str]] = MappingProxyType(
    {
        (S.READING, F.DONE): (S.CLAIMING, "the number is still free and both members are eligible; else as refused"),
        (S.READING, F.REFUSED): (S.PROBE, "somebody has used the ceded number, or the set has changed"),
        (S.READING, F.UNKNOWN_CEDED): (S.STORING, "P18: a handoff needs no register, both members stay required"),
        (S.CLAIMING, F.DONE): (S.STORING, "the number is ours; nobody is served yet"),
        (S.CLAIMING, F.REFUSED): (S.PROBE, "P6: a new number next time"),
        (S.CLAIMING, F.UNKNOWN): (S.PROBE, "P1, P6: should it land, P7 tidies it"),
        (S.CLAIMING, F.UNKNOWN_CEDED): (S.STORING, "P18; should it land, P7 records another epoch"),
        (S.STORING, F.DURABLE): (S.COMMITTING, "own epoch and its first record survive a crash"),
        (S.STORING, F.DURABLE_UNRECORDED): (S.SERVING, "recorded by a new epoch once the register answers"),
        (S.COMMITTING, F.DONE): (S.SERVING, "P6: only this answer opens the gate"),
        (S.COMMITTING, F.REFUSED): (S.PROBE, "P6: the claim was replaced"),
        (S.COMMITTING, F.UNKNOWN): (S.PROBE, "P6: a timeout is not success; the number is spent"),
        (S.COMMITTING, F.UNKNOWN_CEDED): (S.SERVING, "P18: both members stay required"),
        **{(step, F.SYNC): (S.PROBE, "P12: the claim is given up and the peer followed") for step in Step},
        **{(step, F.HIGHER_EPOCH): (S.PROBE, "P7, P13: somebody is ahead; read again") for step in Step},
    }
)
DEADLINES: Mapping[Step, str] = MappingProxyType(
    {
        Step.READING: "one call of the authority, 1 s: then unknown",
        Step.CLAIMING: "one call of the authority, 1 s: then unknown",
        Step.STORING: "failover.stall_ms: then LOCAL_FAULT",
        Step.COMMITTING: "one call of the authority, 1 s: then unknown",
    }
)


def found_of(outcome: SetOutcome, *, ceded: bool) -> Found:
    """What a compare-and-set of a claim has come to; `ceded`: the old master has given the epoch to us, durably."""
    if outcome is SetOutcome.DONE:
        return Found.DONE
    if outcome is SetOutcome.REFUSED:
        return Found.REFUSED
    return Found.UNKNOWN_CEDED if ceded else Found.UNKNOWN


def follow(step: Step, found: Found) -> Step:
    """The next step. KeyError: what cannot be found in that step."""
    return TABLE[step, found][0]


def render() -> str:
    """Diagram, table and deadlines for docs/PROTOCOL.md."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> PROBE"]
    rows = [(step, found, *TABLE[step, found]) for step, found in TABLE if not step.is_steady]
    lines.append("    PROBE --> CLAIMING: the promotion table says CLAIM")
    lines.append("    PROBE --> STORING: an operator's word, no register")
    lines.append("    PROBE --> READING: a ceded epoch")
    lines += [f"    {step.name} --> {then.name}: {found.value}" for step, found, then, _ in rows]
    lines += ["    SERVING --> PROBE: P7, P13", "```", "", "| steps | found | next | why |", "|---|---|---|---|"]
    alike: dict[tuple[str, str, str], list[str]] = {}
    for step, found, then, why in rows:
        alike.setdefault((found.value, then.name, why), []).append(step.name)
    lines += [f"| {', '.join(steps)} | {' | '.join(row)} |" for row, steps in alike.items()]
    lines += ["", "| step | lasts at most |", "|---|---|"]
    lines += [f"| {step.name} | {limit} |" for step, limit in DEADLINES.items()]
    return "\n".join(lines) + "\n"
