"""A start is counted at the register once, whatever becomes of the answers; an older copy is found all the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from chaos.sim.kernel.loop import Process, make_loop
from chaos.sim.kernel.register import Route, SimAuthority, SimRegister
from failover.authority import CasDone
from failover.marks import DataMark, Role
from failover.register import NONCE_BYTES_MAX, Register, RegisterState, claim, commit
from replica.core.mastership.register_view import NAME_MAX, nonce_of, short
from replica.machine import Limits
from replica.node.loop import Node
from replica.node.recovery import open_shared
from replica.peer.identity import incarnation
from replica.peer.identity.proving import Proving
from replica.peer.identity.starts import NUMBER_MAX, Starts
from replica.peer.identity.starts import Start as Begun
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.seal import unseal
from storage.store import WriteBatch
from tests.support.domains import domain_over
from tests.support.listening import quiet_node

Result = TypeVar("Result")
NAME = incarnation.register_name("a")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """In virtual time: threads take none, waiting takes no real time."""
    loop = make_loop()
    task = loop.spawn(Process("a"), work)
    task.add_done_callback(lambda _task: loop.halt())
    loop.run(3600)
    return task.result()


async def until(time_s: float) -> None:
    """Virtual time is that far."""
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_at(time_s, reached.set_result, None)
    await reached


def begun(number: int, process: bytes = b"own") -> Starts:
    """Nothing is known of what was before."""
    return Starts((), (Begun.of(number, process),))


def other(number: int) -> Begun:
    """What somebody else says that it has seen."""
    return Begun.of(number, b"other")


class Start:
    """One start of member a on a good copy, and its way to the register."""

    def __init__(self, register: SimRegister | None = None) -> None:
        self.register = register or SimRegister(random.Random(1))
        self.route = Route("a", self.register, random.Random(2), delay_s=0)
        self.store = MemoryStore(pair="p", member="a")
        self.told: list[str] = []
        self.numbers: list[int] = []
        self.when_old: Callable[[], None] = lambda: None

    def on_old(self, text: str) -> None:
        self.told.append(text)
        self.when_old()

    def on_number(self, number: int) -> None:
        self.numbers.append(number)

    def node(self, number: int) -> Node:
        node = quiet_node(self.store, SimAuthority(self.route))
        node.start()
        self.shared = open_shared(self.store, 7, "main", "a", "b", number, Limits())
        self.shared.mark(DataMark.IN_SYNC)
        node.domains[7] = domain_over(self.store, self.shared)
        return node

    async def prove(self, number: int) -> int:
        node = self.node(number)
        try:
            own = self.own(node, number)
            await incarnation.prove(own, SimAuthority(self.route), "a")
            return own.starts.number
        finally:
            await node.stop()

    def own(self, node: Node, number: int) -> incarnation.Own:
        return incarnation.Own(node, begun(number), self)

    @property
    def mark(self) -> DataMark:
        return self.shared.state.data


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_start_whose_answers_are_lost_is_no_older_copy(lost: int) -> None:
    start = Start()
    start.route.lose_answers(lost)
    assert run(start.prove(1)) == 1
    assert start.mark is DataMark.IN_SYNC
    assert not start.told
    assert start.register.get(NAME).state is RegisterState.COMMITTED


@pytest.mark.parametrize("committed", [True, False])
def test_an_older_copy_is_found_though_it_counts_the_same_start(committed: bool) -> None:
    """Another process made the claim of the start that the image does not know: not even a CLAIMED one is ours."""
    start = Start()
    other = claim(Register(), member="a", epoch=2, members=frozenset({"a"}), nonce=b"a/2/someone")
    assert isinstance(start.register.set(NAME, Register(), other), CasDone)
    if committed:
        assert isinstance(start.register.set(NAME, other, commit(other, nonce=other.nonce)), CasDone)
    assert run(start.prove(2)) == 3
    assert start.mark is DataMark.STALE
    assert len(start.told) == 1, "the peer must hear of it on a new connection"


@pytest.mark.parametrize(("own", "replaced"), [(1, True), (2, False), (3, False)])
def test_a_start_is_replaced_by_a_later_one_alone(own: int, replaced: bool) -> None:
    async def story() -> None:
        start = Start()
        other = claim(Register(), member="a", epoch=2, members=frozenset({"a"}), nonce=b"a/2/someone")
        assert isinstance(start.register.set(NAME, Register(), other), CasDone)
        authority = SimAuthority(start.route)
        assert await incarnation.is_replaced(authority, "a", own) is replaced
        start.register.down()
        assert not await incarnation.is_replaced(authority, "a", own), "nothing is known"

    run(story())


class Refused:
    """A start that was counted, as number 5, and what becomes of it when the peer refuses it."""

    def __init__(self) -> None:
        self.start = Start()
        self.node = self.start.node(5)
        self.numbers: list[int] = []
        authority = SimAuthority(self.start.route)
        self.own = self.start.own(self.node, 5)
        self.proving = Proving(self.own, authority, "a", self.numbers.append)

    @property
    def may_claim(self) -> bool:
        return self.node.domains[7].mastership.claims.may_claim


@pytest.mark.parametrize(("seen", "number"), [(0, 5), (4, 5), (5, 6), (9, 10)])
def test_what_the_peer_has_seen_counts_where_the_register_has_lost_its_count(seen: int, number: int) -> None:
    """Another process had that number: this copy is not the one that the peer knows, whatever the register says."""

    async def story() -> None:
        case = Refused()
        await case.proving.run()
        case.proving.on_refused(other(seen) if seen else None)
        await until(5)
        older = number != 5
        assert case.numbers == ([5, number] if older else [5])
        assert case.start.mark is (DataMark.STALE if older else DataMark.IN_SYNC)
        assert len(case.start.told) == older, "the peer must hear of it on a new connection"
        assert case.start.register.get(NAME).epoch == number
        assert case.node.domains[7].shared.incarnation == number
        assert case.may_claim
        case.proving.on_refused(other(number))
        await until(10)
        assert case.numbers[-1] == number + 1, "it can be told once more"
        assert (await incarnation.begin(case.node, b"")).number == number + 2, "the next start goes on from there"
        await case.node.stop()

    run(story())


def test_who_is_told_so_has_no_vote_until_the_register_has_counted_it() -> None:
    async def story() -> None:
        case = Refused()
        await case.proving.run()
        case.start.register.down()
        case.proving.on_refused(other(5))
        await until(60)
        assert not case.may_claim
        assert case.start.mark is DataMark.STALE
        case.start.register.up()
        await until(70)
        assert case.may_claim
        assert case.numbers == [5, 6]
        await case.node.stop()

    run(story())


@pytest.mark.parametrize("called", [True, False])
def test_what_the_peer_has_seen_counts_too_before_the_register_has_counted_anything(called: bool) -> None:
    """An emptied register would agree to any number; whoever is called is filled meanwhile, and has no vote."""

    async def story() -> None:
        case = Refused()
        case.start.register.down()
        running = asyncio.ensure_future(case.proving.run())
        await until(5)
        if called:
            assert case.proving.on_seen(other(9))
            await until(6)
            assert not case.proving.on_seen(other(9)), "that would last for as long as the register is away"
            assert case.start.mark is DataMark.STALE
        else:
            case.proving.on_refused(other(9))
        await until(10)
        assert not case.numbers
        case.start.register.up()
        await running
        assert case.numbers == [10]
        assert case.start.register.get(NAME).epoch == case.node.domains[7].shared.incarnation == 10
        assert case.start.mark is DataMark.STALE
        assert len(case.start.told) == 1, "the peer must hear of it on a new connection"
        await case.node.stop()

    run(story())


def test_who_is_called_connects_with_no_number_that_was_there_before() -> None:
    async def story() -> None:
        case = Refused()
        await case.proving.run()
        assert not case.proving.on_seen(other(4)), "an earlier start of this member"
        assert case.proving.on_seen(other(5))
        case.start.register.down()
        await until(60)
        assert case.proving.on_seen(other(5)), "for as long as it takes"
        assert not case.may_claim
        case.start.register.up()
        await until(70)
        assert case.may_claim
        assert case.numbers == [5, 6]
        assert not case.proving.on_seen(other(5))
        await case.node.stop()

    run(story())


def test_who_is_told_connects_with_nobody_before_it_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should it end before that, the peer would have forgotten what the next process must be told."""

    async def story() -> None:
        case = Refused()
        write, connects = case.node.write, []

        def watched(put: Callable[[WriteBatch], None]) -> Awaitable[None]:
            connects.append(not case.proving.on_seen(other(9)))
            return write(put)

        monkeypatch.setattr(case.node, "write", watched)
        case.start.register.down()
        running = asyncio.ensure_future(case.proving.run())
        assert case.proving.on_seen(other(9))
        await until(6)
        assert connects == [False]
        assert not case.proving.on_seen(other(9))
        running.cancel()
        await case.node.stop()

    run(story())


def test_an_older_copy_is_marked_by_the_same_transaction_that_gives_it_another_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Should it end between two, the next start would be beyond what anybody has seen, and its copy count as good."""

    async def story() -> None:
        case = Refused()
        store, found = case.start.store, []
        commit = store.commit

        def watched(batch: WriteBatch) -> None:
            commit(batch)
            last = unseal(store.get_meta(incarnation.INCARNATION) or b"", "number of the last start")
            kept = open_shared(store, 7, "main", "a", "b", 1, Limits())
            found.append((int.from_bytes(last, "big"), kept.state.data))

        case.start.shared.outbox.persist_state()
        case.node.dispatch(case.node.domains[7])
        await case.own.write(case.own.starts)
        monkeypatch.setattr(store, "commit", watched)
        await case.proving.run()
        case.proving.on_refused(other(9))
        await until(5)
        assert set(found) == {(5, DataMark.IN_SYNC), (10, DataMark.STALE)}
        await case.node.stop()

    run(story())


@pytest.mark.parametrize("told_by", ["the peer", "the register"])
def test_a_master_whose_place_was_taken_serves_no_longer_and_has_no_vote(told_by: str) -> None:
    """Its connection may be there still, or come again at once: only its own step ends the mastership."""

    async def story() -> None:
        case = Refused()
        await case.proving.run()
        domain = case.node.domains[7]
        domain.shared.role = Role.MASTER
        domain.shared.serving = True
        found: list[tuple[Role, bool, bool]] = []
        case.start.when_old = lambda: found.append((domain.shared.role, domain.shared.serving, case.may_claim))
        if told_by == "the register":
            before = case.start.register.get(NAME)
            later = claim(before, member="a", epoch=6, members=frozenset({"a"}), nonce=b"a/6/someone")
            assert isinstance(case.start.register.set(NAME, before, later), CasDone)
        case.proving.on_refused(other(5) if told_by == "the peer" else None)
        await until(5)
        assert found == [(Role.PROBE, False, False)]
        assert case.may_claim, "it is counted once more"
        await case.node.stop()

    run(story())


def test_who_is_told_twice_at_once_is_counted_once_it_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk hangs: until then the next process would not know the number."""

    async def story() -> None:
        case = Refused()
        await case.proving.run()
        write = case.node.write

        async def slowly(put: Callable[[WriteBatch], None]) -> None:
            await until(30)
            await write(put)

        monkeypatch.setattr(case.node, "write", slowly)
        case.proving.on_refused(other(5))
        case.proving.on_refused(other(5))
        await until(20)
        assert case.start.register.get(NAME).epoch == 5
        await until(40)
        assert case.start.register.get(NAME).epoch == 6
        assert case.numbers == [5, 6]
        assert len(case.start.told) == 1
        await case.node.stop()

    run(story())


def test_who_is_told_while_it_looks_is_counted_anew() -> None:
    """The look alone would find that nobody has replaced it, and end; and it had given its vote up."""

    async def story() -> None:
        case = Refused()
        await case.proving.run()
        case.proving.on_refused(None)
        case.proving.on_refused(other(9))
        await until(5)
        assert case.numbers == [5, 10]
        assert case.may_claim
        assert case.start.register.get(NAME).epoch == 10
        await case.node.stop()

    run(story())


@pytest.mark.parametrize("call", ["_count", "write"])
def test_who_is_told_while_it_is_being_counted_is_counted_anew(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whatever was under way was about the number before."""

    async def story() -> None:
        case = Refused()
        of: Any = incarnation if call == "_count" else case.own
        original, told = getattr(of, call), []

        async def telling(*arguments: Any) -> Any:
            done = await original(*arguments)
            if not told:
                told.append(call)
                await case.own.give_way(other(9), "the peer")
            return done

        monkeypatch.setattr(of, call, telling)
        await case.proving.run()
        assert case.numbers == [10]
        assert case.start.register.get(NAME).epoch == case.own.starts.number == 10
        await case.node.stop()

    run(story())


def test_it_goes_on_asking_while_the_register_is_away() -> None:
    async def story() -> None:
        start = Start()
        start.register.down()
        proving = asyncio.ensure_future(start.prove(1))
        await until(60)
        assert not proving.done()
        start.register.up()
        assert await proving == 1

    run(story())


def test_a_damaged_count_of_starts_is_not_believed() -> None:
    """With a flipped bit an old copy could count itself beyond every start that the register has seen."""

    async def story() -> None:
        store = MemoryStore()
        node = quiet_node(store)
        node.start()
        assert [(await incarnation.begin(node, b"p")).number for _ in range(2)] == [1, 2]
        stored = bytearray(store.get_meta(incarnation.INCARNATION) or b"")
        stored[-1] ^= 0x40
        await node.write(lambda batch: batch.meta.__setitem__(incarnation.INCARNATION, bytes(stored)))
        with pytest.raises(CorruptRecord, match="number of the last start"):
            await incarnation.begin(node, b"p")
        await node.write(lambda batch: batch.meta.__setitem__(incarnation.INCARNATION, (7).to_bytes(8, "big")))
        assert (await incarnation.begin(node, b"p")).number == 8, "what was written before there was a checksum is read"
        await node.stop()

    run(story())


@pytest.mark.parametrize("number", [1, 10, NUMBER_MAX - 1])
@pytest.mark.parametrize("length", [NAME_MAX, NAME_MAX + 1, 64])
def test_a_member_with_a_long_name_is_counted(length: int, number: int) -> None:
    """What the register takes as a nonce has 64 bytes; a name may have as many."""

    async def story() -> None:
        start = Start()
        node = start.node(number)
        own = incarnation.Own(node, Starts((), (Begun.of(number, b"process1"),)), start)
        await incarnation.prove(own, SimAuthority(start.route), "m" * length)
        found = start.register.get(incarnation.register_name("m" * length))
        assert (found.epoch, found.nonce[-8:], len(found.nonce) <= NONCE_BYTES_MAX) == (number, b"process1", True)
        await node.stop()

    run(story())


def test_long_names_that_begin_alike_stay_apart() -> None:
    assert len({short("m" * 60 + name) for name in "ab"}) == 2
    assert short("node-a") == "node-a"
    assert len(short("m" * 64)) == NAME_MAX
    longest: Any = SimpleNamespace(member="m" * 64, incarnation=NUMBER_MAX - 1)
    assert len(nonce_of(longest, (1 << 63) - 1)) <= NONCE_BYTES_MAX


@pytest.mark.parametrize("again", [5, 0])
def test_who_is_refused_again_while_its_disk_is_slow_is_counted_once_it_is_written(
    monkeypatch: pytest.MonkeyPatch, again: int
) -> None:
    """Should the process end before, the next one would not know the number that the register has."""

    async def story() -> None:
        case = Refused()
        await case.proving.run()
        write, written = case.node.write, asyncio.Event()

        async def slowly(put: Callable[[WriteBatch], None]) -> None:
            await written.wait()
            await write(put)

        monkeypatch.setattr(case.node, "write", slowly)
        case.proving.on_refused(other(5))
        await until(10)
        case.proving.on_refused(other(again) if again else None)
        await until(20)
        assert case.start.register.get(NAME).epoch == 5
        written.set()
        await until(60)
        assert case.start.register.get(NAME).epoch == 6
        assert case.may_claim
        await case.node.stop()

    run(story())


class Slow:
    """The writes of a node, each once it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
        self.waiting: list[asyncio.Event] = []
        write = node.write

        async def slowly(put: Callable[[WriteBatch], None]) -> None:
            gate = asyncio.Event()
            self.waiting.append(gate)
            await gate.wait()
            await write(put)

        monkeypatch.setattr(node, "write", slowly)


def test_a_start_that_waits_for_the_register_is_counted_once_its_new_number_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The register answers while the disk hangs: a number that the disk has not got is a stranger's afterwards."""

    async def story() -> None:
        case = Refused()
        case.start.register.down()
        case.node.spawn(case.proving.run())
        await until(5)
        disk = Slow(monkeypatch, case.node)
        assert case.proving.on_seen(other(9))
        await until(10)
        case.start.register.up()
        await until(40)
        assert case.start.register.get(NAME).epoch == 0
        for _ in range(3):
            disk.waiting[-1].set()
            await until(60)
        assert case.start.register.get(NAME).epoch == 10
        await case.node.stop()

    run(story())


def test_a_new_number_is_told_once_when_the_last_of_two_writes_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer has to hear of it before this member is filled under it (0032)."""

    async def story() -> None:
        case = Refused()
        told = case.start.numbers
        disk = Slow(monkeypatch, case.node)
        writes = [asyncio.ensure_future(case.own.write(case.own.starts.after(other(9)))) for _ in range(2)]
        await until(5)
        for gate in disk.waiting:
            assert not told
            gate.set()
            await until(10)
        await asyncio.gather(*writes)
        assert told == [case.own.starts.number]
        await case.node.stop()

    run(story())


def test_a_start_that_was_counted_under_the_whole_of_a_long_name_is_an_own_one() -> None:
    """Nonces have a short form of it since."""

    async def story() -> None:
        start, name = Start(), "m" * 40
        node = start.node(5)
        before = Begun.of(4, b"process1")
        head = f"{name}/4/".encode()
        other = claim(Register(), member=name, epoch=4, members=frozenset({name}), nonce=head + before.process)
        assert isinstance(start.register.set(incarnation.register_name(name), Register(), other), CasDone)
        own = incarnation.Own(node, Starts((before,), (before, Begun.of(5, b"process2"))), start)
        await incarnation.prove(own, SimAuthority(start.route), name)
        assert (own.starts.number, start.mark) == (5, DataMark.IN_SYNC)
        await node.stop()

    run(story())
