"""Each rule of the handoff is worth something: with the rule taken out, its text script fails (P15-P19, R135)."""

from __future__ import annotations

from typing import Any

import pytest

import failover.handoff as table
from chaos.sim.bugs.handoffs import (
    ack_before_the_write,
    alone_by_a_handoff,
    ceded_is_no_promise,
    doubt_has_no_way_out,
    unrecorded_is_never_recorded,
)
from chaos.sim.bugs.planting import Patch
from failover.handoff import Action, HandoffEvent, HandoffRow, HandoffState
from replica.core.handoff.handoff import Handoff
from replica.core.mastership.claims import Claims
from replica.core.mastership.commit_rule import CommitRule
from replica.core.replication.sync_target import SyncTarget
from tests.support.asking import told
from tests.test_rules import Rule, removed


def without(patch: Patch, *keys: tuple[HandoffState, HandoffEvent]) -> None:
    """These rows lead nowhere."""
    for state, event in keys:
        patch.setattr(table, "TABLE", {at: row for at, row in table.TABLE.items() if at != (state, event)})
        patch.setattr(table, "IGNORED", (*table.IGNORED, ((state,), (event,), "taken out")))


def sync_is_not_done(patch: Patch) -> None:
    without(patch, (HandoffState.CEDING, HandoffEvent.SYNC))


def no_handoff_without_the_register(patch: Patch) -> None:
    original = Claims.on_ceded_read

    def claim_ceded(self: Claims, register: Any) -> None:
        if register is None:
            self.role.become_probe("the register cannot be asked")
        else:
            original(self, register)

    patch.setattr(Claims, "on_ceded_read", claim_ceded)


def recorded_from_probe(patch: Patch) -> None:
    patch.setattr(Claims, "record", lambda self, _register: self.role.become_probe("another record than ours"))


def crossing_is_not_seen(patch: Patch) -> None:
    original = Handoff.on_propose

    def on_propose(self: Handoff, propose: Any) -> None:
        if self.open is None:
            original(self, propose)

    patch.setattr(Handoff, "on_propose", on_propose)


def abort_is_not_free(patch: Patch) -> None:
    row = HandoffRow(HandoffState.MASTER, (Action.SEND_NACK, Action.FAIL), "does not resume")
    patch.setattr(table, "TABLE", {**table.TABLE, (HandoffState.DRAINING, HandoffEvent.ABORT): row})


def a_named_copy_is_one(patch: Patch) -> None:
    patch.setattr(SyncTarget, "counts", property(lambda self: self.opened))


def a_restart_forgets_the_set(patch: Patch) -> None:
    patch.setattr(SyncTarget, "_is_named_up_to", lambda _self, _base: False)


def an_empty_register_is_written_alone(patch: Patch) -> None:
    original = Claims.record

    def record(self: Claims, register: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CommitRule, "is_synced", lambda _self: True)
            original(self, register)

    patch.setattr(Claims, "record", record)


RULES = (
    Rule("p15_ceded_is_promised", "stories/same_number_by_handoff", ceded_is_no_promise, "two owners|second record"),
    Rule(
        "p15_ack_after_the_write",
        "protocol/handoff_ack_after_the_write",
        ack_before_the_write,
        "two owners|second record",
    ),
    Rule("p16_in_doubt_is_probe", "protocol/handoff_in_doubt", doubt_has_no_way_out, "not a pair.*CEDING"),
    Rule("p17_the_sync_is_done", "protocol/handoff", sync_is_not_done, "not a pair"),
    Rule(
        "p18_no_register_needed",
        "protocol/handoff_without_the_witness",
        no_handoff_without_the_register,
        "heard",
        heed=True,
    ),
    Rule("p18_recorded_later", "protocol/handoff_without_the_witness", unrecorded_is_never_recorded, "not a pair"),
    Rule("p18_role_stays", "protocol/handoff_without_the_witness", recorded_from_probe, "does not name b", heed=True),
    Rule(
        "p18_both_required",
        "protocol/handoff_without_the_witness_cut_off",
        alone_by_a_handoff,
        "without the acknowledged",
    ),
    Rule(
        "p18_ruling4_an_empty_register",
        "protocol/handoff_without_the_witness_then_wiped",
        an_empty_register_is_written_alone,
        "without the acknowledged",
    ),
    Rule(
        "p19_r135_replica_gives_way",
        "protocol/handoff_crossing",
        crossing_is_not_seen,
        "b does not serve|heard",
        heed=True,
    ),
    Rule(
        "ruling1_both_count_at_once",
        "protocol/handoff_two_copies_at_once",
        a_named_copy_is_one,
        "op2 is answered",
        heed=True,
    ),
    Rule(
        "ruling1_counts_after_a_restart",
        "protocol/two_copies_after_a_restart",
        a_restart_forgets_the_set,
        "op2 has copies 2",
        heed=True,
    ),
    Rule("p19_abort_is_free", "protocol/handoff_taken_back", abort_is_not_free, "still drains"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_script_fails_without_the_rule(rule: Rule) -> None:
    with removed(rule), pytest.raises(AssertionError, match=rule.breaks):
        told(rule.script, heed=rule.heed)
