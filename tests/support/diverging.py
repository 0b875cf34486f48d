"""The stories of two histories: who is stopped, what is kept. Each raises only if a rule is broken."""

from __future__ import annotations

from dataclasses import replace

from failover.marks import DataMark, Role
from failover.register import RegisterState
from replica import step_aside
from tests.support.checks import require
from tests.support.clients import Producer, remaining
from tests.support.pair import NAME, NUMBER, Member, Pair
from tests.support.stories import ends_well, paired, solo
from tests.support.walk import trim

ALONE = 5


def force(pair: Pair, member: Member) -> None:
    """An operator's word at the witness: this member alone is in force, whatever the other one has acknowledged."""
    alone = frozenset({member.name})
    register = pair.register
    pair.registers._registers[NAME] = replace(
        register,
        version=register.version + 1,
        epoch=register.epoch + 1,
        holder=member.name,
        in_sync_set=alone,
        committed_set=alone,
        state=RegisterState.COMMITTED,
        nonce=b"operator",
    )
    pair.seen.clear()
    pair.checks.highest = None  # forced actions excuse what they say that they cost


def forced() -> tuple[Pair, Producer, Producer]:
    """A acknowledges `ALONE` operations alone and crashes; an operator forces B, which serves others alone."""
    pair, x = paired()
    solo(pair, pair.a)
    for _ in range(ALONE):
        x.send(pair.a)
    pair.settle(300)
    require(all(op.done is not None and op.done.copies == 1 for op in x.ops[1:]), "A answers alone")
    pair.crash(pair.a)
    pair.b.start()
    force(pair, pair.b)
    pair.b.lost(refused=True)
    pair.settle(1000)
    require(pair.b.serving, f"B was forced: {pair.describe()}")
    y = Producer(pair, "y")
    y.send(pair.b)
    pair.settle(300)
    require(y.ops[0].done is not None, "B answers alone")
    return pair, x, y


def contents(member: Member) -> list[bytes]:
    return [payload for _, payload in remaining(member)]


def meet(pair: Pair) -> None:
    """A comes back and meets B."""
    pair.a.start()
    pair.connect()
    pair.settle(3000)


def old_master_returns() -> None:
    """Following B would wipe what A acknowledged: A keeps it and says so, B goes on."""
    pair, _, _ = forced()
    held = pair.a.store.bounds(NUMBER)
    meet(pair)
    require(pair.a.store.bounds(NUMBER) == held, "acknowledged operations were cut")
    require(pair.a.role is Role.DIVERGED, f"A took part: {pair.describe()}")
    require(not pair.a.serving and pair.b.serving, "B goes on, A does not serve")
    require("alone" in pair.a.shared.state.diverged, "A says why")


def restarts_diverged() -> None:
    """A restart, a new connection and a loss of B change nothing of it."""
    pair, _, _ = forced()
    held = pair.a.store.bounds(NUMBER)
    meet(pair)
    pair.crash(pair.a)
    meet(pair)
    require(pair.a.role is Role.DIVERGED, f"a restart made A forget: {pair.describe()}")
    syncs = pair.b.core.source.sync_id
    pair.disconnect()
    pair.connect()
    pair.settle(3000)
    require(pair.b.core.source.sync_id == syncs, "B begins a transfer that A will refuse, again and again")
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(3000)
    require(pair.a.role is Role.DIVERGED and not pair.a.serving, f"A takes part: {pair.describe()}")
    require(pair.a.store.bounds(NUMBER) == held, "acknowledged operations were cut")


def meets_while_serving() -> None:
    """A never stopped serving alone when B was forced: it stops, and nothing of it is cut."""
    pair, x = paired()
    solo(pair, pair.a)
    for _ in range(ALONE):
        x.send(pair.a)
    pair.settle(300)
    pair.b.start()
    force(pair, pair.b)
    pair.b.lost(refused=True)
    pair.quiesce(link=False)
    for _ in range(20):
        pair.tick(100)
        for call in [call for call in pair.calls if call.member == "b"]:
            pair.answer(call)
        pair.b.commit()
    require(pair.b.serving, f"B was forced: {pair.describe()}")
    pair.connect()
    pair.settle(3000)
    require(pair.a.role is Role.DIVERGED, f"A took part: {pair.describe()}")
    require(contents(pair.a) == [op.payload for op in x.ops], "acknowledged operations were cut")


def epoch_without_entries() -> None:
    """A served alone and nobody asked it anything: DRBD's lazy rule. It follows the forced B."""
    pair, _ = paired()
    solo(pair, pair.a)
    pair.crash(pair.a)
    pair.b.start()
    force(pair, pair.b)
    pair.b.lost(refused=True)
    pair.settle(1000)
    y = Producer(pair, "y")
    y.send(pair.b)
    pair.settle(300)
    pair.a.start()
    pair.heal()
    require(pair.a.role is Role.REPLICA, f"nothing was lost, and yet: {pair.describe()}")
    pair.checks.equal()


def died_before_it_was_written() -> None:
    """A wins the solo epoch with an operation of the last one in its log, and dies before it is on disk that it is
    alone: the operation was not answered.
    """
    pair, x = paired()
    pair.cut()
    op = x.send(pair.a)
    pair.a.commit()
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.quiesce(keep=("committing",))
    pair.answer(pair.call(pair.a, "committing"))
    require(pair.a.serving, "the register has agreed")
    told = op.done is not None
    pair.crash(pair.a)
    pair.a.start()
    require(not told or pair.a.shared.state.solo_since > 0, "answered alone, and nobody will know")


def ordinary_tail() -> None:
    """A dies with a record that only it has, unanswered; B goes on. The cut tail is copied, nothing is marked in it."""
    pair, x = paired()
    pair.cut()
    op = x.send(pair.a)
    pair.a.commit()
    last = pair.a.shared.log.last_index
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(1000)
    pair.a.start()
    pair.heal()
    require(op.done is None, "nobody was answered")
    require((last, 1) in pair.a.salvaged, "a cut operation vanished")
    require(not any(pair.a.salvaged.values()), "nothing of it was acknowledged")


def dies_before_the_cut() -> None:
    """As the ordinary tail; A dies between the copy and the cut, and does both again."""
    pair, x = paired()
    pair.cut()
    x.send(pair.a)
    pair.a.commit()
    last = pair.a.shared.log.last_index
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(1000)
    pair.a.start()
    pair.connect()
    pair.quiesce(disks="b")
    pair.a.write()
    assert pair.a.writing is not None
    require(pair.a.writing.salvage, "the cut is asked for, and nothing is copied first")
    pair.a.salvage(pair.a.writing)
    pair.crash(pair.a)
    require(pair.a.store.read(NUMBER, last) is not None, "the cut did not happen")
    pair.heal()
    require(set(pair.a.salvaged) == {(last, 1)}, "the same records are copied, once")
    pair.checks.equal()


def full_transfer_wipes() -> None:
    """B has trimmed its log: A's tail goes with everything else, and is copied first."""
    pair, x = paired()
    pair.cut()
    x.send(pair.a)
    pair.a.commit()
    last = pair.a.shared.log.last_index
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(1000)
    y = Producer(pair, "y")
    for _ in range(3):
        y.send(pair.b)
        pair.settle(200)
    trim(pair.b)
    pair.b.commit()
    pair.a.start()
    pair.heal()
    require((last, 1) in pair.a.salvaged, "a wiped operation vanished")
    require(pair.a.shared.state.data is DataMark.IN_SYNC, "A is whole again")


def reconnect(pair: Pair) -> None:
    """What the shell does after an order: a transfer begins from a new HELLO."""
    pair.disconnect()
    pair.connect()
    pair.settle(3000)


def resolved_for_the_serving_one() -> None:
    """An operator keeps B's history: A copies its own, marked as acknowledged, and becomes B's replica."""
    pair, x, y = forced()
    meet(pair)
    require(step_aside.give_way(pair.a.core.replication, "test") == "", "A gives way")
    pair.a.dispatch(pair.a.core)
    pair.heal()
    pair.checks.equal()
    require(contents(pair.b) == [b"x/1", b"y/1"], "B's history stands")
    require(sum(pair.a.salvaged.values()) >= ALONE, "an acknowledged operation vanished")
    require(pair.a.shared.state.solo_since == 0 and not pair.a.shared.state.diverged, "A has forgotten it")
    require(len(x.ops) == ALONE + 1 and len(y.ops) == 1, "nobody sent anything meanwhile")


def gives_way_and_dies() -> None:
    """A dies when its word is on disk and before the transfer: it takes the transfer later, and claims nothing."""
    pair, _, _ = forced()
    meet(pair)
    require(step_aside.give_way(pair.a.core.replication, "test") == "", "A gives way")
    pair.a.dispatch(pair.a.core)
    pair.a.commit()
    pair.crash(pair.a)
    require(sum(pair.a.salvaged.values()) >= ALONE, "an acknowledged operation vanished")
    pair.a.start()
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(3000)
    require(not pair.a.serving, "an outdated copy serves")
    pair.heal()
    pair.checks.equal()


def resolved_for_the_stopped_one() -> None:
    """An operator keeps A's history: B steps down and copies its own, A becomes master by force, B its replica."""
    pair, x, _ = forced()
    meet(pair)
    require(pair.a.core.replication.force("test") != "", "A would serve beside B")
    require(step_aside.give_way(pair.b.core.replication, "test") == "", "B gives way")
    pair.b.dispatch(pair.b.core)
    pair.quiesce()
    require(pair.a.core.replication.force("test") == "", "A is forced")
    pair.a.dispatch(pair.a.core)
    pair.checks.highest = None
    pair.heal()
    pair.checks.equal()
    require(pair.master is pair.a, f"A leads: {pair.describe()}")
    require(contents(pair.a) == [op.payload for op in x.ops], "A's history stands")
    require(any(pair.b.salvaged.values()), "what B acknowledged vanished")
    pair.crash(pair.a)
    pair.a.start()
    pair.heal()
    require(not pair.a.shared.state.diverged, "A remembers what is over")


def gives_way_to_nobody() -> None:
    """Without another history the order is refused, whatever the role."""
    pair, _ = paired()
    for member in (pair.a, pair.b):
        require(step_aside.give_way(member.core.replication, "test") != "", f"{member.name} threw its copy away")
    pair.heal()
    pair.checks.equal()


def full_resync() -> None:
    """The replica takes everything anew although the logs are equal; the master refuses the same order."""
    pair, _ = paired()
    require(step_aside.resync(pair.a.core.replication, "test", full=True) != "", "a master takes a transfer")
    generation = pair.b.shared.generation
    require(step_aside.resync(pair.b.core.replication, "test", full=True) == "", "the replica takes it")
    pair.b.dispatch(pair.b.core)
    reconnect(pair)
    require(pair.is_paired, f"the pair is whole again: {pair.describe()}")
    require(pair.b.shared.generation > generation and not pair.b.shared.wants_full, "nothing was transferred")
    pair.checks.equal()


def outdated_never_promotes() -> None:
    """B is outdated, durably, by A which cannot reach it; then A dies: B must not take over, whatever the register."""
    pair, _ = paired()
    epoch = pair.a.shared.state.epoch
    pair.disconnect()
    require(step_aside.outdate(pair.b.core.replication, "test", by_member="a", epoch=epoch) == "", "B is outdated")
    pair.b.dispatch(pair.b.core)
    pair.b.commit()
    pair.crash(pair.b)
    pair.b.start()
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(3000)
    require(not pair.b.serving, "an outdated copy serves")
    pair.heal()
    pair.checks.equal()


def forged_outdate() -> None:
    """From a stranger, from an older epoch, or at a master: refused, and nothing has changed."""
    pair, _ = paired()
    a, b = pair.a.core.replication, pair.b.core.replication
    epoch = pair.a.shared.state.epoch
    pair.b.shared.state.promised_epoch = epoch + 1
    for replication, by_member, number in ((b, "c", 99), (b, "a", epoch), (a, "b", 99), (a, "", 0), (b, "b", 99)):
        why_not = step_aside.outdate(replication, "test", by_member=by_member, epoch=number)
        require(why_not != "", f"{by_member!r} outdates {replication.shared.member} with epoch {number}")
    pair.b.shared.state.promised_epoch = 0
    require(pair.is_paired, f"the pair is whole: {pair.describe()}")


def required_member_diverges() -> None:
    """A requires B when B finds out about two histories (a register that was put back): A goes on without it."""
    pair, x = paired()
    pair.b.core.replication._diverge("test", 0)
    pair.b.dispatch(pair.b.core)
    op = x.send(pair.a)
    pair.settle(2000)
    require(pair.b.role is Role.DIVERGED, f"B took part: {pair.describe()}")
    require(op.done is not None, f"A waits for a member that waits for an operator: {pair.describe()}")
    require(op.done is not None and op.done.copies == 1, "A answers alone")
    require(step_aside.give_way(pair.b.core.replication, "test") == "", "B gives way")
    pair.b.dispatch(pair.b.core)
    ends_well(pair, x)


def gives_way_after_trimming() -> None:
    """A has taken a checkpoint of what it answered alone and trimmed its log behind it; then it gives way to B, whose
    history parts from A's below that checkpoint: only a full transfer can bring A there.
    """
    pair, x = paired()
    trim(pair.a)
    solo(pair, pair.a)
    for _ in range(ALONE):
        x.send(pair.a)
        pair.settle(100)
    trim(pair.a)
    pair.a.commit()
    pair.crash(pair.a)
    pair.b.start()
    force(pair, pair.b)
    pair.b.lost(refused=True)
    pair.settle(1000)
    y = Producer(pair, "y")
    y.send(pair.b)
    pair.settle(300)
    meet(pair)
    require(pair.a.role is Role.DIVERGED, f"A took part: {pair.describe()}")
    require(step_aside.give_way(pair.a.core.replication, "test") == "", "A gives way")
    pair.a.dispatch(pair.a.core)
    pair.heal()
    pair.checks.equal()
    require(contents(pair.b) == [b"x/1", b"y/1"], "B's history stands")
    trim(pair.a)
    pair.a.commit()
    pair.crash(pair.a)
    pair.a.start()
    pair.heal()
    pair.checks.equal()


def two_owners_at_once() -> None:
    """Cut off from each other and from the register, each is told to go on, and both take one number. Both stop; an
    operator keeps A's history, and B's is copied.
    """
    pair, _ = paired()
    pair.disconnect()
    pair.checks.excused = True
    told = []
    for member in (pair.a, pair.b):
        # Of itself each takes a number that the other one cannot; a register that was put back gives one twice.
        member.core.replication.begin_unrecorded(frozenset({member.name}), "told to", epoch=2)
        member.dispatch(member.core)
        pair.quiesce(keep=("",), link=False)
        told.append(Producer(pair, f"of-{member.name}"))
        told[-1].send(member)
        pair.quiesce(keep=("",), link=False)
    require(all(producer.ops[0].done is not None for producer in told), "both answer alone")
    pair.connect()
    pair.quiesce(keep=("",))
    roles = (pair.a.role, pair.b.role)
    require(roles == (Role.DIVERGED, Role.DIVERGED), f"one wiped the other, or is about to: {pair.describe()}")
    require(step_aside.give_way(pair.b.core.replication, "test") == "", "B gives way")
    pair.b.dispatch(pair.b.core)
    pair.settle(500)
    require(pair.a.core.replication.force("test") == "", "A is forced")
    pair.a.dispatch(pair.a.core)
    pair.heal()
    pair.checks.equal()
    require(contents(pair.a) == [b"x/1", b"of-a/1"], "A's history stands")
    require(any(pair.b.salvaged.values()), "what B acknowledged vanished")
    require(not any(pair.a.salvaged.values()), "nothing of A went")


def one_number_twice_and_trimmed() -> None:
    """Each was told to go on alone, one after the other, and both took one number; B was recorded later and has trimmed
    the record that shows whose epoch it was. A comes back: nothing proves that B has what A acknowledged.
    """
    pair, _ = paired()
    pair.disconnect()
    pair.checks.excused = True
    pair.witness_away = True
    for member in (pair.a, pair.b):
        member.core.replication.begin_unrecorded(frozenset({member.name}), "told to", epoch=99)
        member.dispatch(member.core)
        pair.quiesce(keep=("",), link=False)
        for number in range(3):
            Producer(pair, f"of-{member.name}{number}").send(member)
            pair.quiesce(keep=("",), link=False)
    pair.crash(pair.a)
    pair.witness_away = False
    for _ in range(2):
        pair.b.lost(refused=True)
        pair.settle(2000)
        Producer(pair, f"later-{pair.now_ms}").send(pair.b)
        pair.settle(300)
        trim(pair.b)
        pair.b.commit()
        pair.crash(pair.b)
        pair.b.start()
    pair.b.lost(refused=True)
    pair.settle(2000)
    trim(pair.b)
    pair.b.commit()
    held = pair.a.store.bounds(NUMBER)
    meet(pair)
    require(pair.a.role is Role.DIVERGED, f"acknowledged operations went in silence: {pair.describe()}")
    require(pair.a.store.bounds(NUMBER) == held, "acknowledged operations were cut")
    require(pair.b.serving, "B goes on")


def unanswered_tail_after_rejoin() -> None:
    """A was alone; B is in step again. A dies before it is on disk that nothing is alone any more, with an operation on
    disk that nobody was told of: B must not be named yet, or the cut of that operation would look like a loss.
    """
    pair, x = paired()
    solo(pair, pair.a)
    pair.b.start()
    pair.connect()
    for _ in range(1000):
        if pair.wires["b"] and pair.wires["b"][0].HasField("open_ack"):
            break
        if not (pair.deliver(pair.a) or pair.deliver_transfer(pair.a)):
            pair.b.commit()
            while pair.b.rebuilds:
                pair.b.rebuilt()
            pair.b.pump()
            if not (pair.wires["b"] and pair.wires["b"][0].HasField("open_ack")):
                pair.deliver(pair.b)
                pair.a.commit()
                for call in list(pair.calls):
                    pair.answer(call)
    assert pair.wires["b"][0].HasField("open_ack"), pair.describe()
    op = x.send(pair.a)
    pair.a.write()
    pair.deliver(pair.b)
    for call in list(pair.calls):
        pair.answer(call)
    pair.crash(pair.a, written=True)
    pair.b.lost(refused=True)
    pair.settle(1000)
    require(op.done is None, "nobody was told")
    pair.a.start()
    pair.connect()
    pair.settle(2000)
    require(Role.DIVERGED not in (pair.a.role, pair.b.role), f"nothing was lost, and yet: {pair.describe()}")
    ends_well(pair, x)


ALL = (
    old_master_returns,
    restarts_diverged,
    meets_while_serving,
    epoch_without_entries,
    died_before_it_was_written,
    ordinary_tail,
    dies_before_the_cut,
    full_transfer_wipes,
    resolved_for_the_serving_one,
    gives_way_and_dies,
    resolved_for_the_stopped_one,
    gives_way_to_nobody,
    full_resync,
    outdated_never_promotes,
    forged_outdate,
    required_member_diverges,
    gives_way_after_trimming,
    two_owners_at_once,
    one_number_twice_and_trimmed,
    unanswered_tail_after_rejoin,
)
