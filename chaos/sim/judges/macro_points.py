"""Names what a campaign over macro queues must meet, and what clients and judges of them both speak of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MACRO = "macro"
"""Kind of a book whose queue is a macro queue: what was received from it is in the books of its members."""
RANKED = "ranked"
"""Kind of a member whose messages have priorities."""
BLOCKED = "a member that gives nothing holds up no other"
"""The rule that a client reports."""
EXPECTED = frozenset({"QUEUE_FULL", "ENQUEUE_DISABLED"})
"""Refusals that whoever sends to a macro queue must expect: it waits for no room."""

OVER_TAKEOVER = "a macro queue's turn went on after a takeover"
REPEATED = "a dealt batch repeated after its answer, at either member"
COPIES = "a message entered every member of a macro queue"
PASSED_FULL = "a full member passed over"
PASSED_CLOSED = "a closed member passed over by what was sent"
SERVED_BESIDE_CLOSED = "a macro queue gave something while a member was closed"
SETTLED_AT_MACRO = "settled by the name of a macro queue"
CHANGED = "a macro queue changed while it was used"
WEIGHED = "a macro queue dealt by a table of weights"
UNWEIGHED = "a table of weights ended, and the policy dealt again"

SENDING = (
    *("FIRST_AVAILABLE", "ROUND_ROBIN", "SHORTEST_QUEUE", "FASTEST_RESPONSE", "BY_GROUP"),
    *("DUPLICATE", "DUPLICATE_BEST_EFFORT"),
)
GIVING = ("PRIORITIZED", "FIRST_AVAILABLE", "CHRONOLOGICAL", "MESSAGE_PRIORITY", "ROUND_ROBIN")


def used(policy: str, *, producer: bool) -> str:
    """The point that a policy was met."""
    return f"a macro queue {'dealt' if producer else 'gave'} by {policy}"


POINTS: Mapping[str, str] = MappingProxyType(
    {
        OVER_TAKEOVER: "M3: from where it was, at the next master",
        REPEATED: "M2: and got the first answer",
        COPIES: "M4: by one record",
        PASSED_FULL: "M2: the next one took it",
        PASSED_CLOSED: "M2: the others took it",
        SERVED_BESIDE_CLOSED: "M5: the others gave",
        SETTLED_AT_MACRO: "M6: the member that held the lease settled it",
        CHANGED: "M1: a member left it, or joined it",
        WEIGHED: "M9: while it was valid",
        UNWEIGHED: "M9: at its end, by the record's time",
        **{used(policy, producer=True): "M2: and a model agrees" for policy in SENDING},
        **{used(policy, producer=False): "M5: and a model agrees" for policy in GIVING},
    }
)
"""What a campaign of the profile must meet."""
