"""Each rule of the handoff holds, and with the rule taken out its story fails (P15-P19, R135)."""

from __future__ import annotations

from typing import Any

import pytest

import failover.handoff as table
from failover.handoff import Action, Event, Row, State
from replica import ceding
from replica.handoff import Handoff
from replica.replication import Replication
from replica.sync_target import SyncTarget
from tests.support import handoff_stories as stories
from tests.test_rules import Rule, removed


def _without(patch: pytest.MonkeyPatch, *keys: tuple[State, Event]) -> None:
    """These rows lead nowhere."""
    for state, event in keys:
        patch.delitem(table.TABLE, (state, event))
        patch.setattr(table, "IGNORED", (*table.IGNORED, ((state,), (event,), "taken out")))


def ceded_is_no_promise(patch: pytest.MonkeyPatch) -> None:
    original = ceding.cede

    def cede(replication: Replication, epoch: int, token: object) -> None:
        before = replication.shared.state.promised_epoch
        original(replication, epoch, token)
        replication.shared.state.promised_epoch = before

    patch.setattr(ceding, "cede", cede)


def ack_before_the_write(patch: pytest.MonkeyPatch) -> None:
    row = Row(State.CEDING, (Action.CEDE, Action.SEND_ACK), "too early")
    patch.setitem(table.TABLE, (State.DRAINING, Event.DRAINED), row)


def doubt_has_no_way_out(patch: pytest.MonkeyPatch) -> None:
    _without(patch, (State.CEDING, Event.LINK_LOST), (State.CEDING, Event.DEADLINE))


def sync_is_not_done(patch: pytest.MonkeyPatch) -> None:
    _without(patch, (State.CEDING, Event.SYNC))


def no_handoff_without_the_register(patch: pytest.MonkeyPatch) -> None:
    original = ceding.on_read

    def on_read(replication: Replication, register: Any) -> None:
        if register is None:
            replication.to_probe("the register cannot be asked")
        else:
            original(replication, register)

    patch.setattr(ceding, "on_read", on_read)


def unrecorded_is_never_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replication, "_record", lambda _self, _register: None)


def recorded_from_probe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replication, "_record", lambda self, _register: self.to_probe("another record than ours"))


def alone_by_a_handoff(patch: pytest.MonkeyPatch) -> None:
    original = Replication.begin_unrecorded

    def begin(self: Replication, members: frozenset[str], reason: str, **options: Any) -> None:
        original(self, members & {self.shared.member}, reason, **options)

    patch.setattr(Replication, "begin_unrecorded", begin)


def crossing_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    original = Handoff._on_propose

    def on_propose(self: Handoff, propose: Any) -> None:
        if self.open is None:
            original(self, propose)

    patch.setattr(Handoff, "_on_propose", on_propose)


def abort_is_not_free(patch: pytest.MonkeyPatch) -> None:
    row = Row(State.MASTER, (Action.SEND_NACK, Action.FAIL), "does not resume")
    patch.setitem(table.TABLE, (State.DRAINING, Event.ABORT), row)


def a_named_copy_is_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SyncTarget, "counts", property(lambda self: self.opened))


RULES = (
    Rule("p15_ceded_is_promised", stories.same_number_by_handoff, ceded_is_no_promise, "two owners|second record"),
    Rule("p15_ack_after_the_write", stories.acknowledged_too_early, ack_before_the_write, "two owners|second record"),
    Rule("p16_in_doubt_is_probe", stories.in_doubt, doubt_has_no_way_out, "not a pair|still CEDING"),
    Rule("p17_the_sync_is_done", stories.done_is_the_sync, sync_is_not_done, "heard nothing"),
    Rule("p18_no_register_needed", stories.witness_is_away, no_handoff_without_the_register, "heard"),
    Rule("p18_recorded_later", stories.witness_is_away, unrecorded_is_never_recorded, "does not say that B|not a pair"),
    Rule("p18_role_stays", stories.witness_is_away, recorded_from_probe, "does not say that B|went back"),
    Rule("p18_both_required", stories.unrecorded_and_cut_off, alone_by_a_handoff, "A does not hold it"),
    Rule("p19_r135_replica_gives_way", stories.crossing, crossing_is_not_seen, "caller heard"),
    Rule("ruling1_both_count_at_once", stories.two_copies_from_the_first_message_on, a_named_copy_is_one, "both"),
    Rule("p19_abort_is_free", stories.taken_back, abort_is_not_free, "parked is not answered"),
)


@pytest.mark.parametrize("story", stories.ALL, ids=lambda story: story.__name__)
def test_story_ends_well(story: Any) -> None:
    story()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_story_fails_without_the_rule(rule: Rule) -> None:
    with removed(rule), pytest.raises(AssertionError, match=rule.breaks):
        rule.story()
