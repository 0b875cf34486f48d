"""Keeps the tables of routing weights of a domain: decides which may be published, and does what a record says of them.
They move no message; whoever routes reads them (proto/tandemq/v1/weights_service.proto says how).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from replica.machine.sets.packing import bytes_of, column_of
from replica.machine.state import config as rules
from replica.machine.state.errors import Refused
from replica.machine.state.feature_rows import WeightTable, Window
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2

WEIGHT_MAX = 1_000_000.0
"""So that no sum of them leaves the numbers; shares and counts of workers are far below."""
VALID_MS_MAX = 7 * 86_400_000
"""What nobody has renewed for a week describes another week."""
PUBLISHER_BYTES_MAX = 255
TIME_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, where the times of the wire end."""


class TableAsOf(NamedTuple):
    """A table, as it is at this domain time."""

    table: WeightTable
    time_ms: int
    queues: tuple[tuple[str, float], ...]
    """By name; a queue that was deleted since, or made anew, has no weight. None of them in a list of tables."""

    @property
    def left_ms(self) -> int:
        """How much longer it may be used; 0: it is expired."""
        return max(0, self.table.valid_until_ms - self.time_ms)


@dataclass(frozen=True, slots=True)
class PublishWeightsCall:
    name: str
    weights: Sequence[tuple[str, float]]  # by queue or alias
    valid_until_ms: int  # 0: see valid_ms
    valid_ms: int  # from when it is ordered
    expected_version: int | None  # None: any; 0: only where there is none
    published_by: str
    window: Window
    request_id: bytes
    request_hash: int


@dataclass(frozen=True, slots=True)
class DeleteWeightsCall:
    name: str
    expected_version: int | None
    request_id: bytes
    request_hash: int


def named_table(state: State, name: str) -> WeightTable:
    table = state.weights.get(name)
    if table is None:
        text = f"there is no table of weights {name!r}: publish it first, or list those that are there"
        raise Refused(common_pb2.REASON_WEIGHTS_NOT_FOUND, text, {"table": name})
    return table


def plan_publish_weights(state: State, now_ms: int, call: PublishWeightsCall) -> record_pb2.RecordHeader:
    rules.check_name(call.name, state.limits, what="name of a table of weights")
    known = state.weights.get(call.name)
    _check_version(call.name, known.version if known is not None else 0, call.expected_version)
    if known is None and len(state.weights) >= state.limits.weight_tables_max:
        text = f"there are {len(state.weights)} tables of weights, which is the most there may be; delete one"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(state.limits.weight_tables_max)})
    if len(call.published_by.encode()) > PUBLISHER_BYTES_MAX:
        raise _bad(call.name, f"published_by has more than {PUBLISHER_BYTES_MAX} bytes: shorten it")
    time_ms = state.at(now_ms)
    op = record_pb2.WeightsOp(
        action=record_pb2.WEIGHTS_ACTION_PUBLISH,
        name=call.name,
        version=state.weights_version + 1,
        valid_until_ms=_valid_until(call, time_ms),
        published_by=call.published_by,
    )
    op.computed_from_ms, op.computed_until_ms = _checked_window(call)
    for queue_id, weight in _checked_weights(state, call).items():
        op.queue_ids.append(queue_id)
        op.weights.append(weight)
    return record_pb2.RecordHeader(
        time_ms=time_ms, request_id=call.request_id, request_hash=call.request_hash, weights=op
    )


def plan_delete_weights(state: State, now_ms: int, call: DeleteWeightsCall) -> record_pb2.RecordHeader:
    _check_version(call.name, named_table(state, call.name).version, call.expected_version)
    op = record_pb2.WeightsOp(action=record_pb2.WEIGHTS_ACTION_DELETE, name=call.name)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, weights=op
    )


def _check_version(name: str, version: int, expected: int | None) -> None:
    """A publisher that has computed for long must not take the place of what came meanwhile."""
    if expected is None or expected == version:
        return
    there = f"has version {version}" if version else "is not there"
    wanted = f"version {expected}" if expected else "none"
    text = f"table of weights {name} {there}, and {wanted} was expected: read it again, and compute anew from there"
    raise Refused(common_pb2.REASON_VERSION_MISMATCH, text, {"table": name, "version": str(version)})


def _bad(name: str, text: str, queue: str = "") -> Refused:
    facts = {"table": name} | ({"queue": queue} if queue else {})
    return Refused(common_pb2.REASON_BAD_WEIGHTS, f"table of weights {name}: {text}", facts)


def _valid_until(call: PublishWeightsCall, time_ms: int) -> int:
    days = VALID_MS_MAX // 86_400_000
    if not call.valid_until_ms:
        if not 0 < call.valid_ms <= VALID_MS_MAX:
            raise _bad(call.name, f"it is valid for {call.valid_ms} ms; say for how long it is: 1 ms to {days} days")
        return time_ms + call.valid_ms
    ahead_ms = call.valid_until_ms - time_ms
    if ahead_ms <= 0:
        raise _bad(call.name, f"valid_until was {-ahead_ms} ms ago: compute it from newer records, or for longer")
    if ahead_ms > VALID_MS_MAX:
        raise _bad(call.name, f"valid_until is {ahead_ms} ms ahead; it may be up to {days} days")
    return call.valid_until_ms


def _checked_window(call: PublishWeightsCall) -> Window:
    window = call.window
    if not 0 <= window.from_ms <= window.until_ms <= TIME_MS_MAX or all(window) != any(window):
        text = "it is computed from a window that ends before it begins, or has one end only: give both, or none"
        raise _bad(call.name, text)
    return window


def _checked_weights(state: State, call: PublishWeightsCall) -> dict[int, float]:
    """By number of the queue. One that is not there is refused: a slip of the pen would get a share and no message."""
    limit = state.limits.weights_max
    if not 0 < len(call.weights) <= limit:
        raise _bad(call.name, f"it has {len(call.weights)} weights, and may have 1 to {limit:,}")
    found: dict[int, float] = {}
    for name, weight in call.weights:
        if not 0 <= weight <= WEIGHT_MAX:  # NaN is neither
            text = f"the weight of queue {name} is {weight}; it may be from 0 to {WEIGHT_MAX:,.0f}"
            raise _bad(call.name, text, name)
        queue_id = state.ids.get(name)
        if queue_id is None:
            text = f"table of weights {call.name}: there is no queue {name!r} in this domain; leave it out or create it"
            raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, {"table": call.name, "queue": name})
        if queue_id in found:
            raise _bad(call.name, f"queue {name} stands in it twice, perhaps by an alias: give it one weight", name)
        found[queue_id] = weight + 0.0  # of a minus nothing, nothing
    if not any(found.values()):
        raise _bad(call.name, "all weights are 0, which leaves no queue to route to: give one of them more")
    return found


def apply_weights(state: State, time_ms: int, op: record_pb2.WeightsOp) -> None:
    if op.action == record_pb2.WEIGHTS_ACTION_DELETE:
        del state.weights[op.name]
        if (macro := state.macros.by_name.get(op.name)) is not None:
            macro.weighing = None  # it goes by live figures, and shares that come begin where those leave it
        return
    assert op.action == record_pb2.WEIGHTS_ACTION_PUBLISH, "an action without a meaning"
    assert op.version == state.weights_version + 1, "a version is given once, and none is left out"
    assert len(op.queue_ids) == len(op.weights), "one weight a queue"
    state.weights_version = op.version
    state.weights[op.name] = WeightTable(
        op.name,
        op.version,
        array("I", op.queue_ids),
        array("d", op.weights),
        op.valid_until_ms,
        op.published_by,
        time_ms,
        Window(op.computed_from_ms, op.computed_until_ms),
    )


class WeightRow(msgspec.Struct, array_like=True):
    """As it stands in a snapshot."""

    name: str
    version: int
    queue_ids: bytes
    weights: bytes
    valid_until_ms: int
    published_by: str
    published_ms: int
    from_ms: int
    until_ms: int


def weight_rows(state: State) -> list[WeightRow]:
    return [
        WeightRow(
            name,
            table.version,
            bytes_of(array("I", table.queue_ids)),
            bytes_of(array("d", table.weights)),
            table.valid_until_ms,
            table.published_by,
            table.published_ms,
            *table.window,
        )
        for name, table in sorted(state.weights.items())
    ]


def weights_of(rows: Sequence[WeightRow]) -> dict[str, WeightTable]:
    return {
        row.name: WeightTable(
            row.name,
            row.version,
            column_of("I", row.queue_ids),
            column_of("d", row.weights),
            row.valid_until_ms,
            row.published_by,
            row.published_ms,
            Window(row.from_ms, row.until_ms),
        )
        for row in rows
    }


def table_as_of(state: State, now_ms: int, name: str) -> TableAsOf:
    """Expired ones too. Refused (WEIGHTS_NOT_FOUND) when it is not there."""
    table, queues = named_table(state, name), state.queues
    pairs = zip(table.queue_ids, table.weights, strict=True)
    named = sorted((queues[queue_id].name, weight) for queue_id, weight in pairs if queue_id in queues)
    return TableAsOf(table, state.at(now_ms), tuple(named))


def all_weights(state: State, now_ms: int) -> list[TableAsOf]:
    """By name, expired ones too."""
    time_ms = state.at(now_ms)
    return [TableAsOf(table, time_ms, ()) for _, table in sorted(state.weights.items())]
