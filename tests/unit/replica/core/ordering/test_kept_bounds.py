"""What kept reactions may cost: looks between two ticks, ids and bodies in memory; what is beyond is refused."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.ordering import kept_looks, kept_reactions
from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import Failed
from replica.machine import EnqueueCall, Limits, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_PURGE
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Reader, Waiter
from tests.unit.replica.core.ordering.test_dying import contents, info, payloads, take
from tests.unit.replica.core.ordering.test_kept_reactions import (
    ALL,
    DELETE,
    FIRST,
    MINUTE,
    STORE,
    begin,
    call_of,
    got,
    keep,
    store,
)
from tests.unit.replica.core.ordering.test_reacting import counts, taken_over
from tests.unit.replica.core.ordering.test_sweeps import act, send, update


def test_those_of_one_group_are_counted_as_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is looked at for each message of the group, as those with a selector alone are."""
    pair, _ = begin()
    for number in range(20):
        keep(pair, number=1 + number, scope=FIRST, group_id="g", selector=f"w = {number}")
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 50)
    pair.settle(1_000)
    seen = [0]
    entry, on_tick = kept_looks.KeptLooks.entry, kept_reactions.KeptReactions.on_tick

    def counted(*some: Any) -> Any:
        seen[-1] += 1
        return entry(*some)

    def ticked(some: Any) -> None:
        seen.append(0)
        on_tick(some)

    monkeypatch.setattr(kept_looks.KeptLooks, "entry", counted)
    monkeypatch.setattr(kept_reactions.KeptReactions, "on_tick", ticked)
    weights = [{"entries": {"w": {"integer": 100 + at}}} for at in range(10)]
    send(pair, "q", *[b"1"] * 10, group_ids=["g"] * 10, properties=weights)
    pair.settle(2_000)
    assert sum(seen) == 200
    assert max(seen) < 50 + 21, "not all of them in one step"
    assert len(got(take(pair))) == 10


def test_what_is_too_large_to_act_is_not_kept() -> None:
    pair, master = begin()
    change = {"update": pb.ReactionUpdate(payload=b"x" * (1 << 20))}
    refused = keep(pair, more=change, group_id="g")
    assert (refused.reason, refused.metadata) == (Reason.REASON_MESSAGE_TOO_LARGE, {"limit": "1048576"})
    assert info(master, STORE).length == 0
    smaller = {"update": pb.ReactionUpdate(payload=b"x" * (1 << 19))}
    assert counts(keep(pair, number=2, more=smaller, group_id="g")) == {"kept": True}


@pytest.mark.parametrize(("less", "remembered"), [(0, 4), (1, 1)])
def test_bodies_that_are_remembered_are_bounded(less: int, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Just as many bytes as there may be are remembered; one more, and all are forgotten but the last."""
    pair, master = begin()
    for number in range(4):
        keep(pair, number=1 + number, more={"update": pb.ReactionUpdate(payload=b"x" * 100)}, group_id=f"g{number}")
    size = sum(len(payload) for payload in payloads(master, STORE))
    monkeypatch.setattr(kept_looks, "CACHED_BYTES_MAX", size - less)
    for number in range(4):
        send(pair, "q", b"1", group_ids=[f"g{number}"])
    assert payloads(master, "q") == [b"x" * 100] * 4
    assert len(master.core.kept.looks._entries) == remembered


def test_more_of_one_group_than_may_be_looked_at_are_refused() -> None:
    pair, master = begin()
    master.shared.machine.state.limits = Limits(dedup_sequences=1000, kept_selectors_max=2)
    assert counts(keep(pair, number=1, group_id="g")) == counts(keep(pair, number=2, group_id="g")) == {"kept": True}
    assert keep(pair, number=3, group_id="g").reason == Reason.REASON_QUOTA_EXCEEDED
    assert counts(keep(pair, number=4, group_id="h")) == {"kept": True}


def test_more_ids_than_may_be_remembered_are_refused() -> None:
    pair, master = begin()
    master.shared.machine.state.limits = Limits(dedup_sequences=1000, kept_hashes_max=3)
    ids = [bytes([at]) * 16 for at in range(1, 4)]
    assert counts(keep(pair, number=1, ids=ids[:2])) == {"kept": True}
    assert keep(pair, number=2, ids=ids[1:]).reason == Reason.REASON_QUOTA_EXCEEDED
    act(pair, QUEUE_ACTION_PURGE, STORE)
    assert counts(keep(pair, number=3, ids=ids)) == {"kept": True}


def test_those_that_are_used_up_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_looks, "CACHED_MIN", 4)
    pair, master = begin()
    keep(pair, ttl_ms=60 * MINUTE, group_id="g")
    for number in range(30):
        keep(pair, number=2 + number, scope=FIRST, correlation_id="c")
        send(pair, "q", b"1", correlation_ids=["c"])
    assert len(master.core.kept.looks._entries) <= 10
    assert master.shared.machine.queue(1).totals.reacted == 30


def test_a_queue_waits_for_no_other_one_that_is_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master = begin()
    update(pair, "r", reactions_enabled=True)
    store(pair, "r")
    keep(pair, ttl_ms=60 * MINUTE, group_id="g")
    call = call_of(master, ALL, 60 * MINUTE, 2, {"delete": DELETE}, {"group_id": "g"})
    call.reaction.queue = "r"
    assert counts(call.run()) == {"kept": True}
    send(pair, "q", *[b"1"] * 100)
    now = taken_over(pair)
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 5)
    now.core.kept.begin()
    now.core.kept._left = 0
    send(pair, "r", b"2")
    reader = Reader(pair, "r")
    reader.attach(now, 10)
    for _ in range(5):
        pair.settle(100)
    assert got(reader) == [b"2"]
    assert now.core.kept.unasked, "the deep one is not looked through yet"


def test_v11_it_acts_no_more_when_its_time_is_over_and_no_record_has_said_so() -> None:
    pair, master = begin()
    keep(pair, ttl_ms=5_000, group_id="g")
    pair.now_ms += 6_000  # nobody has looked at the clock
    rows = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"1"], group_ids=["g"]))
    call = EnqueueCall("q", b"", 0, columns_of(rows), master.name, request_id=b"of the sender".rjust(16))
    master.submit(PendingEnqueue(Waiter(), call, rows.SerializeToString()))
    pair.settle(200)
    assert payloads(master, "q") == [b"1"]


@pytest.mark.requirement("R199")
def test_v11_the_queue_says_how_long_a_reaction_may_be_kept() -> None:
    pair, master = begin()
    update(pair, "q", max_sticky_ttl={"seconds": 7_200})
    assert counts(keep(pair, ttl_ms=7_200_000, group_id="g")) == {"kept": True}
    assert counts(keep(pair, ttl_ms=0, number=2, group_id="h")) == {"kept": True}
    update(pair, "q", max_sticky_ttl={"seconds": 5})
    refused = keep(pair, ttl_ms=5_001, number=3, group_id="i")
    assert isinstance(refused, Failed)
    assert (refused.reason, refused.metadata) == (Reason.REASON_BAD_REQUEST, {"limit_ms": "5000"})
    assert counts(keep(pair, ttl_ms=0, number=4, group_id="j")) == {"kept": True}
    pair.settle(6_000)
    assert len(contents(master, STORE)) == 2, "what is kept already stays for its own time"
    send(pair, "q", b"1", b"2", group_ids=["h", "j"])
    assert payloads(master, "q") == [b"2"]
