"""What is moved by a client's call enters no more than its owner may store; what stays is named, and goes later."""

from __future__ import annotations

import pytest

from replica.core.ordering import sweep_looks, sweeps
from replica.core.ordering.sweep import Verb
from replica.machine import Limits
from replica.machine.state.kept_quotas import KeptQuota, KeptQuotas
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Properties, PropertyValue
from tandemq.v1.queue_admin_service_pb2 import LeftBehind
from tests.support.clients import create
from tests.support.member import Member
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_dying import payloads
from tests.unit.replica.core.ordering.test_sweeps import run, send

BILLING, SHOP = "principal/billing", "principal/shop"
STORED = 1_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages need many turns."""
    monkeypatch.setattr(sweeps, "MOVE_MESSAGES_MAX", 3)
    monkeypatch.setattr(sweep_looks, "LOOKS_MAX", 5)


def pair_of(**owners: str) -> tuple[Pair, Member]:
    """Queues by their owners; billing may store 1,000 bytes."""
    quotas = KeptQuotas({BILLING: KeptQuota(stored=STORED)})
    pair = Pair(limits=Limits(dedup_sequences=1_000, kept_quotas=quotas)).start()
    for queue, owner in owners.items():
        create(pair, queue, owner=owner)
    assert pair.master is not None
    return pair, pair.master


def test_moved_messages_fill_what_their_owner_may_store_and_no_more() -> None:
    pair, master = pair_of(q=SHOP, r=BILLING)
    for _ in range(8):
        send(pair, "q", bytes(300))
    answer = run(pair)
    assert (answer.done, len(payloads(master, "r")), len(payloads(master, "q"))) == (3, 3, 5)
    (left,) = answer.behind
    assert (left.reason, left.queue, left.count) == (Reason.REASON_QUOTA_EXCEEDED, "r", 5)
    assert BILLING in left.message
    assert master.core.shared.limits.kept_quotas.refused["stored"] == 1


def test_what_moves_between_queues_of_one_owner_is_nothing_more() -> None:
    pair, master = pair_of(q=BILLING, r=BILLING)
    for _ in range(3):
        send(pair, "q", bytes(300))
    answer = run(pair)
    assert (answer.done, answer.behind) == (3, ())
    assert (len(payloads(master, "q")), len(payloads(master, "r"))) == (0, 3)


def test_an_owner_of_several_queues_is_asked_about_all_that_enters_them_by_one_turn() -> None:
    """What died elsewhere goes back to two queues of his at a time: each alone would fit."""
    pair, master = pair_of(q=SHOP, r=BILLING, s=BILLING)
    for queue in ("r", "s"):
        origin = Properties(entries={"tq_origin_queue": PropertyValue(text=queue)})
        send(pair, "q", bytes(600), properties=[origin])
    answer = run(pair, Verb.REDRIVE)
    assert answer.done == 1
    assert [(each.reason, each.count) for each in answer.behind] == [(Reason.REASON_QUOTA_EXCEEDED, 1)]
    assert isinstance(answer.behind[0], LeftBehind)
    assert len(payloads(master, "r")) + len(payloads(master, "s")) == 1
