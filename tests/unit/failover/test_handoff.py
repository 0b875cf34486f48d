"""The handoff table is complete, every state that is not steady ends, and the page shows the table as it is."""

from __future__ import annotations

import pytest

from failover.handoff import DEADLINES, IGNORED, TABLE, Action, HandoffEvent, HandoffRow, HandoffState, Ignored, lookup


@pytest.mark.parametrize("state", HandoffState)
@pytest.mark.parametrize("event", HandoffEvent)
def test_every_state_and_event_stands_exactly_once(state: HandoffState, event: HandoffEvent) -> None:
    found: list[object] = [row for key, row in TABLE.items() if key == (state, event)]
    found += [because for states, events, because in IGNORED if state in states and event in events]
    assert len(found) == 1, (state, event, found)
    result = lookup(state, event)
    assert (result.why if isinstance(result, HandoffRow) else result.because).strip()


@pytest.mark.parametrize("state", [state for state in HandoffState if not state.is_steady])
def test_every_state_that_is_not_steady_has_a_deadline_and_an_exit(state: HandoffState) -> None:
    assert DEADLINES[state].milliseconds > 0
    row = lookup(state, HandoffEvent.DEADLINE)
    assert isinstance(row, HandoffRow)
    assert row.state.is_steady
    assert {Action.FAIL, Action.IN_DOUBT} & set(row.actions), "its caller is told"


@pytest.mark.parametrize("state", [state for state in HandoffState if state.is_steady])
def test_a_steady_state_waits_for_nothing(state: HandoffState) -> None:
    assert isinstance(lookup(state, HandoffEvent.DEADLINE), Ignored)


def test_leaving_the_drain_without_ceding_resumes() -> None:
    for (state, event), row in TABLE.items():
        if state is HandoffState.DRAINING and row.state not in (HandoffState.DRAINING, HandoffState.CEDING):
            assert Action.RESUME in row.actions, event


def test_nothing_after_the_ceded_write_resumes_the_old_epoch() -> None:
    for (state, event), row in TABLE.items():
        if state is HandoffState.CEDING:
            assert row.state is not HandoffState.MASTER, event
            assert Action.RESUME not in row.actions, event


def test_the_ack_leaves_only_when_the_promise_is_durable() -> None:
    sends = [key for key, row in TABLE.items() if Action.SEND_ACK in row.actions]
    assert sends == [(HandoffState.CEDING, HandoffEvent.CEDED)]


def test_every_end_is_told_once() -> None:
    ends = {Action.DONE, Action.FAIL, Action.IN_DOUBT}
    for (state, event), row in TABLE.items():
        told = [action for action in row.actions if action in ends]
        if not state.is_steady and row.state.is_steady:
            assert len(told) == 1, (state, event)


def test_only_a_drain_leads_to_ceding_and_only_an_ack_to_taking() -> None:
    entries = {row.state: (state, event) for (state, event), row in TABLE.items() if row.state is not state}
    assert entries[HandoffState.CEDING] == (HandoffState.DRAINING, HandoffEvent.DRAINED)
    assert entries[HandoffState.TAKING] == (HandoffState.READY, HandoffEvent.ACK)
