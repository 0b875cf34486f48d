"""The words of the first design: options, states, return values, structures, and how a TimeToBlock is read.

It talks to nobody. Values are those of our contract where it has the same word.
"""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from typing import NamedTuple

from tandemq.client.completion import WAIT_SLICE
from tandemq.errors import InvalidRequest
from tandemq.v1 import queue_admin_service_pb2 as admin

__all__ = [
    "FOREVER",
    "QUEUE_STATE",
    "WAIT_SLICE",
    "Actual_Queue_Stats",
    "Queue_Manager_Consumer_Options",
    "Queue_Manager_Model",
    "Queue_Manager_Producer_Options",
    "Queue_Manager_Queue_Relationship",
    "Queue_Manager_Stats",
    "Queue_Type",
    "RTNval",
    "Replicated_Queue_Stats",
    "Time",
    "state_of",
    "timestruc_t",
    "wait_of",
]

FOREVER = -1
"""A TimeToBlock that has no end."""
_WAIT_NS_MAX = timedelta(days=3_650) // timedelta(microseconds=1) * 1_000


class timestruc_t(NamedTuple):
    """A time of seconds and nanoseconds, as the first design writes waits (R023)."""

    tv_sec: int
    tv_nsec: int = 0


Time = int | timestruc_t
"""A TimeToBlock, how long a call may wait: -1 for ever, 0 not at all, else nanoseconds, or a timestruc_t."""


def wait_of(time_to_block: Time) -> timedelta | None:
    """None: for ever. Rounded up to the next microsecond: no wait is shorter than was asked for, and none is lost."""
    if isinstance(time_to_block, timestruc_t):
        if not 0 <= time_to_block.tv_nsec < 1_000_000_000:
            raise InvalidRequest(
                "BAD_REQUEST", f"tv_nsec is 0 to 999999999, not {time_to_block.tv_nsec}", definite=True
            )
        time_to_block = time_to_block.tv_sec * 1_000_000_000 + time_to_block.tv_nsec
    if time_to_block == FOREVER:
        return None
    if not 0 <= time_to_block <= _WAIT_NS_MAX:
        text = f"TimeToBlock is -1 (for ever), 0 (not at all) or nanoseconds up to ten years, not {time_to_block}"
        raise InvalidRequest("BAD_REQUEST", text, definite=True)
    return timedelta(microseconds=-(-time_to_block // 1_000))


class Queue_Type(IntEnum):
    """What CreateQInstance makes (Table 4)."""

    Actual = 1
    Remote_Proxy = 2


class Queue_Manager_Model(IntEnum):
    """The queuing model (Table 1): when the handle of a sent message completes (R015-R018)."""

    One_Way = admin.QUEUE_TYPE_ONE_WAY
    One_Way_Acknowledged = admin.QUEUE_TYPE_ONE_WAY_ACK
    One_Way_Queued_Acknowledged = admin.QUEUE_TYPE_ONE_WAY_QUEUED_ACK
    Two_Way = admin.QUEUE_TYPE_TWO_WAY


class Queue_Manager_Queue_Relationship(IntEnum):
    """Of a remote proxy or a macro queue (Table 1)."""

    Consumer = 1
    Producer = 2


class Queue_Manager_Consumer_Options(IntEnum):
    """Of a macro queue: which member is served (Tables 1 and 9)."""

    Prioritized = 1
    Chronologically = 2


class Queue_Manager_Producer_Options(IntEnum):
    """Of a macro queue: which member gets a message (Tables 1 and 9)."""

    First_Available = 1
    Duplicate = 2
    Fastest_Response = 3
    Round_Robin = 4


class QUEUE_STATE(IntEnum):
    """The states of a queue and of a manager, in the order in which the first design lists them (R092)."""

    UNKNOWN = 0
    CONFIGURING = 1
    CONFIGURED = 2
    OPENING = 3
    OPEN = 4
    CLOSING = 5
    CLOSED = 6
    FAILED = 7


def state_of(state: admin.QueueState) -> QUEUE_STATE:
    """From the contract's number."""
    name = admin.QueueState.Name(state).removeprefix("QUEUE_STATE_")
    return QUEUE_STATE.__members__.get(name, QUEUE_STATE.UNKNOWN)


class RTNval(IntEnum):
    """What CheckMessageCompletion returns (Table 8, R025)."""

    RTNvalFalse = 0
    RTNvalTrue = 1
    RTNvalInvalid_Handle = 2


class Queue_Manager_Stats(NamedTuple):
    """What QueueStats of a manager returns (Table 4, R043)."""

    state: QUEUE_STATE
    NumMacroQueues: int
    NumMessageQueues: int
    NumRemoteClients: int


class Actual_Queue_Stats(NamedTuple):
    """What GetStats of a queue returns (Table 6, R048)."""

    state: QUEUE_STATE
    Current_Messages_Queued: int
    Total_Messages_Queued: int
    Average_Queue_Process_Time: int  # nanoseconds from delivery to settlement
    Highest_Queue_Depth: int
    Configured_Queue_Depth: int
    Number_Of_Remote_Clients: int
    Number_Of_Consumer_Clients: int
    Number_Of_Producer_Clients: int


class Replicated_Queue_Stats(NamedTuple):
    """What QueueStats of a replicated queue returns (Table 12, R126), as the member sees it that is asked."""

    state: QUEUE_STATE
    Replication_State: str  # of this member's copy: IN_SYNC, SYNCING, STALE, SOLE...
    Master_Status: bool  # this member is the master
    Total_Messages_Queued: int
    Current_Messages_Queued: int
    Highest_Queue_Depth: int
    Configured_Queue_Depth: int
    Average_Queue_Process_Time: int  # nanoseconds
    Number_Of_Local_Clients: int
    Number_Of_Remote_Clients: int
    Number_Of_Consumer_Clients: int
    Number_Of_Producer_Clients: int
