"""The queue machine: what is in the queues of a domain and what every operation does to them. Pure.

Start at `machine.Machine`; `state` holds, `plan_*` decide, `apply*` change, `views` and `snapshot` read.
"""

from replica.machine.columns import Columns, columns_of
from replica.machine.config import milliseconds
from replica.machine.dedup import DuplicateRun
from replica.machine.errors import Refused
from replica.machine.limits import Limits
from replica.machine.machine import Machine
from replica.machine.plan_enqueue import EnqueuePlan, Fresh, Repeated
from replica.machine.plan_settle import SettlePlan
from replica.machine.queue import Lease, QueueState
from replica.machine.requests import RequestAnswer, lease_id_of
from replica.machine.state import Applied
from replica.machine.views import SegmentSlice

__all__ = [
    "Applied",
    "Columns",
    "DuplicateRun",
    "EnqueuePlan",
    "Fresh",
    "Lease",
    "Limits",
    "Machine",
    "QueueState",
    "Refused",
    "Repeated",
    "RequestAnswer",
    "SegmentSlice",
    "SettlePlan",
    "columns_of",
    "lease_id_of",
    "milliseconds",
]
