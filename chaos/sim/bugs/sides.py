"""Bugs of the sides of queues with PRODUCER replication, and of what twins make; plants them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import replica.machine.apply.apply
import replica.machine.plan.selecting
import replica.node.sides
from chaos.sim.bugs.planting import Patch, bug
from chaos.sim.pair.sides import first_held
from replica.machine.plan.lease import choose
from replica.machine.plan.sides import Portion, passed_by, plan_passed
from replica.machine.state.selection import SelectedRun
from replica.machine.state.system_names import side_queue
from replica.node.sides import Sides
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.twin.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from replica.core.domain import Domain
    from replica.machine import QueueState
    from replica.machine.sets.ranges import Run
    from replica.machine.state.changes import Applied
    from replica.machine.state.segments import Part
    from replica.machine.state.state import State
    from tandemq.peer.v1.record_pb2 import RecordHeader
    from tandemq.twin.outputs import _Made

TWINS = "twins"
SOON_MS = 20


@bug("side-beyond-commit", "K2", "A side is given what its member has, committed or not.", TWINS)
def gives_all_it_has(patch: Patch) -> None:
    def next_given(of: QueueState, side: QueueState) -> Portion | None:
        count = of.given_end - side.next_index
        return Portion(side.next_index, count, count) if count > 0 else None

    patch.setattr(replica.node.sides, "next_given", next_given)


@bug("side-ahead-of-disk", "K6", "A member says that its side has passed what is on no disk yet.", TWINS, first=99)
def says_what_it_has_applied(patch: Patch) -> None:
    def passed(sides: Sides, domain: Domain, queue: QueueState) -> int:
        own = sides._serving()
        side = sides._side(sides.key(domain, queue), side_queue(queue.name)) if own is not None else None
        return passed_by(side) if side is not None else 0

    patch.setattr(Sides, "_passed", passed)
    patch.setattr(replica.node.sides, "MARK_MS", SOON_MS)
    patch.setattr(replica.node.sides, "LOOK_MS", SOON_MS)


@bug("side-faster-drops", "K6", "What one side has passed goes, though the other one lacks it.", TWINS)
def drops_for_the_faster(patch: Patch) -> None:
    def faster(state: State, now_ms: int, queue: QueueState, marks: Mapping[str, int]) -> RecordHeader | None:
        header = plan_passed(state, now_ms, queue, marks)
        if header is not None:
            until = max(min(max(marks.values()), queue.visible_end), *(queue.passed or {}).values())
            first = first_held(queue)
            if queue.selection is not None:
                del header.passed.gone_selected[:]
                for _, start, end in queue.selection.runs(first, until + 1):
                    header.passed.gone_selected.add(first=start, count=end - start)
            elif first <= until:
                header.passed.gone.first, header.passed.gone.count = first, until + 1 - first
        return header

    patch.setattr(replica.node.sides, "plan_passed", faster)


@bug("select-by-each-side", "K3", "Of what was selected each side takes the lowest index first.", TWINS, first=5)
def selects_by_each_side(patch: Patch) -> None:
    real = replica.node.sides._runs_of

    def runs_of(queue: QueueState, first: int, count: int) -> Iterable[SelectedRun]:
        order = queue.selection
        if order is None:
            return real(queue, first, count)
        known = order.runs(order.first, order.following)
        rest = sorted(index for _, start, end in known for index in range(start, end))
        wanted = rest[first - order.first :][:count]
        return [SelectedRun(first + at, index, index + 1) for at, index in enumerate(wanted)]

    patch.setattr(replica.node.sides, "_runs_of", runs_of)


@bug(
    "select-by-age", "K3", "The master selects the lowest index first, whatever has a higher priority.", TWINS, first=12
)
def selects_by_age(patch: Patch) -> None:
    def oldest(parts: Iterator[Part], time_ms: int, messages_max: int, bytes_max: int) -> list[Run]:
        return choose(iter(sorted(parts, key=lambda part: part.start)), time_ms, messages_max, bytes_max)

    patch.setattr(replica.machine.plan.selecting, "choose", oldest)


@bug("select-forgotten-by-takeover", "K3", "What no side has passed is selected anew by the next master.", TWINS)
def forgets_at_a_takeover(patch: Patch) -> None:
    real = replica.machine.apply.apply._role

    def role(state: State, time_ms: int) -> Applied:
        for queue in state.sided.values():
            if (order := queue.selection) is not None and order.lease_id:
                until = max((queue.passed or {"": 0}).values())
                for _, start, end in list(order.runs(until + 1, order.following)):
                    queue.leases[order.lease_id].ranges.remove(start, end)
                    queue.make_ready(start, end)
                cut_behind(state, queue, until)
        return real(state, time_ms)

    patch.setattr(replica.machine.apply.apply, "_role", role)


def cut_behind(state: State, queue: QueueState, until: int) -> None:
    """Of a selection, what comes behind that number."""
    order = queue.selection
    assert order is not None
    kept = max(0, until + 1 - order.first)
    del order._indexes[kept:]
    order._firsts[:] = array("Q", (number for number in order._firsts if number < order.following))
    records = sum(last <= until for last in order._lasts)
    del order._lasts[records:], order._logs[records:]
    order.visible = min(order.visible, until)
    if not kept:
        lease_id, order.lease_id = order.lease_id, 0
        del state.leases[lease_id], queue.leases[lease_id]
    state.touch([queue.queue_id])


@bug("twin-by-dedup-id", "K8", "Outputs of twins are known by a dedup id, which is forgotten.", TWINS)
def sends_by_dedup_id(patch: Patch) -> None:
    async def begin(outputs: Outputs, index: int, chain: int, sent: int) -> None:
        outputs.index, outputs.chain, outputs.sent, outputs.last = index, chain, sent, sent
        outputs._pending.clear()

    async def send(outputs: Outputs, unit: Sequence[_Made]) -> None:
        for each in unit:
            for place, (queue, payload, attributes) in enumerate(each.outputs):
                known: Attributes = {**attributes, "dedup_id": f"{each.index}/{place}"}
                await outputs._client.enqueue(queue, [Outgoing(payload, known)])  # type: ignore[attr-defined]  # a client
        outputs._forget(unit[-1].index)

    patch.setattr(Outputs, "begin", begin)
    patch.setattr(Outputs, "_send", send)
