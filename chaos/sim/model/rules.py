"""The pair's rules taken out of the product, one at a time, to see that the search misses them. Nothing here decides
how the pair behaves with its rules.

Each row of `reference/protocol-check.md` section 3 is here, with the bound inside which the search must find it; a row
without a bound says what finds it instead. To take a rule out is to replace the product's function that holds it, and
whatever else would stand in for it; what a planted bug of the simulator takes out is taken out in the same way here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import failover.handoff
import failover.promotion
from chaos.sim.bugs import commits, epochs, handoffs
from chaos.sim.bugs.planting import Patch, Planter, Removal
from chaos.sim.model.state import Bound
from replica.core.mastership.mastership import Mastership
from replica.core.replication.sync_source import SyncSource
from replica.core.replication.sync_target import SyncTarget


class Rule(NamedTuple):
    """One rule, how it is taken out, and what sees that it is gone."""

    name: str
    remove: Removal
    bound: Bound | None
    says: str
    """Part of what the search must say; without a bound: what sees it instead, and why the search cannot."""


def epoch_at_restart_and_digest(patch: Patch) -> None:
    original = Mastership.start

    def start(self: Mastership, now_ms: int) -> None:
        state = self.shared.state
        if state.epoch and state.owner == self.shared.member:
            self.role.become_master(frozenset(state.in_sync_set), "goes on where it was", now_ms)
        else:
            original(self, now_ms)

    def on_end(self: SyncTarget, end: Any) -> None:
        if self.active and end.sync_id == self.sync_id:
            self.ending = end
            self.maybe_open()

    patch.setattr(Mastership, "start", start)
    patch.setattr(SyncSource, "judge_point", lambda self, common, _digest: self.begin_delta(common, full=False))
    patch.setattr(SyncTarget, "expected", lambda self, begin: self.shared.log.digest_at(begin.base_index))
    patch.setattr(SyncTarget, "on_end", on_end)


def named_one_first(patch: Patch) -> None:
    patch.setattr(failover.promotion, "named_word", lambda _facts: "peer")


RULES = (
    Rule("ack waits for the peer's fsync", commits.ack_without_the_peer, Bound(), "copies=2"),
    Rule("ack waits for the own fsync", commits.ack_without_own_fsync, Bound(), "copies=2"),
    Rule("solo only after the register", commits.solo_before_the_register, Bound(reset=1, coarse=True), "acknowledge"),
    Rule("only the committed set promotes", epochs.set_is_no_condition, Bound(reset=1, coarse=True), "committed set"),
    Rule("require before publish", commits.publish_first, Bound(reset=1, coarse=True, start="alone"), "copies=2"),
    Rule(
        "unknown add stays required",
        commits.failed_add_drops_the_requirement,
        Bound(reset=1, unknown=1, coarse=True, start="alone"),
        "serves",
    ),
    Rule("serve after COMMIT is answered", commits.serve_before_the_commit, Bound(reset=1, coarse=True), "acknowledge"),
    Rule("timeout is not success", commits.unknown_is_success, Bound(reset=1, unknown=1, coarse=True), "acknowledge"),
    Rule("lower epoch refused (SYNC)", epochs.any_sync_is_taken, Bound(reset=1, coarse=True), "acknowledge"),
    Rule(
        "epoch above the register's",
        epochs.own_number_plus_one,
        Bound(crash=1, reset=1, operations=0, coarse=True),
        "owners",
    ),
    Rule(
        "ceded epoch promised durably",
        handoffs.ceded_is_no_promise,
        Bound(handoff_a=1, reset=1, outage=1, coarse=True),
        "own",
    ),
    Rule(
        "tail cut before acks count",
        epochs.tail_is_acknowledged,
        Bound(operations=1, coarse=True, start="tail"),
        "copies=2",
    ),
    Rule("new epoch at restart and digest", epoch_at_restart_and_digest, Bound(coarse=True, start="tail"), "copies=2"),
    Rule("replica answers by commit progress", commits.answer_by_own_fsync, Bound(), "copies=2"),
    Rule("data mark checked before a claim", epochs.mark_is_no_condition, Bound(crash=1, wipe=1, coarse=True), "EMPTY"),
    Rule(
        "register re-read at connection (P7)",
        epochs.register_is_not_read_again,
        Bound(reset=1, operations=0, coarse=True),
        "no way back",
    ),
    Rule("named one first (P8)", named_one_first, Bound(reset=1, operations=0, coarse=True), "no way back"),
    Rule(
        "longer copy first (P20)",
        epochs.holder_goes_first,
        Bound(crash=2, lie=1, coarse=True, lone_epoch=1, epoch=3),
        "without an acknowledged",
    ),
    Rule("sent SYNC stands (P12)", epochs.sync_is_taken_back, Bound(reset=1, operations=0, coarse=True), "no way back"),
    Rule(
        "P15 ACK after the write",
        handoffs.ack_before_the_write,
        Bound(handoff_a=1, crash=1, outage=1, coarse=True),
        "owners",
    ),
    Rule(
        "P16 in doubt is PROBE",
        handoffs.doubt_has_no_way_out,
        Bound(handoff_a=1, reset=1, operations=0, coarse=True),
        "no way",
    ),
    Rule(
        "P18 recorded later",
        handoffs.unrecorded_is_never_recorded,
        Bound(handoff_a=1, outage=1, operations=0, coarse=True),
        "no way back",
    ),
    Rule(
        "P18 both stay required", handoffs.alone_by_a_handoff, Bound(handoff_a=1, outage=1, reset=1, coarse=True), "ack"
    ),
)


@contextmanager
def removed(rule: Rule) -> Iterator[None]:
    """The product without that rule."""
    planter = Planter()
    rule.remove(planter)
    try:
        yield
    finally:
        planter.undo()
