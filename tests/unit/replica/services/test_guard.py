"""The guard at both members of a pair of two cores: whose word it takes, and by which rights it decides."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import grpc.aio
import pytest

from replica.core.state.calls import PendingCall
from replica.machine import RightCall
from replica.machine.state.rights import ALL, BROWSE, CONSUME, PRODUCE, Grant, Key, Rights
from replica.node.access import PRINCIPAL, Access
from replica.node.members import HOP
from replica.services.guard import ENTRIES_MAX, row_of
from replica.services.messages import unit_owners
from tandemq.errors import from_rpc_error
from tandemq.finding.directory import Directory
from tandemq.v1 import queue_service_pb2 as messages
from tandemq.v1 import rights_service_pb2 as pb
from tandemq.v1 import transaction_service_pb2 as transactions
from tandemq.v1.journal_service_pb2 import GetJournalHeadRequest
from tandemq.v1.queue_service_pb2 import WatchQueuesRequest
from tests.support.certified import Certificates, CertifiedPair
from tests.support.clients import Waiter, create
from tests.support.pair import Pair

OPS, BILLING, SHOP = "principal/ops", "principal/billing", "principal/shop"
Story = Callable[[CertifiedPair], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def run(certificates: Certificates) -> Callable[[Story], None]:
    pair = Pair().start()
    create(pair, "orders")
    create(pair, "secret")

    def play(story: Story) -> None:
        async def played() -> None:
            await story(CertifiedPair(certificates, pair))

        asyncio.run(played())

    return play


def master_of(made: CertifiedPair) -> str:
    assert made.pair.master is not None
    return made.pair.master.name


def other(member: str) -> str:
    return "b" if member == "a" else "a"


async def grant(made: CertifiedPair, member: str, who: str, right: int, queue: str, *, revoked: bool = False) -> None:
    method, kind, reply = (
        ("RevokeRight", pb.RevokeRightRequest, pb.RevokeRightResponse)
        if revoked
        else ("GrantRight", pb.GrantRightRequest, pb.GrantRightResponse)
    )
    request = kind(request_id=f"{method}{who}{right}{queue}".encode()[-16:].rjust(16), principal=who)
    request.right, request.pattern = right, queue  # type: ignore[assignment]  # numbers of the enum
    await made.call(OPS, member, f"RightsService/{method}", request, reply)


async def begin(made: CertifiedPair, who: str, member: str, queue: str = "orders") -> bytes:
    """Lets one in that has any right on that queue."""
    request = transactions.BeginRequest(queue=queue, request_id=b"r" * 16)
    reply = await made.call(who, member, "TransactionService/Begin", request, transactions.BeginResponse)
    return reply.unit_id


async def why(work: Awaitable[object]) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    return from_rpc_error(caught.value).reason


# -- what counts ---------------------------------------------------------------------------------------------------


async def a_grant_that_is_ordered_and_not_committed(made: CertifiedPair) -> None:
    """1. The master has ordered a grant, and its replica has not got it. 2. It lets nobody in, at either member."""
    master = master_of(made)
    granting = asyncio.ensure_future(grant(made, master, BILLING, PRODUCE, "orders"))
    await until(lambda: bool(made.members[master].home().shared.machine.state.rights.pending))  # type: ignore[union-attr]  # serves
    for member in (master, other(master)):
        assert await why(begin(made, BILLING, member)) == "QUEUE_NOT_FOUND"
    await made.while_stepping(granting)
    for member in (master, other(master)):
        await made.while_stepping(begin(made, BILLING, member))


async def a_client_that_says_himself_who_he_is(made: CertifiedPair) -> None:
    """A hop is believed from the pinned peer: from no client, and from no member of another pair."""
    request = pb.GrantRightRequest(request_id=b"q" * 16, principal=BILLING, right=PRODUCE, pattern="orders")  # type: ignore[arg-type]  # number
    for who in (BILLING, "member/west/a"):
        for said in (((PRINCIPAL, OPS),), ((HOP, "b"),), ((HOP, "b"), (PRINCIPAL, OPS))):
            for member in ("a", "b"):
                call = made.call(who, member, "RightsService/GrantRight", request, pb.GrantRightResponse, metadata=said)
                assert await why(made.while_stepping(call)) == "PERMISSION_DENIED"


STORIES = (a_grant_that_is_ordered_and_not_committed, a_client_that_says_himself_who_he_is)


@pytest.mark.parametrize("story", STORIES)
def test_only_committed_rights_and_the_peers_word_count(run: Callable[[Story], None], story: Story) -> None:
    run(story)


def by_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """Rights count when they are ordered."""
    original = Rights.change

    def change(self: Rights, log_index: int, key: Key, granted: Grant | None, version: int) -> None:
        original(self, log_index, key, granted, version)
        self.in_force.set(key, granted, version)

    patch.setattr(Rights, "change", change)


def hop_believed_from_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whoever says that it carries somebody's call is taken for that one."""

    def caller(_self: Access, context: Any) -> str:
        said = dict(context.invocation_metadata())
        return str(said.get(PRINCIPAL, "")) or original(_self, context)

    original = Access.caller
    patch.setattr(Access, "caller", caller)
    patch.setattr(Access, "claims_of", lambda _self, _context: [])


@pytest.mark.parametrize(
    ("plant", "story"), [(by_what_is_not_committed, STORIES[0]), (hop_believed_from_anybody, STORIES[1])]
)
def test_a_planted_bug_of_rights_is_found(
    run: Callable[[Story], None],
    story: Story,
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the stories above fails when its rule is taken out of the product."""
    plant(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        run(story)


# -- what is open --------------------------------------------------------------------------------------------------


def version(made: CertifiedPair, member: str) -> int:
    return made.guards[member].access.in_force.version


def order(made: CertifiedPair, who: str, right: int, queue: str, *, revoked: bool = False) -> None:
    """At the master, without its door."""
    member = made.pair.master
    assert member is not None
    call = RightCall(who, right, queue, revoked, None, OPS, b"", 0)
    member.core.submit(PendingCall(Waiter(), call), made.pair.wall_ms)
    member.dispatch(member.core)


async def opened(made: CertifiedPair, member: str, who: str, *queues: str) -> asyncio.Task[object]:
    """A stream that shows queues, as far as its guard goes: let in, and then open until somebody ends it."""
    guard, row = made.guards[member], row_of("/tandemq.v1.QueueService/WatchQueues")
    request = WatchQueuesRequest(watches=[{"queue": each} for each in queues]).SerializeToString()

    async def stays(_request: object, _context: object) -> None:
        await asyncio.get_running_loop().create_future()

    async def stream() -> object:
        context = made.context(who)
        admitted = await guard.admit(row, request, context)
        return await guard.carried_out(admitted, stays, request, context)

    return asyncio.ensure_future(stream())


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def ended(stream: asyncio.Task[object]) -> None:
    await turns()
    assert stream.done()
    assert isinstance(stream.exception(), grpc.aio.AbortError)


def test_a_replica_that_has_not_heard_of_a_grant_asks_the_master_and_ends_nothing_for_it(
    run: Callable[[Story], None],
) -> None:
    """1. Both members know a grant of somebody else. 2. One for billing is committed, and the replica has not heard so.
    3. It asks the master, and lets billing in. 4. It looks at what is open again: as far as it knows billing has no
    right, but what it knows is older than what it was answered by. 5. It hears of it, and then of the end of it.
    """

    async def story(made: CertifiedPair) -> None:
        master = master_of(made)
        replica = other(master)
        order(made, SHOP, CONSUME, "orders")
        made.pair.settle(200)
        order(made, BILLING, CONSUME, "orders")
        while version(made, master) < 2:
            assert made.pair.one()
        assert version(made, replica) == 1
        stream = await opened(made, replica, BILLING, "orders")
        await turns()
        made.guards[replica].look(0)
        await turns()
        assert not stream.done()
        made.pair.settle(200)
        assert version(made, replica) == 2
        made.guards[replica].look(0)
        await turns()
        assert not stream.done()
        order(made, BILLING, CONSUME, "orders", revoked=True)
        made.pair.settle(200)
        made.guards[replica].look(0)
        await ended(stream)

    run(story)


def test_a_right_that_goes_while_another_one_is_asked_about_opens_nothing(run: Callable[[Story], None]) -> None:
    """1. Billing has a right on orders at both members. 2. It opens a stream for both at the replica, which asks
    the master about secret. 3. The right on orders goes, and all that is open is looked at. 4. The master says
    yes to secret.
    """

    async def story(made: CertifiedPair) -> None:
        master = master_of(made)
        replica = other(master)
        order(made, BILLING, CONSUME, "orders")
        made.pair.settle(200)
        made.late = True
        stream = await opened(made, replica, BILLING, "orders", "secret")
        await turns()
        order(made, BILLING, CONSUME, "orders", revoked=True)
        order(made, BILLING, CONSUME, "secret")
        made.pair.settle(200)
        made.guards[replica].look(0)
        made.late = False
        made.members[master].on_change()
        await turns()
        await ended(stream)

    run(story)


def test_a_takeover_between_a_grant_and_its_answer_keeps_what_both_have(run: Callable[[Story], None]) -> None:
    """1. The master orders a grant, and the replica has it. 2. The master dies before it is committed anywhere. 3. The
    survivor commits it as it takes over: the repetition of the call changes nothing, and the right is there.
    """

    async def story(made: CertifiedPair) -> None:
        master = made.pair.master
        assert master is not None
        granting = asyncio.ensure_future(grant(made, master.name, BILLING, PRODUCE, "orders"))
        await turns()
        survivor = master.peer
        while survivor.shared.log.stored_index < master.shared.log.last_index:
            assert made.pair.one()
        assert version(made, master.name) == 0
        granting.cancel()
        made.pair.crash(master)
        assert version(made, survivor.name) == 0
        survivor.lost(refused=True)
        made.pair.settle(1_500)
        assert made.pair.master is survivor
        await made.while_stepping(grant(made, survivor.name, BILLING, PRODUCE, "orders"))
        assert version(made, survivor.name) == 1
        await made.while_stepping(begin(made, BILLING, survivor.name))

    run(story)


# -- requests ------------------------------------------------------------------------------------------------------


def transact(**fields: Any) -> transactions.TransactRequest:
    return transactions.TransactRequest(request_id=os.urandom(16), **fields)


async def put(made: CertifiedPair, who: str, request: transactions.TransactRequest) -> transactions.TransactResponse:
    path = "TransactionService/Transact"
    return await made.while_stepping(made.call(who, master_of(made), path, request, transactions.TransactResponse))


def test_only_a_member_of_a_pair_sends_as_its_link(run: Callable[[Story], None]) -> None:
    """Who sends as a link may set what managers alone set, and its writer counts what it has sent: one that somebody
    else uses makes the link's next messages repetitions, which nobody gets.
    """

    async def story(made: CertifiedPair) -> None:
        for who in (BILLING, "member/west/a"):
            order(made, who, PRODUCE, ALL)
        made.pair.settle(200)
        puts: Any = [{"queue": "orders", "messages": [{"payload": b"x"}]}]
        linked: Any = {"writer": "xmit/west/main/p", "number": 1, "query_id": "h"}
        for request in (transact(puts=puts, forwarder="west"), transact(puts=puts, **linked)):
            assert await why(put(made, BILLING, request)) == "PERMISSION_DENIED"
        for request in (transact(puts=puts, forwarder="east"), transact(puts=puts, **linked | {"writer": "xmit/p/m"})):
            assert await why(put(made, "member/west/a", request)) == "PERMISSION_DENIED"
        await put(made, BILLING, transact(puts=puts, writer="mine", number=1, query_id="h"))
        await put(made, "member/west/a", transact(puts=puts, forwarder="west", **linked))

    run(story)


def test_x5_a_link_sends_on_by_this_manager_what_it_may_produce_at_the_other(run: Callable[[Story], None]) -> None:
    """The right is asked for the full name: `**` is of queues here. For who has none of it, the queue is not there."""

    async def story(made: CertifiedPair) -> None:
        puts: Any = [{"queue": "//north/orders", "messages": [{"payload": b"x"}]}]
        for pattern in (ALL, "orders", "//south/**", "//north:billing/**"):
            order(made, "member/west/a", PRODUCE, pattern)
            made.pair.settle(200)
            sent = put(made, "member/west/a", transact(puts=puts, forwarder="west"))
            assert await why(sent) == "QUEUE_NOT_FOUND", pattern
        order(made, "member/west/a", PRODUCE, "//north/**")
        made.pair.settle(200)
        made.guards[master_of(made)].members.directory = Directory(list)
        sent = put(made, "member/west/a", transact(puts=puts, forwarder="west"))
        assert await why(sent) == "MANAGER_NOT_FOUND", "it may, and nobody here knows where north is"

    run(story)


def test_a_unit_of_work_is_its_principals_alone(run: Callable[[Story], None]) -> None:
    """The ids of units follow from each other: whoever has one knows the next."""

    async def story(made: CertifiedPair) -> None:
        order(made, BILLING, PRODUCE, "orders")
        order(made, SHOP, PRODUCE, "orders")
        made.pair.settle(200)
        units = [await made.while_stepping(begin(made, BILLING, member)) for member in "ab"]
        for member, unit in ((member, unit) for member in "ab" for unit in units):
            for method, kind, reply in (
                ("Commit", transactions.CommitRequest, transactions.CommitResponse),
                ("Rollback", transactions.RollbackRequest, transactions.RollbackResponse),
            ):
                call = made.call(SHOP, member, f"TransactionService/{method}", kind(unit_id=unit), reply)
                assert await why(made.while_stepping(call)) == "TXN_ABORTED"
        for member, unit in zip("ba", units, strict=True):
            puts: Any = [{"queue": "orders", "request_id": unit, "messages": [{"payload": b"x"}]}]
            request = transactions.CommitRequest(unit_id=unit, puts=puts)
            path, reply = "TransactionService/Commit", transactions.CommitResponse
            done = await made.while_stepping(made.call(BILLING, member, path, request, reply))
            assert [each.queue for each in done.puts] == ["orders"]
        order(made, SHOP, PRODUCE, "orders", revoked=True)
        order(made, SHOP, PRODUCE, "secret")
        made.pair.settle(200)
        again = await made.while_stepping(made.call(SHOP, "a", path, transactions.CommitRequest(unit_id=unit), reply))
        assert (again.duplicate, list(again.puts)) == (True, [])

    run(story)


def test_a_unit_keeps_so_many_rights_for_its_commit_and_no_more(
    run: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are noted for each queue that a call names: a client could name others in each call, without an end."""
    monkeypatch.setattr(unit_owners, "RIGHTS_MAX", 4)
    monkeypatch.setattr(unit_owners, "RIGHTS_AT_ONCE", 1)

    async def story(made: CertifiedPair) -> None:
        order(made, BILLING, PRODUCE, ALL)
        made.pair.settle(200)
        master = master_of(made)
        unit = await made.while_stepping(begin(made, BILLING, master))

        def sent(number: int, *answers: str) -> Awaitable[messages.EnqueueResponse]:
            request = messages.EnqueueRequest(queue="orders", request_id=bytes([number]) * 16, unit_id=unit)
            for each in answers:
                request.messages.add(payload=b"x", reply_to=each)
            path = "QueueService/Enqueue"
            return made.while_stepping(made.call(BILLING, master, path, request, messages.EnqueueResponse))

        await sent(1, "secret")
        assert await why(sent(2, "a", "b", "c")) == "TXN_TOO_LARGE"
        await sent(3, "secret", "orders")
        request = transactions.CommitRequest(unit_id=unit)
        path, reply = "TransactionService/Commit", transactions.CommitResponse
        done = await made.while_stepping(made.call(BILLING, master, path, request, reply))
        assert [len(each.results) for each in done.puts] == [3]

    run(story)


def test_what_would_take_long_to_look_at_is_refused_before(run: Callable[[Story], None]) -> None:
    """A name of a million slashes has as many patterns, and 16 MiB may name a million queues."""

    async def story(made: CertifiedPair) -> None:
        order(made, BILLING, PRODUCE, ALL)
        made.pair.settle(200)
        assert await why(put(made, BILLING, transact(puts=[{"queue": "/" * 1_000_000}]))) == "QUEUE_NOT_FOUND"
        assert await why(put(made, BILLING, transact(puts=[{"queue": "a/" * 200 + "a"}]))) == "QUEUE_NOT_FOUND"
        many: Any = [{"queue": f"q{number}"} for number in range(ENTRIES_MAX + 1)]
        assert await why(put(made, BILLING, transact(puts=many))) == "BAD_REQUEST"

    run(story)


def test_a_list_that_names_nothing_names_everything(run: Callable[[Story], None]) -> None:
    """Where no queue stands for all of them, an empty name does too."""

    async def story(made: CertifiedPair) -> None:
        order(made, BILLING, BROWSE, "orders")
        made.pair.settle(200)
        guard = made.guards[master_of(made)]
        for queues, rights in (([], [ALL]), ([""], [ALL]), (["orders"], ["orders"]), (["orders", ""], ["orders", ALL])):
            request = GetJournalHeadRequest(queues=queues).SerializeToString()
            assert guard.wanted_of("JournalService/GetJournalHead", request) == [(BROWSE, each) for each in rights]

    run(story)


async def until(what: Callable[[], bool]) -> None:
    for _ in range(200):
        if what():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")
