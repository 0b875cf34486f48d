"""The stories in which a pair without one of its rules loses, repeats or lies. Each raises only if the pair does so.

They come from a model of the protocol: `Pn` names its rules. On the product every story ends well;
`tests/test_rules.py` tells each again with the rule taken out, and then it may not.
"""

from __future__ import annotations

from replica.sync_source import Phase
from storage.memory import MemoryStore
from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tests.support.checks import BrokenRuleError, require
from tests.support.clients import Op, Producer, check_contents, create
from tests.support.pair import Member, Pair


def paired() -> tuple[Pair, Producer]:
    """Both members in epoch 1, A master, a queue and one message in it."""
    pair = Pair().start()
    create(pair)
    x = Producer(pair, "x")
    x.send(pair.a)
    pair.settle(200)
    assert x.ops[0].done is not None
    return pair, x


def solo(pair: Pair, master: Member) -> None:
    """Its peer crashes, and it goes on alone."""
    pair.crash(master.peer)
    master.lost(refused=True)
    pair.settle(500)
    assert master.serving


def ends_well(pair: Pair, *producers: Producer) -> None:
    """Everything works again: the pair forms, what is unanswered is repeated, nothing is lost or there twice."""
    try:
        pair.heal()
    except BrokenRuleError:
        raise
    except AssertionError as error:
        raise BrokenRuleError(str(error)) from error
    for producer in producers:
        for member in (pair.a, pair.b):
            producer.retry(member)
            pair.settle(300)
    pair.checks.equal()
    check_contents(pair, list(producers))


def unanswered(op: Op, why: str) -> None:
    require(op.done is None, f"{op.payload!r} is answered {op.done}, {why}")


# -- acknowledgement ---------------------------------------------------------------------------------------------------


def peer_has_not_written() -> None:
    """A has op1 on disk; B has received it and not written it."""
    pair, x = paired()
    op = x.send(pair.a)
    pair.quiesce(disks="a")
    unanswered(op, "and only A has it on disk")
    ends_well(pair, x)


def master_has_not_written() -> None:
    """B has op1 on disk; A is still writing it."""
    pair, x = paired()
    op = x.send(pair.a)
    pair.quiesce(disks="b")
    unanswered(op, "and only B has it on disk")
    ends_well(pair, x)


def replicas_own_answer() -> None:
    """A orders op1 for B's client and crashes before its fsync; B stores it. A restarts first and opens epoch 2."""
    pair, x = paired()
    op = x.send(pair.b)
    pair.quiesce(disks="b")
    unanswered(op, "by B's own fsync")
    pair.crash(pair.a)
    pair.a.start()
    ends_well(pair, x)
    require(pair.register.epoch > 1, "a restarted master takes a new epoch")


def executed_twice() -> None:
    """The answer is lost on its way; the client repeats its sequence at both members."""
    pair, x = paired()
    op = x.send(pair.a)
    pair.settle(200)
    for member in (pair.a, pair.b, pair.a):
        x.submit(op, member)
        pair.settle(200)
    check_contents(pair, [x])


# -- the register ------------------------------------------------------------------------------------------------------


def add_under_way() -> tuple[Pair, Producer]:
    """A is solo, B is back and holds everything, "add B" is on its way."""
    pair, x = paired()
    solo(pair, pair.a)
    pair.b.start()
    pair.connect()
    pair.quiesce(keep=("add",))
    assert pair.has_call(pair.a, "add")
    return pair, x


def unknown_add() -> None:
    """The link resets before the answer to "add B"; A acknowledges op1 alone. The add lands, B claims without op1."""
    pair, x = add_under_way()
    pair.disconnect()
    pair.lose(pair.call(pair.a, "add"))
    pair.quiesce(keep=("claiming",))
    x.send(pair.a)
    pair.quiesce(keep=("claiming",))
    pair.land_late()
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(1000)
    require(pair.b.serving, "the register names B, and B holds everything")
    ends_well(pair, x)


def published_too_early() -> None:
    """op1 is released between "add B" and its answer, before B has it; then A is gone, and B is in the set."""
    pair, x = add_under_way()
    x.send(pair.a)
    pair.a.commit()
    pair.disconnect()
    pair.land(pair.call(pair.a, "add"))
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(1000)
    require(pair.b.serving, "the register names B, and B holds everything")
    ends_well(pair, x)


def timeout_read_as_success() -> None:
    """A claims epoch 2 alone, stores it, its commit call times out, never lands. A serves op1; B replaces the claim."""
    pair, x = paired()
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.quiesce(keep=("committing",))
    pair.lose(pair.call(pair.a, "committing"))
    x.send(pair.a)
    pair.quiesce(keep=("",))
    pair.crash(pair.a)
    pair.late.clear()
    pair.b.start()
    pair.b.lost(refused=True)
    pair.settle(3000)
    require(pair.b.serving, "B is of the committed set")
    ends_well(pair, x)


def solo_before_the_register() -> None:
    """B restarts; A sees the reset and releases op1 alone while its claim is under way. B claims epoch 2 first."""
    pair, x = paired()
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.quiesce(keep=("claiming",))
    x.send(pair.a)
    pair.quiesce(keep=("claiming",))
    if pair.has_call(pair.a, "claiming"):
        pair.lose(pair.call(pair.a, "claiming"))
    pair.late.clear()
    pair.crash(pair.a)
    pair.b.start()
    pair.b.lost(refused=True)
    pair.settle(1000)
    require(pair.b.serving, "B is of the committed set")
    ends_well(pair, x)


def own_number_plus_one() -> None:
    """A restarts and opens epoch 2 with both; before B hears of it the link resets. B, still at 1, claims "2"."""
    pair, x = paired()
    pair.crash(pair.a)
    pair.a.start()
    pair.connect()
    for _ in range(8):
        pair.deliver(pair.a)
        pair.quiesce(link=False)
        pair.deliver(pair.b)
        pair.quiesce(link=False)
        if pair.a.serving:
            break
    assert pair.a.serving
    pair.disconnect()
    assert pair.b.shared.state.epoch == 1
    pair.b.lost()
    pair.settle(3000)
    ends_well(pair, x)


def left_over_claim() -> None:
    """B claims epoch 2, then the link returns and SYNC of epoch 1 makes it a replica. Nobody tidies the register."""
    pair, x = paired()
    pair.disconnect()
    pair.b.lost()
    pair.tick(400)
    pair.quiesce(keep=("claiming",))
    late = pair.call(pair.b, "claiming")
    pair.connect()
    pair.quiesce(keep=("claiming",))
    pair.lose(late)
    pair.land_late()
    require(pair.register.state.name == "CLAIMED", "the claim has landed")
    pair.settle(5000)
    require(pair.is_paired, f"the left-over claim stays: {pair.describe()}")
    ends_well(pair, x)


def claimant_crashes() -> None:
    """B claims epoch 2 and crashes before it stores it. A waits for B, whom the register names; B comes back."""
    pair, x = paired()
    pair.disconnect()
    pair.b.lost()
    pair.tick(400)
    pair.quiesce(keep=("claiming",))
    pair.land(pair.call(pair.b, "claiming"))
    pair.crash(pair.b)
    pair.settle(3000)
    pair.b.start()
    ends_well(pair, x)


def duel() -> None:
    """Cut off from each other, both see the other as lost; their claims cross at the register."""
    pair, x = paired()
    pair.disconnect()
    pair.a.lost()
    pair.b.lost()
    for _ in range(100):
        pair.tick(100)
        pair.quiesce()
    require([member for member in pair.up if member.serving], "one of them serves")
    require(pair.register.epoch <= 4, f"epochs run up: {pair.register.epoch}")
    x.send(pair.master or pair.a)
    pair.settle(200)
    ends_well(pair, x)


# -- start, rejoin, truncation -----------------------------------------------------------------------------------------


def number_used_twice() -> None:
    """A ships op1 as (1, n), crashes before its own fsync, restarts in epoch 1 and stores op2 as (1, n)."""
    pair, x = paired()
    x.send(pair.a)
    pair.a.pump()
    pair.deliver(pair.a)
    pair.b.commit()
    pair.crash(pair.a)
    pair.a.start()
    y = Producer(pair, "y")
    y.send(pair.a)
    pair.quiesce()
    ends_well(pair, x, y)


def tail_counts_before_the_cut() -> None:
    """B holds op1, op2 of epoch 1 that A lost by its crash. A opens epoch 2; B's tail is no copy of what A orders."""
    pair, x = paired()
    for _ in range(3):
        x.send(pair.a)
    pair.a.pump()
    while pair.deliver(pair.a):
        pair.b.commit()
    pair.crash(pair.a)
    pair.a.start()
    pair.connect()
    pair.quiesce(disks="a")
    assert pair.a.serving
    y = Producer(pair, "y")
    y.send(pair.a)
    pair.quiesce(disks="a")  # what B says now can only be about what it had
    ends_well(pair, x, y)


def stale_sync() -> None:
    """B has a claim open when the link returns; A, still in epoch 1, sends SYNC. B wins epoch 2, acknowledges op1
    alone, and then reads that frame.
    """
    pair, x = paired()
    pair.disconnect()
    pair.b.lost()
    pair.tick(400)
    pair.quiesce(keep=("claiming", "committing"))
    pair.connect()
    while pair.a.core.source.phase is Phase.IDLE:
        pair.deliver(pair.b)
        for call in [call for call in pair.calls if call.name == "get"]:
            pair.answer(call)
    pair.a.pump()
    pair.answer(pair.call(pair.b, "claiming"))
    pair.b.commit()
    pair.answer(pair.call(pair.b, "committing"))
    require(pair.b.serving, "B is master of epoch 2")
    x.send(pair.b)
    pair.b.commit()
    assert x.ops[-1].done is not None
    while pair.deliver(pair.a):
        pair.b.commit()
    y = Producer(pair, "y")
    y.send(pair.a)
    pair.quiesce(keep=("get",))
    ends_well(pair, x, y)


def late_hello() -> None:
    """B, new master of epoch 2, has sent SYNC; A's HELLO of epoch 1 arrives after it."""
    pair, x = paired()
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(500)
    assert pair.b.serving
    pair.a.start()
    pair.connect()
    old = PeerFrame.FromString(pair.wires["a"][0].SerializeToString())
    while pair.b.core.source.phase is Phase.IDLE:
        if not pair.deliver(pair.a):
            pair.quiesce(link=False)
    pair.b.pump()
    pair.b.take_frame(old)
    pair.settle(3000)
    require(pair.is_paired, f"both wait: {pair.describe()}")
    ends_well(pair, x)


# -- promotion ---------------------------------------------------------------------------------------------------------


def empty_disk() -> None:
    """B loses its disk while the register still names it; then A is gone."""
    pair, x = paired()
    pair.crash(pair.b)
    pair.b.store = MemoryStore(member="b", instance=b"new".ljust(16))
    pair.crash(pair.a)
    pair.b.start()
    pair.b.lost(refused=True)
    pair.settle(3000)
    require(not pair.b.serving, "an empty copy is master")
    ends_well(pair, x)


def outside_the_set() -> None:
    """B is away while A acknowledges op1 alone; then A is gone, and B comes back with a good mark of yesterday."""
    pair, x = paired()
    solo(pair, pair.a)
    x.send(pair.a)
    pair.settle(200)
    assert x.ops[-1].done is not None
    pair.crash(pair.a)
    pair.b.start()
    assert pair.b.shared.state.data.is_good
    pair.b.lost(refused=True)
    pair.settle(3000)
    require(not pair.b.serving, "a copy outside the committed set is master")
    ends_well(pair, x)


def half_a_transfer() -> None:
    """A is named by the register and needs a full transfer; in the middle of it both crash, and A comes back alone."""
    pair, x = paired()
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(500)
    pair.heal()
    a, b = pair.a, pair.b
    assert b.serving
    pair.disconnect()
    b.shared.state.kept_from = 1000  # B's journal does not reach back to where A is
    pair.connect()
    while not a.core.target.full:
        if not (pair.deliver(a) or pair.deliver(b)):
            pair.quiesce(link=False)
    a.commit()
    b.pump()
    assert pair.deliver_transfer(b)
    a.commit()
    pair.crash(b)
    pair.crash(a)
    a.start()
    a.lost(refused=True)
    pair.settle(3000)
    require(not a.serving, "half a copy is master")
    ends_well(pair, x)


ALL = (
    peer_has_not_written,
    master_has_not_written,
    replicas_own_answer,
    executed_twice,
    unknown_add,
    published_too_early,
    timeout_read_as_success,
    solo_before_the_register,
    own_number_plus_one,
    left_over_claim,
    claimant_crashes,
    duel,
    number_used_twice,
    tail_counts_before_the_cut,
    stale_sync,
    late_hello,
    empty_disk,
    outside_the_set,
    half_a_transfer,
)
