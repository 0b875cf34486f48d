"""Says what a handle stands for and how far its message has come; changes nothing.

A handle is the domain (u32), the queue (u32) and the index (u64), big-endian: found without a table, valid at both
members, and never given again, as no queue's number is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from types import MappingProxyType
from typing import NamedTuple

from replica.machine.state.completions import CONSUMED, REPLIED
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

HANDLE_BYTES = 16
_PREFIX, _INDEX = struct.Struct(">II"), struct.Struct(">Q")


class MessageProgress(NamedTuple):
    """How far a message has come."""

    known: bool = False  # False: there is no such message, or what became of it is forgotten
    completion: common_pb2.Completion = common_pb2.COMPLETION_UNSPECIFIED
    final: service_pb2.FinalState = service_pb2.FINAL_STATE_UNSPECIFIED
    completed: bool = False  # nothing more will be told of it
    answer: int = 0  # log index of the record that answers it
    request: tuple[int, int] = (0, 0)  # that it answers: queue and index, which a reaction may have changed


_STORED = common_pb2.COMPLETION_STORED
_LEVELS = MappingProxyType({CONSUMED: common_pb2.COMPLETION_RECEIVED, REPLIED: common_pb2.COMPLETION_REPLIED})


def handle_prefix(domain: int, queue_id: int) -> bytes:
    """The first half of the handles of a queue."""
    return _PREFIX.pack(domain, queue_id)


def handle_of(prefix: bytes, index: int) -> bytes:
    return prefix + _INDEX.pack(index)


def is_tracked(queue: QueueState) -> bool:
    """Its type completes later than STORED."""
    return queue.completions is not None


def queue_asked(state: State, name: str, handles: Iterable[bytes]) -> int:
    """Number of the queue that handles are of, by its name or that of a macro queue that it is a member of. Refused
    where there is none, and where handles of several members come together: each member is asked by itself.
    """
    queue_id = state.ids.get(name)
    if queue_id is not None:
        return queue_id
    macro = state.macros.by_name.get(name)
    if macro is None:
        raise state.unnamed(name)
    found = {handle[: _PREFIX.size] for handle in handles if len(handle) == HANDLE_BYTES}
    numbers: set[int] = {number for domain, number in map(_PREFIX.unpack, found) if domain == state.domain}
    if len(numbers) == 1 and numbers <= macro.members.keys():
        return numbers.pop()
    text = f"{name} is a macro queue, and these handles are not of one of its members: ask for those of each by itself"
    raise Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": name})


def index_of(state: State, queue: QueueState, handle: bytes) -> int:
    """0: it is no handle of this queue."""
    if len(handle) != HANDLE_BYTES or handle[:8] != handle_prefix(state.domain, queue.queue_id):
        return 0
    (index,) = _INDEX.unpack_from(handle, 8)
    return index if index < queue.next_index else 0


def progress_of(state: State, queue: QueueState, handle: bytes) -> MessageProgress:
    """In a time that does not grow with what is outstanding."""
    index = index_of(state, queue, handle)
    if not index:
        return MessageProgress()
    completions = queue.completions
    if completions is None:
        return MessageProgress(True, _STORED, completed=True)
    final = completions.final_of(index)
    if final is None:
        return MessageProgress()
    if not final:
        return MessageProgress(True, _STORED)
    answer = completions.answer_of(index) if final == REPLIED else None
    level = _LEVELS.get(final, _STORED)
    if answer is None:
        return MessageProgress(True, level, final, True)
    return MessageProgress(True, level, final, True, answer.log_index, (queue.queue_id, answer.index))
