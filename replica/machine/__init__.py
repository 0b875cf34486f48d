"""The queues of a domain and what every operation does to them; it never touches the world.

Start at `machine.Machine`; `state` holds, `plan` decides, `apply` changes, `views` and `rows` read.
"""

from replica.machine.features.batches import AckBatchCall, BatchCall
from replica.machine.features.macros import MacroCall, ShownMacro
from replica.machine.features.proxies import ProxyCall
from replica.machine.features.readers import AdvanceCall, ForgetCall, RegisterCall
from replica.machine.features.rights import RightCall
from replica.machine.features.weights import DeleteWeightsCall, PublishWeightsCall, TableAsOf
from replica.machine.machine import Machine
from replica.machine.plan.columns import Columns, columns_of
from replica.machine.plan.copies import CopyCall
from replica.machine.plan.enqueue import EnqueueCall, EnqueuePlan, Fresh, Repeated
from replica.machine.plan.lease import LeaseCall, Narrower, deliverable, immediate_problem
from replica.machine.plan.move import MoveCall, RemoveCall, ranges_of
from replica.machine.plan.names import AliasCall, DefaultsCall
from replica.machine.plan.queue import QueueCall
from replica.machine.plan.reply import ReplyCall
from replica.machine.plan.save import Bodies, SaveLimits, SavePlan
from replica.machine.plan.settle import SettleCall, SettlePlan
from replica.machine.plan.stage import PublishCall, StageCall
from replica.machine.plan.unit import QueuePut, QueueSettling, UnitCall
from replica.machine.plan.unit_identity import UnitIdentity
from replica.machine.state.changes import Applied
from replica.machine.state.config import milliseconds
from replica.machine.state.dedup import DuplicateRun
from replica.machine.state.errors import Refused, disabled
from replica.machine.state.feature_rows import NumberedBatch, Reader, ReaderPlace, Window
from replica.machine.state.handles import HANDLE_BYTES, MessageProgress, handle_of, handle_prefix
from replica.machine.state.limits import Limits
from replica.machine.state.proxies import PROXY_TARGET
from replica.machine.state.queue import Lease, QueueState, Totals
from replica.machine.state.requests import RequestAnswer, lease_id_of
from replica.machine.state.segments import Part
from replica.machine.state.stages import Placed
from replica.machine.statistics import Sums
from replica.machine.views import SegmentSlice

__all__ = [
    "HANDLE_BYTES",
    "PROXY_TARGET",
    "AckBatchCall",
    "AdvanceCall",
    "AliasCall",
    "Applied",
    "BatchCall",
    "Bodies",
    "Columns",
    "CopyCall",
    "DefaultsCall",
    "DeleteWeightsCall",
    "DuplicateRun",
    "EnqueueCall",
    "EnqueuePlan",
    "ForgetCall",
    "Fresh",
    "Lease",
    "LeaseCall",
    "Limits",
    "Machine",
    "MacroCall",
    "MessageProgress",
    "MoveCall",
    "Narrower",
    "NumberedBatch",
    "Part",
    "Placed",
    "ProxyCall",
    "PublishCall",
    "PublishWeightsCall",
    "QueueCall",
    "QueuePut",
    "QueueSettling",
    "QueueState",
    "Reader",
    "ReaderPlace",
    "Refused",
    "RegisterCall",
    "RemoveCall",
    "Repeated",
    "ReplyCall",
    "RequestAnswer",
    "RightCall",
    "SaveLimits",
    "SavePlan",
    "SegmentSlice",
    "SettleCall",
    "SettlePlan",
    "ShownMacro",
    "StageCall",
    "Sums",
    "TableAsOf",
    "Totals",
    "UnitCall",
    "UnitIdentity",
    "Window",
    "columns_of",
    "deliverable",
    "disabled",
    "handle_of",
    "handle_prefix",
    "immediate_problem",
    "lease_id_of",
    "milliseconds",
    "ranges_of",
]
