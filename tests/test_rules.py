"""Each safety rule of the pair is worth something: with the rule taken out, its text script fails.

That the scripts hold with the rules in is for tests/scripts/test_scripts.py.

`Pn`: the model check's rules; `reliability n`: the safety rules of the pair; R: docs/requirements.toml. A mutant is the
product with one rule removed, and with what else would stand in for that rule; most of them are planted bugs of the
simulator too (`chaos.sim.bugs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import pytest

import failover.promotion
import replica.core.mastership.mastership
import replica.core.ordering.publishing
import replica.core.ordering.readers
import replica.machine.features.batches
import replica.machine.features.readers
import replica.node.journal
from chaos.sim.bugs.commits import (
    ack_without_own_fsync,
    ack_without_the_peer,
    answer_by_own_fsync,
    failed_add_drops_the_requirement,
    publish_first,
    solo_before_the_register,
    unknown_is_success,
)
from chaos.sim.bugs.epochs import (
    any_sync_is_taken,
    both_wait_for_the_named,
    claims_make_longer,
    committed_is_followed_away,
    holder_goes_first,
    mark_is_no_condition,
    no_mark_before_a_transfer,
    own_number_plus_one,
    register_is_not_read_again,
    resume_the_epoch,
    set_is_no_condition,
    start_goes_alone,
    tail_is_acknowledged,
)
from chaos.sim.bugs.pipeline import nothing_is_hidden, numbers_are_forgotten, readers_hold_nothing
from chaos.sim.bugs.planting import Patch, Removal
from chaos.sim.bugs.queues import leased_ahead_at_once, no_dedup
from chaos.sim.bugs.shells import answered_before_commit
from chaos.sim.bugs.weights import (
    weights_are_forgotten_at_takeover,
    weights_are_told_uncommitted,
    weights_over_any_version,
    weights_version_again,
)
from replica.core.domain import Domain
from replica.core.mastership.claims import Claims
from replica.core.mastership.mastership import Mastership
from replica.core.ordering.orders import Orders
from replica.core.replication.sync_source import Phase
from replica.core.state.effects import Effect, Order, Persist
from replica.core.state.shared import Shared
from replica.machine.plan.stage import PublishCall, PublishPlan
from replica.machine.state.state import State
from replica.node.journal import Bounds
from replica.node.steps import GroupCommit, Steps
from tests.support import journalling
from tests.support.asking import told


class Rule(NamedTuple):
    name: str
    script: str
    remove: Removal
    breaks: str
    """What it must say without the rule."""
    heed: bool = False
    """The script's own expectations are needed; else the checks that run at every step and at the end find it alone."""


def only_who_decides_carries_out(patch: Patch) -> None:
    turn = replica.core.ordering.publishing.Publishing._turn
    first = lambda self: turn(self) if self.orders.shared.state.epoch == 1 else None  # noqa: E731 - it is one line
    patch.setattr(replica.core.ordering.publishing.Publishing, "_turn", first)


def batches_are_not_remembered(patch: Patch) -> None:
    plan, number = replica.core.ordering.publishing.plan_publish, count(1_000)

    def plan_publish(state: State, now_ms: int, call: PublishCall) -> PublishPlan:
        return plan(state, now_ms, replace(call, batch=next(number)))

    patch.setattr(replica.core.ordering.publishing, "plan_publish", plan_publish)


def serves_before_the_commit(patch: Patch) -> None:
    original = Mastership.on_epoch_durable

    def on_epoch_durable(self: Mastership, epoch: int) -> None:
        under_way = self.role.claim
        original(self, epoch)
        # A pair is formed as ever: there the first publication would meet the record before its commit.
        if under_way is not None and self.role.claim is under_way and under_way.epoch == epoch > 1:
            self.claims.open_gate(under_way, self.now_ms)

    patch.setattr(Mastership, "on_epoch_durable", on_epoch_durable)


def both_claim(patch: Patch) -> None:
    patch.setattr(failover.promotion, "named_word", lambda _facts: "self")
    patch.setattr(Claims, "back_off", lambda _self, _now_ms: None)  # pauses would end it, too


def refusals_are_told_at_once(patch: Patch) -> None:
    patch.setattr(Orders, "_refuse_later", Orders.refuse)


def claims_are_not_spared(patch: Patch) -> None:
    patch.setattr(Claims, "back_off", lambda _self, _now_ms: None)
    patch.setattr(replica.core.mastership.mastership, "YOUNG_CLAIM_MS", 0)


def a_promise_is_an_epoch(patch: Patch) -> None:
    original = failover.promotion.named_word

    def named_word(facts: Any) -> str:
        ahead = facts.register is not None and facts.register.epoch > facts.epoch
        return "peer" if ahead else original(facts)

    patch.setattr(failover.promotion, "named_word", named_word)


def an_older_hello_undoes_the_sync(patch: Patch) -> None:
    original = Mastership.on_hello
    undone: set[int] = set()

    def on_hello(self: Mastership, hello: Any, now_ms: int) -> None:
        begun = self.shared.serving and self.source.phase is not Phase.IDLE
        if begun and 0 < hello.epoch < self.shared.state.epoch:
            undone.add(self.source.sync_id)
            self.source.stop()
        elif not (self.shared.serving and self.source.sync_id in undone):  # another HELLO would begin another transfer
            original(self, hello, now_ms)

    patch.setattr(Mastership, "on_hello", on_hello)


def the_mark_outlives_its_epoch(patch: Patch) -> None:
    def follow(self: Shared, epoch: int) -> None:
        self.state.owner, self.state.epoch = self.peer, epoch

    patch.setattr(Shared, "follow", follow)


def the_journal_goes_to_the_end(patch: Patch) -> None:
    def bounds_of(shared: Any) -> Bounds:
        return Bounds(max(1, shared.state.kept_from), shared.progress.durable_index + 1, shared.progress.generation)

    patch.setattr(replica.node.journal, "bounds_of", bounds_of)
    patch.setattr(journalling, "bounds_of", bounds_of)


def the_journal_goes_beyond_the_disk(patch: Patch) -> None:
    def bounds_of(shared: Shared) -> Bounds:
        return Bounds(max(1, shared.state.kept_from), shared.progress.commit_index + 1, shared.progress.generation)

    patch.setattr(replica.node.journal, "bounds_of", bounds_of)
    patch.setattr(journalling, "bounds_of", bounds_of)


def any_history_reads_on(patch: Patch) -> None:
    patch.setattr(replica.node.journal, "problem_of_history", lambda *_: None)


def writers_go_on_anywhere(patch: Patch) -> None:
    original = replica.core.ordering.publishing.plan_publish

    def plan_publish(state: Any, now_ms: int, call: Any) -> Any:
        return original(state, now_ms, replace(call, previous_batch=None))

    patch.setattr(replica.core.ordering.publishing, "plan_publish", plan_publish)


def any_epoch_reads_on(patch: Patch) -> None:
    patch.setattr(replica.node.journal, "_problem_of_epoch", lambda *_: None)


def any_copy_tells_its_journal(patch: Patch) -> None:
    patch.setattr(journalling, "is_in_step", lambda domain: domain.shared.machine is not None)


def gaps_are_no_gaps(patch: Patch) -> None:
    """A page takes what is there."""
    original = replica.node.journal.records

    def records(store: Any, domain: int, first: int, end: int) -> Iterator[Any]:
        at = first
        while at < end and (rows := store.scan(domain, at, limit_records=1)):
            at = rows[0][0] + 1
            yield from original(store, domain, rows[0][0], min(at, end)) if at <= end else ()

    patch.setattr(replica.node.journal, "records", records)


def trimmed_places_are_good(patch: Patch) -> None:
    original = replica.node.journal.bounds_of
    gaps_are_no_gaps(patch)  # it would find the gap
    bounds_of = lambda shared: original(shared)._replace(first=1)  # noqa: E731 - one line says it
    patch.setattr(replica.node.journal, "bounds_of", bounds_of)
    patch.setattr(journalling, "bounds_of", bounds_of)


def losses_are_silent(patch: Patch) -> None:
    patch.setattr(replica.machine.features.readers, "named_reader", lambda state, name: state.readers[name])


def tokens_come_before_their_write(patch: Patch) -> None:
    original = Steps.on_effect

    def on_effect(self: Steps, domain: Domain, effect: Effect) -> Order | None:
        if isinstance(effect, Persist) and effect.token is not None:
            original(self, domain, effect._replace(token=None))
            domain.on_persisted(0, 0, [effect.token])
            return None
        return original(self, domain, effect)

    patch.setattr(Steps, "on_effect", on_effect)


def a_wipe_keeps_what_joined_before_it(patch: Patch) -> None:
    original = GroupCommit.add

    def add(self: GroupCommit, domain: Domain, effect: Persist) -> int:
        before = self.batch.appends
        size = original(self, domain, effect)
        if effect.wipe:
            self.batch.appends[:0] = before
        return size

    patch.setattr(GroupCommit, "add", add)


def a_cut_keeps_what_joined_before_it(patch: Patch) -> None:
    original = GroupCommit.add

    def add(self: GroupCommit, domain: Domain, effect: Persist) -> int:
        before = self.batch.appends
        size = original(self, domain, effect)
        if effect.cut is not None:
            self.batch.appends = before
        return size

    patch.setattr(GroupCommit, "add", add)


RULES = (
    Rule(
        "s1_a_core_is_notified_after_the_write", "protocol/master_has_not_written", answered_before_commit, "copies=2"
    ),
    Rule(
        "s2_a_token_comes_after_its_write",
        "protocol/handoff_ack_after_the_write",
        tokens_come_before_their_write,
        "second record",
    ),
    Rule(
        "s3_a_wipe_takes_back_what_joined_before_it",
        "protocol/unwritten_tail_is_wiped_too",
        a_wipe_keeps_what_joined_before_it,
        "would not leave it the highest",
    ),
    Rule(
        "s4_a_cut_takes_back_what_joined_before_it",
        "protocol/unwritten_tail_is_cut_too",
        a_cut_keeps_what_joined_before_it,
        "would not leave it the highest",
    ),
    Rule(
        "j1_the_journal_ends_at_the_commit",
        "protocol/journal_ends_at_the_commit",
        the_journal_goes_to_the_end,
        "has it of epoch",
    ),
    Rule(
        "j1_the_journal_ends_at_the_disk",
        "protocol/journal_ends_at_the_disk",
        the_journal_goes_beyond_the_disk,
        "a gap that nothing explains",
    ),
    Rule(
        "j2_the_epoch_of_the_last_record_is_asked",
        "protocol/journal_of_a_given_up_history",
        any_epoch_reads_on,
        "has it of epoch",
    ),
    Rule(
        "j3_only_a_member_in_step_answers",
        "protocol/journal_of_a_copy_that_was_left",
        any_copy_tells_its_journal,
        "has it of epoch",
    ),
    Rule("j4_a_trimmed_place_is_lost_loudly", "protocol/journal_is_trimmed", trimmed_places_are_good, "is not told"),
    Rule("j4_a_gap_is_judged_anew", "protocol/journal_is_trimmed_while_it_is_read", gaps_are_no_gaps, "is not told"),
    Rule(
        "j5_what_a_reader_wants_is_kept", "protocol/journal_is_kept_for_a_reader", readers_hold_nothing, "is gone at b"
    ),
    Rule("j6_a_reader_loses_loudly", "protocol/journal_reader_loses_his_place", losses_are_silent, "does not tell"),
    Rule("j7_a_number_is_one_batch", "protocol/numbered_batch", numbers_are_forgotten, "was .* and is"),
    Rule(
        "j8_a_place_is_of_one_history",
        "protocol/journal_of_another_pair",
        any_history_reads_on,
        "of another history",
    ),
    Rule(
        "r122_ruling1_ack_waits_for_the_peers_fsync", "protocol/peer_has_not_written", ack_without_the_peer, "copies=2"
    ),
    Rule(
        "ruling13_what_is_leased_ahead_waits_for_its_commit",
        "protocol/leased_ahead",
        leased_ahead_at_once,
        "the consumer was given op1",
        heed=True,
    ),
    Rule("ruling1_ack_waits_for_the_own_fsync", "protocol/master_has_not_written", ack_without_own_fsync, "copies=2"),
    Rule("reliability4_p11_restart_takes_a_new_epoch", "stories/number_used_twice", resume_the_epoch, "second record"),
    Rule(
        "w1_who_serves_carries_out",
        "protocol/publication_is_finished_by_the_next_master",
        only_who_decides_carries_out,
        "is decided, and at",
    ),
    Rule("w2_a_batch_is_seen_whole", "protocol/publication_is_seen_whole", nothing_is_hidden, "see a part of"),
    Rule("w3_a_batch_enters_once", "protocol/publication_is_repeated", batches_are_not_remembered, "twice|a part of"),
    Rule(
        "w4_a_writer_goes_on_where_he_is_known",
        "protocol/publication_at_another_pair",
        writers_go_on_anywhere,
        "of another history",
    ),
    Rule(
        "t1_a_table_outlives_its_master",
        "protocol/weights_outlive_their_master",
        weights_are_forgotten_at_takeover,
        "was told, and none is there",
    ),
    Rule("t2_a_version_is_compared", "protocol/weights_stale_publisher", weights_over_any_version, "unread"),
    Rule("t2_a_version_is_given_once", "protocol/weights_stale_publisher", weights_version_again, "was of"),
    Rule(
        "t3_a_table_is_told_when_committed",
        "protocol/weights_are_told_when_committed",
        weights_are_told_uncommitted,
        "taken back",
    ),
    Rule(
        "t3_a_refusal_is_told_when_committed",
        "protocol/weights_are_gone_when_committed",
        refusals_are_told_at_once,
        "there is none was told, and taken back",
    ),
    Rule("p5_only_a_good_mark_promotes", "protocol/empty_disk", mark_is_no_condition, "without the acknowledged"),
    Rule("p5_reliability2_only_the_set_promotes", "protocol/outside_the_set", set_is_no_condition, "without the ack"),
    Rule("p10_reliability6_tail_is_cut_first", "protocol/tail_is_cut_first", tail_is_acknowledged, "copies=2"),
    Rule("ruling17_a_sequence_is_executed_once", "protocol/executed_once", no_dedup, "twice"),
    Rule("p14_replica_answers_by_commit", "stories/replicas_own_answer", answer_by_own_fsync, "copies=2"),
    Rule(
        "p2_alone_only_after_the_register", "stories/solo_before_the_register", solo_before_the_register, "without the"
    ),
    Rule("p6_only_done_opens_the_gate", "stories/timeout_read_as_success", unknown_is_success, "without the ack"),
    Rule(
        "p6_no_serving_before_the_commit",
        "stories/timeout_read_as_success",
        serves_before_the_commit,
        "without the acknowledged",
    ),
    Rule("p3_require_then_publish", "stories/published_too_early", publish_first, "without the acknowledged"),
    Rule(
        "p2_p3_unknown_add_stays_required", "stories/unknown_add", failed_add_drops_the_requirement, "without the ack"
    ),
    Rule(
        "p13_reliability3_lower_epoch_is_refused", "stories/stale_sync", any_sync_is_taken, "without the acknowledged"
    ),
    Rule("p4_number_above_all", "stories/own_number_plus_one", own_number_plus_one, "second record"),
    Rule("p7_left_over_claim_is_found", "stories/left_over_claim", register_is_not_read_again, "not a pair.*CLAIMED"),
    Rule("p8_named_one_claims", "stories/left_over_claim", both_wait_for_the_named, "not a pair.*CLAIMED"),
    Rule("p8_one_of_two_claims", "stories/duel", both_claim, "run up", heed=True),
    Rule("p8_a_young_claim_is_spared", "protocol/cut_off_duel", claims_are_not_spared, "run up", heed=True),
    Rule("p8_a_promise_is_no_epoch", "stories/both_wait", a_promise_is_an_epoch, "not a pair"),
    Rule("p20_the_longer_copy_goes_first", "protocol/longer_copy_goes_first", holder_goes_first, "without the ack"),
    Rule("p20_a_start_waits_for_its_peer", "protocol/start_waits_for_its_peer", start_goes_alone, "without the ack"),
    Rule(
        "p20_a_failed_claim_makes_no_copy_longer",
        "protocol/failed_claims_make_no_copy_longer",
        claims_make_longer,
        "without the ack",
    ),
    Rule(
        "p21_committed_is_never_cut",
        "protocol/committed_is_never_cut",
        committed_is_followed_away,
        "b is",
        heed=True,
    ),
    Rule("p12_a_sent_sync_stands", "stories/late_hello", an_older_hello_undoes_the_sync, "not a pair"),
    Rule(
        "p10_mark_before_a_transfer", "protocol/half_a_transfer", no_mark_before_a_transfer, "without the acknowledged"
    ),
    Rule(
        "p10_the_mark_changes_with_the_epoch",
        "protocol/alone_ends_where_one_follows",
        the_mark_outlives_its_epoch,
        "not a pair",
    ),
)


@contextmanager
def removed(rule: Rule) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        rule.remove(patch)
        yield


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_script_fails_without_the_rule(rule: Rule) -> None:
    with removed(rule), pytest.raises(AssertionError, match=rule.breaks):
        told(rule.script, heed=rule.heed)
