"""Calls an operator and waits; it never says who lives. The answer comes by `tandemq pair decide`, outside of it.

Safety class C in status: as good as the human who decides.
"""

from __future__ import annotations

import logging

from failover.classifier import Answer, Event, EventKind, Outcome, SafetyClass, Verdict, by_authority

log = logging.getLogger("tandemq.operator")


class OperatorAlert:
    """Shipped: `operator`. One alert for each loss, at level error; asked about it again, there is no second one."""

    name = "operator"
    safety = SafetyClass.C

    def __init__(self, endpoint: str = "") -> None:
        self.endpoint = endpoint
        self._alerted: tuple[EventKind, int] | None = None

    async def classify(self, event: Event) -> Answer:
        """Always WAIT, with the command to type as the reason."""
        text = self.text(event)
        about = (event.kind, event.link_generation)
        if self._alerted != about:
            self._alerted = about
            log.error("%s", text, extra={"event_id": event.event_id})
        return Answer(event.event_id, event.link_generation, Verdict.WAIT, text, by=self.name)

    def text(self, event: Event) -> str:
        """What happened, what to make sure of, and exactly what to type."""
        domains = ", ".join(part.name for part in event.domains)
        target = f" --target {self.endpoint}" if self.endpoint else ""
        word = "continue" if event.is_master else "assume"
        wanted = by_authority(event)
        what = f"{event.kind.value} in {event.pair} at {event.member} (domains {domains})"
        if wanted is Verdict.WAIT:
            return f"{what}: this copy may lack acknowledged operations and is not promoted; bring {event.peer} back"
        return (
            f"{what}: an operator must decide. Make sure that {event.peer} is down and stays down, and that it has not "
            f"served alone since the link broke, then type: tandemq pair decide {word} --event {event.event_id} "
            f'--reason "..."{target}'
        )

    async def preflight(self) -> list[str]:
        """Always ready."""
        return []

    async def report(self, outcome: Outcome) -> None:
        """Nothing to learn."""
