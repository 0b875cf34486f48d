"""Judges twins by what they have said of themselves in the pair's queues; asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandemq.cli.doctor.finding import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandemq.twin.looking import SeenTwin, SeenTwins

TWINS = Check("twins", "two processes that do the same, each at its own member, are there so that either may die")
PAGE = "docs/TWINS.md"


def twins(seen: SeenTwins) -> list[Finding]:
    """Of one name: what differed, and whether both stand where the other one may have to go on."""
    about = f"twins {seen.name}"
    found = [finding for finding in (_differed(seen, about), _apart(seen.twins, about)) if finding is not None]
    found += [_away(seen, twin, about) for twin in seen.twins if not twin.running]
    if not found:
        text = f"both run, and have sent what they made of inputs up to {seen.sent:,}"
        found.append(TWINS.ok(about, text, sent=seen.sent))
    return found


def _differed(seen: SeenTwins, about: str) -> Finding | None:
    if not seen.differences:
        return None
    last = seen.differences[-1]
    text = (
        f"the twin at {last['member']} differed up to input {last['number']}: {last['own']} there, and {last['other']} "
        f"of the one that came first{last['where']}"
    )
    step = f"mend the handler, remove the directory of the one that differed, start it; {PAGE}, What differs"
    return TWINS.fail(about, text, step, member=str(last["member"]), number=int(last["number"]))


def _apart(twins: Sequence[SeenTwin], about: str) -> Finding | None:
    """Both on one host die together, though each takes the side of its own member."""
    hosts = {twin.host for twin in twins if twin.running}
    if sum(twin.running for twin in twins) < 2 or len(hosts) > 1 or not any(hosts):
        return None
    (host,) = hosts
    text = f"both run on host {host}: what takes that takes both"
    return TWINS.warn(about, text, "run each on the host of its member, or on one of its own", host=host)


def _away(seen: SeenTwins, twin: SeenTwin, about: str) -> Finding:
    """No process takes the side of that member."""
    other = next((each.member for each in seen.twins if each.running), "")
    text = f"none runs at {twin.member}, {twin.behind:,} inputs are not settled there"
    text += f"; if the one at {other} dies, nobody works" if other else ", and none anywhere"
    step = f"`tandemq twin run ... --name {seen.name} --inputs {seen.inputs}` at {twin.member}; {PAGE}, Running both"
    return TWINS.warn(about, text, step, member=twin.member, behind=twin.behind)
