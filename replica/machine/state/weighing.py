"""What the state keeps of a macro queue that deals by a table of weights (M9): the share of each member, which moves in
steps, and what each has had of it. Whole numbers, so that both members of the pair reckon the same.

Members are served by their tags, as in start-time fair queuing: whoever is dealt a message goes back by one over its
share. A member that could take nothing for a while is served next, and not given all that it has missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from replica.machine.state.feature_rows import WeightTable

WHOLE = 1_000_000
"""All shares together, or nearly."""
STEP = WHOLE // 5
"""What a share changes by at most (CLIENTS, Routing weights): a wrong table does not move all messages at once."""
STEP_MS = 10_000
"""Between two steps, domain time: from one member to another in 50 s, well within the time that tables are valid."""
UNIT = 10**11
"""What a message costs a member that has all."""


@dataclass(slots=True)
class Weighing:
    version: int  # of the table that the shares go to
    until_ms: int  # domain time at which that table ends
    stepped_ms: int  # domain time
    shares: dict[int, int]  # parts of a million by queue; who is not in it has none
    tags: dict[int, int] = field(default_factory=dict)  # by queue; who is not in it, or is below the clock: the clock
    clock: int = 0  # where the last message was served that stood furthest back

    def charge(self, dealt: Iterable[tuple[int, int]]) -> None:
        """Queues and how many messages each has now of a batch."""
        began = self.clock
        for queue_id, count in dealt:
            if share := self.shares.get(queue_id, 0):
                cost = UNIT // share
                tag = max(self.tags.get(queue_id, 0), began) + count * cost
                self.tags[queue_id] = tag
                self.clock = max(self.clock, tag - cost)

    def forget(self, queue_id: int) -> None:
        """It is no member any more."""
        self.shares.pop(queue_id, None)
        self.tags.pop(queue_id, None)


def weighed(table: WeightTable, members: Collection[int], before: Weighing | None, time_ms: int) -> Weighing:
    """As it is at a domain time. The same object where no step is due: each version of the table is one, and ten
    seconds are.

    From live figures the shares begin at equal ones.
    """
    if before is not None and before.until_ms <= table.published_ms and before.version != table.version:
        before = None
    if before is not None and before.version == table.version and time_ms < before.stepped_ms + STEP_MS:
        return before
    wanted = targets(table, members)
    if before is None:
        shares = dict.fromkeys(members, WHOLE // len(members))
        tags: dict[int, int] = {}
    else:
        shares = before.shares
        tags = {each: tag - before.clock for each, tag in before.tags.items() if tag > before.clock}
    made = {each: _stepped(shares.get(each, 0), wanted.get(each, 0)) for each in members}
    return Weighing(table.version, table.valid_until_ms, time_ms, made, tags)


def targets(table: WeightTable, members: Collection[int]) -> dict[int, int]:
    """Shares of the members that the table gives any; empty: of none of them."""
    weights = {
        each: weight for each, weight in zip(table.queue_ids, table.weights, strict=True) if weight and each in members
    }
    total = sum(weights.values())
    return {each: max(1, int(weight * WHOLE / total)) for each, weight in weights.items()}


def _stepped(before: int, wanted: int) -> int:
    return min(max(wanted, before - STEP), before + STEP)
