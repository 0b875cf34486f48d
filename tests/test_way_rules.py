"""What keeps the ways through the protocol's tables right is worth something: taken out, the way's text script fails.

Rules that `tests/test_rules.py` and `tests/test_handoff_rules.py` take out with a story of their own are not repeated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import failover.gate
import failover.handoff
import failover.promotion
import replica.core.mastership.claims
import replica.core.mastership.following
import replica.core.mastership.mastership
import replica.core.replication.sync_target
import replica.peer.identity.incarnation
from chaos.sim.bugs.commits import solo_before_the_register
from chaos.sim.bugs.epochs import mark_is_no_condition, register_is_not_read_again, set_is_no_condition
from chaos.sim.bugs.planting import Patch
from failover import steps
from failover.classifier import Answer, EventKind
from failover.gate import Ruling
from failover.handoff import HandoffEvent, HandoffState
from failover.promotion import PromotionRow, Then, Why
from failover.steps import Found, Step
from replica.core.mastership.commit_rule import CommitRule
from replica.core.mastership.copy_orders import CopyOrders
from replica.core.mastership.leaving import Leaving
from replica.core.mastership.mastership import Mastership
from replica.core.mastership.peer import Peer
from replica.core.mastership.role import MemberRole
from replica.core.mastership.verdicts import Verdicts
from replica.core.replication.sync_source import Aside
from tests.support.asking import told
from tests.test_handoff_rules import without
from tests.test_rules import Rule, removed


def _instead(patch: Patch, why: Why, then: Then) -> None:
    """The row of that reason says something else."""
    table = tuple(PromotionRow(row.when, then, row.why) if row.why is why else row for row in failover.promotion.TABLE)
    patch.setattr(failover.promotion, "TABLE", table)


def nobody_forms_a_pair(patch: Patch) -> None:
    _instead(patch, Why.FORMATION, Then.WAIT)


def one_forms_a_pair(patch: Patch) -> None:
    _instead(patch, Why.BLANK_ALONE, Then.CLAIM_SELF)


def any_copy_will_do(patch: Patch) -> None:
    _instead(patch, Why.BLANK_UNCLEAR, Then.CLAIM_SELF)


def lost_is_all_that_counts(patch: Patch) -> None:
    """The register is not asked whom it names, nor whether it can be asked."""
    _instead(patch, Why.NO_VERDICT, Then.CLAIM_SELF)
    patch.setattr(
        failover.gate, "_second_signature", lambda _answer, _now: (failover.gate.Consequence.CLAIM_UNRECORDED, "")
    )


def slowness_is_not_seen(patch: Patch) -> None:
    patch.setattr(Leaving, "watch_progress", lambda _self, _now_ms: None)


def starts_are_not_counted(patch: Patch) -> None:
    patch.setattr(replica.peer.identity.incarnation, "_mark_stale", lambda _node: None)


def two_histories_are_not_seen(patch: Patch) -> None:
    patch.setattr(replica.core.mastership.following, "judge", lambda _shared, _begin: None)
    patch.setattr(replica.core.mastership.following, "lacks_committed", lambda _shared, _begin: None)
    patch.setattr(replica.core.replication.sync_target, "cut_above", lambda _shared, begin: begin.base_index)


def diverged_is_forgotten(patch: Patch) -> None:
    original = Mastership.start

    def start(self: Mastership, now_ms: int) -> None:
        self.shared.state.diverged = ""
        self.shared.state.solo_since = 0
        original(self, now_ms)

    patch.setattr(Mastership, "start", start)


def no_copy(patch: Patch) -> None:
    patch.setattr(replica.core.replication.sync_target, "salvage_above", lambda _shared, _common, _why: None)


def every_epoch_counts(patch: Patch) -> None:
    def first_operation(log: Any, first: int, _held_from: int) -> int:
        return first if first <= log.last_index else 0

    patch.setattr("replica.core.replication.divergence.first_operation", first_operation)


def answers_before_it_is_written(patch: Patch) -> None:
    def record_solo(self: CommitRule, solo_since: int) -> None:
        self.shared.state.solo_since = solo_since
        self.shared.outbox.persist_state()

    patch.setattr(CommitRule, "record_solo", record_solo)


def publish_before_it_is_written(patch: Patch) -> None:
    original = CommitRule.publish

    def publish(self: CommitRule, register: Any) -> None:
        state, recording = self.shared.state, self.recording
        solo_since, state.solo_since, self.recording = state.solo_since, 0, 0
        original(self, register)
        state.solo_since, self.recording = solo_since, recording

    patch.setattr(CommitRule, "publish", publish)


def anything_can_be_forced(patch: Patch) -> None:
    def force(self: Mastership, reason: str) -> str:
        self.claims.begin(frozenset({self.shared.member}), f"forced: {reason}", forced=True)
        return ""

    patch.setattr(Mastership, "force", force)


def no_answer_promotes(patch: Patch) -> None:
    _instead(patch, Why.NO_VERDICT, Then.CLAIM_SELF)


def any_role_may_be_told(patch: Patch) -> None:
    patch.setattr(failover.gate, "_misfit", lambda _verdict, _now, **_by: "")


def answers_do_not_age(patch: Patch) -> None:
    original = Verdicts.ruling_of

    def ruling_of(self: Verdicts, answer: Answer, kind: EventKind) -> Ruling:
        return original(self, replace(answer, link_generation=self.generation), kind)

    patch.setattr(Verdicts, "ruling_of", ruling_of)


def pause_is_not_heeded(patch: Patch) -> None:
    patch.setattr(Verdicts, "paused", property(lambda _self: False, lambda _self, _paused: None), raising=False)


def a_refused_commit_serves(patch: Patch) -> None:
    row = (Step.SERVING, "no matter")
    patch.setattr(steps, "TABLE", {**steps.TABLE, (Step.COMMITTING, Found.REFUSED): row})


def ceded_is_no_exception(patch: Patch) -> None:
    as_any_claim = (Step.PROBE, "as any other claim")
    keys = [(step, Found.UNKNOWN_CEDED) for step in (Step.CLAIMING, Step.COMMITTING)]
    patch.setattr(steps, "TABLE", {**steps.TABLE, **dict.fromkeys(keys, as_any_claim)})


def offers_last_for_ever(patch: Patch) -> None:
    without(patch, (HandoffState.PROPOSED, HandoffEvent.DEADLINE))


def a_lost_link_ends_no_offer(patch: Patch) -> None:
    without(patch, (HandoffState.PROPOSED, HandoffEvent.LINK_LOST))


def a_replica_stays_one(patch: Patch) -> None:
    original = Mastership.on_disconnected

    def on_disconnected(self: Mastership, now_ms: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(MemberRole, "become_probe", lambda _self, _reason: None)
            original(self, now_ms)

    patch.setattr(Mastership, "on_disconnected", on_disconnected)


def nobody_is_left_out_first(patch: Patch) -> None:
    """Commits wait for whoever is filled, and a new connection is all that it takes."""
    patch.setattr(Leaving, "aside", lambda _self: Aside.IS_ASIDE)
    original = Mastership.on_hello

    def on_hello(self: Mastership, hello: Any, now_ms: int) -> None:
        if self.shared.serving and hello.wants_full:
            self.source.stop()
        original(self, hello, now_ms)

    patch.setattr(Mastership, "on_hello", on_hello)


def a_new_epoch_ends_a_transfer(patch: Patch) -> None:
    patch.setattr(Peer, "keep_filling", lambda _self: False)


def a_wish_is_granted_always(patch: Patch) -> None:
    patch.setattr(CopyOrders, "would_be_waited_for", lambda _self: "")


def a_wish_waits_for_nobody(patch: Patch) -> None:
    original = Leaving.aside

    def aside(self: Leaving) -> Aside:
        return Aside.IS_ASIDE if original(self) is Aside.IMPOSSIBLE else original(self)

    patch.setattr(Leaving, "aside", aside)


RULES = (
    Rule(
        "p9_a_lost_connection_is_probe", "protocol/kill_of_master", a_replica_stays_one, "b does not serve", heed=True
    ),
    Rule("ruling4_the_lower_name_begins", "protocol/formation", nobody_forms_a_pair, "not a pair"),
    Rule("ruling4_nobody_begins_alone", "protocol/formation_alone", one_forms_a_pair, "a serves", heed=True),
    Rule("ruling4_unclear_copies", "protocol/unclear_copies", any_copy_will_do, "serves", heed=True),
    Rule("ruling4_a_wiped_register", "protocol/witness_lost_its_disk", register_is_not_read_again, "not a pair"),
    Rule("p2_killed_replica", "protocol/kill_of_replica", solo_before_the_register, "op1 is answered", heed=True),
    Rule("p5_silent_replica", "protocol/silent_replica", set_is_no_condition, "serves|without the acknowledged"),
    Rule("p3_slow_peer", "protocol/slow_peer", slowness_is_not_seen, "op1 is answered None", heed=True),
    Rule("p5_starts_are_counted", "protocol/restored_old_copy", starts_are_not_counted, "without the acknowledged"),
    Rule("p5_outdated", "protocol/outdated_by_its_peer", mark_is_no_condition, "copy is not STALE", heed=True),
    Rule("p5_nobody_is_whole", "protocol/nobody_holds_everything", set_is_no_condition, "without the acknowledged"),
    Rule("p5_forced_only", "protocol/forced_failover", set_is_no_condition, "without the acknowledged"),
    Rule("p5_force_needs_a_whole_copy", "protocol/force_refused", anything_can_be_forced, "b serves", heed=True),
    Rule("two_histories", "protocol/divergence", two_histories_are_not_seen, "a is not DIVERGED", heed=True),
    Rule("two_histories_last", "protocol/divergence", diverged_is_forgotten, "a is not DIVERGED", heed=True),
    Rule("two_histories_serve", "protocol/divergence_while_serving", two_histories_are_not_seen, "DIVERGED", heed=True),
    Rule("two_histories_stay", "protocol/divergence_stays", diverged_is_forgotten, "a is not DIVERGED", heed=True),
    Rule("nothing_happened", "protocol/divergence_without_entries", every_epoch_counts, "a is not REPLICA", heed=True),
    Rule("a_tail_is_copied", "protocol/cut_tail_is_kept", no_copy, "op1 is not set aside", heed=True),
    Rule("a_wiped_copy_is_copied", "protocol/full_transfer_is_kept_too", no_copy, "op1 is not set aside", heed=True),
    Rule("alone", "protocol/alone_is_written_first", answers_before_it_is_written, "op1 is answered", heed=True),
    Rule("alone_no_more", "protocol/alone_no_more_is_written_first", publish_before_it_is_written, "not a pair"),
    Rule("p2_two_faults", "protocol/witness_away", lost_is_all_that_counts, "b serves", heed=True),
    Rule("no_answer_never_promotes", "protocol/classifier_assumes", no_answer_promotes, "b serves", heed=True),
    Rule("an_answer_fits_a_role", "protocol/classifier_is_wrong", any_role_may_be_told, "b serves", heed=True),
    Rule("an_answer_is_of_one_loss", "protocol/classifier_is_late", answers_do_not_age, "b serves", heed=True),
    Rule("pause", "protocol/paused", pause_is_not_heeded, "b serves", heed=True),
    Rule("p6_a_refused_commit", "protocol/claim_is_replaced", a_refused_commit_serves, "a serves", heed=True),
    Rule("p18_ceded_is_served", "protocol/handoff_witness_goes_away", ceded_is_no_exception, "not serve", heed=True),
    Rule("p19_offers_end", "protocol/handoff_by_time", offers_last_for_ever, "heard nothing", heed=True),
    Rule("p22_left_out_first", "protocol/resync_leaves_first", nobody_is_left_out_first, "a serves", heed=True),
    Rule(
        "p22_outlives",
        "protocol/transfer_outlives_an_epoch",
        a_new_epoch_ends_a_transfer,
        "b is not REPLICA",
        heed=True,
    ),
    Rule("p22_refused", "protocol/resync_without_the_witness", a_wish_is_granted_always, "run up", heed=True),
    Rule("p22_a_delta", "protocol/resync_without_the_witness", a_wish_waits_for_nobody, "not IN_SYNC", heed=True),
    Rule("p19_lost_link", "protocol/handoff_link_lost", a_lost_link_ends_no_offer, "heard nothing", heed=True),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_script_fails_without_the_rule(rule: Rule) -> None:
    with removed(rule), pytest.raises(AssertionError, match=rule.breaks):
        told(rule.script, heed=rule.heed)
