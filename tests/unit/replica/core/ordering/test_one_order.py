"""A pair has one master and one replica, and the order of a queue is the master's, whoever was sent a message."""

from __future__ import annotations

import random

import pytest

from failover.marks import Role
from tests.support.clients import Producer, create, remaining
from tests.support.pair import Pair


@pytest.mark.requirement("R096")
@pytest.mark.parametrize("seed", range(4))
def test_what_both_members_are_sent_has_the_order_in_which_the_master_took_it(seed: int) -> None:
    drawn = random.Random(seed)
    pair = Pair().start()
    create(pair)
    senders = [(member, Producer(pair, f"{member.name}{number}")) for member in pair.up for number in range(3)]
    for _ in range(60):
        member, producer = drawn.choice(senders)
        producer.send(member)
        for _ in range(drawn.randint(0, 4)):
            pair.one(senders=drawn.choice(["a", "b", "ab"]), disks=drawn.choice(["a", "b", "ab"]))
        assert sorted(each.role.name for each in pair.up) == ["MASTER", "REPLICA"]
        assert [each.serving for each in pair.up] == [True, False]
    pair.settle(500)
    ops = sorted((op for _, producer in senders for op in producer.ops), key=lambda op: op.done.first_index)  # type: ignore[union-attr]  # all are answered by now
    took = [op.payload for op in ops]
    assert [op.done.first_index for op in ops if op.done is not None] == list(range(1, 61))
    assert [payload for _, payload in remaining(pair.a)] == took
    assert [payload for _, payload in remaining(pair.b)] == took
    assert pair.b.shared.progress.ordered_from == 0, "the replica has ordered nothing"
    assert (pair.a.role, pair.b.role) == (Role.MASTER, Role.REPLICA)
