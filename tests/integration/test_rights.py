"""Rights at a pair with real certificates: what one may do is the same at both members, before and after a kill -9."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from chaos.cluster import CLIENT, Cluster
from replica.node.access import PRINCIPAL
from replica.node.members import HOP
from replica.services.peer_clients import OWN
from tandemq import aio
from tandemq.auditing import FILE, AuditLine, decoded
from tandemq.cli import root
from tandemq.client.filtering import Where
from tandemq.client.macros import Relationship
from tandemq.client.reactions import Cancel, Custom
from tandemq.credentials.authority import create, issue
from tandemq.credentials.chosen import opener_of
from tandemq.errors import Denied, NotFound, Refused, from_rpc_error
from tandemq.v1 import (
    common_pb2,
    queue_admin_service_pb2,
    queue_admin_service_pb2_grpc,
    queue_service_pb2,
    queue_service_pb2_grpc,
    stage_service_pb2,
    stage_service_pb2_grpc,
    transaction_service_pb2,
    transaction_service_pb2_grpc,
)
from tests.integration.support import new_id, roles
from tests.support.clusters import patient
from tests.support.secured import people
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

PEOPLE = people("billing", "shop") | {"elsewhere": "member/elsewhere/a"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("credentials")
    create(made / "authority")
    for name, who in PEOPLE.items():
        issue(made / "authority", who, made / name)
    return made


@pytest.fixture(scope="module")
def pair(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = patient(tmp_path_factory.mktemp("pair"), secured=folder, operators=["ops"])

    async def begin() -> None:
        await cluster.start()
        async with aio.connect(cluster.target, credentials=folder / CLIENT, timeout=OUTER_S) as client:
            for name in ("orders", "secret"):
                await client.create_queue(name)
            await client.create_alias("ord", "orders")

    asyncio.run(begin())
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture
async def ops(pair: Cluster, folder: Path) -> AsyncIterator[aio.Client]:
    async with aio.connect(pair.target, credentials=folder / CLIENT, timeout=OUTER_S) as made:
        yield made


@asynccontextmanager
async def at(pair: Cluster, folder: Path, member: str, who: str = "billing") -> AsyncIterator[aio.Client]:
    """A client of that member alone: what another one has to do goes over the hop between them."""
    endpoint = pair.endpoint(member)
    async with aio.connect(endpoint, credentials=folder / who, timeout=OUTER_S, follow_master=False) as made:
        yield made


async def denied(call: Awaitable[object], right: str, what: str, who: str = "principal/billing") -> None:
    with pytest.raises(Denied) as caught:
        await call
    assert (caught.value.reason, caught.value.definite) == ("PERMISSION_DENIED", True), caught.value
    found = dict(caught.value.metadata)
    assert (found["principal"], found["right"], found["object"]) == (who, right, what)


async def send(client: aio.Client, queue: str) -> None:
    async with client.producer(queue) as producer:
        await producer.send(b"x")


async def receive(client: aio.Client, queue: str) -> bytes:
    async with client.consumer(queue, credit_messages=1) as consumer:
        return bytes((await anext(aiter(consumer))).payload)


async def browse(client: aio.Client, queue: str) -> list[bytes]:
    return [bytes(each.payload) async for each in client.browse(queue)]


async def hidden(call: Awaitable[object], queue: str) -> None:
    with pytest.raises(NotFound) as caught:
        await call
    assert caught.value.reason == "QUEUE_NOT_FOUND"
    assert caught.value.message == f"there is no queue {queue!r}; create it first"


async def check_billing(client: aio.Client) -> None:
    """It may produce to orders, by that queue's other name too, and nothing else."""
    for name in ("orders", "ord"):
        await client.send(name, b"x")
        await send(client, name)
    await denied(client.dequeue("orders"), "consume", "orders")
    await denied(client.purge_queue("orders"), "administer", "orders")
    await denied(client.create_queue("mine"), "administer", "mine")
    await denied(client.create_queue("secret"), "administer", "secret")
    await denied(client.create_alias("other", "orders"), "administer", "other")
    await denied(receive(client, "orders"), "consume", "orders")
    await denied(browse(client, "orders"), "browse", "orders")
    await denied(client.handoff("a"), "operate", "pair")
    await denied(client.grant_right("billing", "consume", "orders"), "rights", "pair")
    for name in ("secret", "nowhere"):
        await hidden(client.send(name, b"x"), name)
        await hidden(send(client, name), name)
        await hidden(client.dequeue(name), name)
        await hidden(client.get_queue(name), name)
        await hidden(client.delete_queue(name), name)
    assert [each.name for each in await client.list_queues()] == ["orders"]


@pytest.mark.requirement("R004")
@pytest.mark.requirement("R005")
@pytest.mark.requirement("R006")
@pytest.mark.requirement("R140")
async def test_billing_may_produce_to_orders_and_nothing_else_at_both_members_after_a_kill_and_a_handoff(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    await ops.grant_right("billing", "produce", "orders")
    for member in ("a", "b"):
        async with at(pair, folder, member) as client:
            await check_billing(client)
    master, survivor = await roles(pair)
    pair.kill(master)
    async with at(pair, folder, survivor) as client:
        await check_billing(client)
    await pair.restart(master)
    await pair.wait_ready()
    async with at(pair, folder, master) as client:
        await check_billing(client)

    async def handed_over() -> bool:
        return (await ops.handoff(to=master, reason="to see rights there too")).done

    await until(handed_over)
    for member in ("a", "b"):
        async with at(pair, folder, member) as client:
            await check_billing(client)


@pytest.mark.requirement("R208")
async def test_v16_a_kept_reaction_acts_by_the_rights_of_each_moment(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """Over kill -9 of the master, which took the decision; the call came by the replica."""
    for name in ("timers", "heard"):
        await ops.create_queue(name, config=queue_admin_service_pb2.QueueConfig(reactions_enabled=True))
    for right, name in (("consume", "timers"), ("produce", "heard")):
        await ops.grant_right("shop", right, name)
    master, replica = await roles(pair)
    asked, sticky = Where(group_id="g"), timedelta(minutes=10)
    async with at(pair, folder, replica, "shop") as client:
        await client.react("timers", asked, Cancel(), everything=True, sticky=sticky, report_to="heard")
    (kept,) = [each async for each in ops.browse("SYSTEM.REACTIVE/timers")]
    assert kept.properties["tq_principal"] == "principal/shop"
    await ops.send("timers", b"1", group_id="g")
    await ops.revoke_right("shop", "consume", "timers")
    await ops.send("timers", b"2", group_id="g")
    await ops.grant_right("shop", "consume", "timers")
    pair.kill(master)
    assert await browse(ops, "timers") == [b"2"], "decided once"
    await ops.send("timers", b"3", group_id="g")
    assert await browse(ops, "timers") == [b"2"], "by the rights of now"
    await ops.revoke_right("shop", "consume", "timers")
    await ops.send("timers", b"4", group_id="g")
    assert await browse(ops, "timers") == [b"2", b"4"]
    said = [each.properties["tq_outcome"] async for each in ops.browse("heard")]
    assert said == ["STORED", "APPLIED", "DENIED", "APPLIED", "DENIED"]
    await pair.restart(master)
    await pair.wait_ready()


@pytest.mark.requirement("R189")
async def test_v1_a_refused_reaction_names_nothing_that_the_caller_need_not_know(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """Neither the own name of a queue that he knows by another one, nor the programs of this pair."""
    await ops.create_queue("hidden", config=queue_admin_service_pb2.QueueConfig(reactions_enabled=False))
    await ops.create_alias("shown", "hidden")
    for right in ("consume", "produce"):
        await ops.grant_right("shop", right, "shown")
    async with at(pair, folder, "a", "shop") as client:
        with pytest.raises(Refused, match="REACTION_DISABLED") as off:
            await client.react("shown", Where(group_id="g"), Cancel())
        assert ("hidden" in off.value.message, off.value.metadata["queue"]) == (False, "shown")
        with pytest.raises(Refused, match="REACTION_DISABLED") as absent:
            await client.react("shown", Where(group_id="g"), Custom("absent"))
        assert "known there" not in absent.value.message
    with pytest.raises(Refused, match="known there: none"):
        await ops.react("shown", Where(group_id="g"), Custom("absent"))


async def test_a_queue_that_one_may_not_see_is_named_by_no_refusal_and_no_answer(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """Where its dead letters go, and whose dead letters are there: only who sees both hears of both."""
    config = queue_admin_service_pb2.QueueConfig
    await ops.create_queue("mine/dead")
    await ops.create_queue("vault", config=config(dead_letter_queue="mine/dead"))
    await ops.create_queue("mine/q", config=config(dead_letter_queue="vault.dead"))
    for right in ("administer", "produce"):
        await ops.grant_right("shop", right, "mine/**")
    await ops.send("vault", b"dies")
    async with ops.consumer("vault", credit_messages=1) as consumer:
        (await anext(aiter(consumer))).reject("broken")
    await until(lambda: _holds(ops, "mine/dead", 1))
    await ops.update_queue("vault", config(dead_letter_queue="mine/other"), ["dead_letter_queue"])
    for member in ("a", "b"):
        async with at(pair, folder, member, "shop") as shop:
            with pytest.raises(Refused, match="dead letters of another queue go to mine/other") as refused:
                await shop.create_macro("mine/other")
            assert "vault" not in refused.value.message + str(refused.value.metadata)
            with pytest.raises(Refused, match="dead letters of queue vault go to mine/other"):
                await ops.create_macro("mine/other")
            found = [await shop.get_queue("mine/q"), *await shop.list_queues("mine/q")]
            assert [each.config.dead_letter_queue for each in found] == ["", ""]
            assert (await ops.get_queue("mine/q")).config.dead_letter_queue == "vault.dead"
            left = await shop.redrive_queue("mine/dead")
            (behind,) = left.behind
            assert (left.moved, behind.reason, behind.queue) == (0, common_pb2.REASON_QUEUE_NOT_FOUND, "")
            assert "vault" not in str(left)
    await ops.grant_right("shop", "consume", "vault")
    async with at(pair, folder, "a", "shop") as shop:
        (behind,) = (await shop.redrive_queue("mine/dead")).behind
        assert (behind.reason, behind.queue) == (common_pb2.REASON_PERMISSION_DENIED, "vault")
        await ops.grant_right("shop", "produce", "vault")
        assert (await shop.redrive_queue("mine/dead")).moved == 1


async def _holds(client: aio.Client, queue: str, length: int) -> bool:
    return (await client.get_queue(queue)).length == length


async def test_whoever_says_himself_for_whom_he_calls_is_refused(pair: Cluster, folder: Path) -> None:
    """Only the pinned peer is believed: not a client, and not a member of another pair."""
    request = queue_admin_service_pb2.PurgeQueueRequest(name="secret", request_id=new_id())
    for who in ("billing", "elsewhere"):
        for said in ((HOP, "b"), (PRINCIPAL, "principal/ops"), (OWN, "1")):
            async with opener_of(str(folder / who))(pair.endpoint("a"), ()) as channel:
                stub = queue_admin_service_pb2_grpc.QueueAdminServiceStub(channel)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub.PurgeQueue(request, metadata=(said,), timeout=OUTER_S)
            error = from_rpc_error(caught.value)
            assert (error.reason, dict(error.metadata)["principal"]) == ("PERMISSION_DENIED", PEOPLE[who])
            assert said[0] in error.message


async def test_a_revoked_right_ends_what_is_open(pair: Cluster, folder: Path, ops: aio.Client) -> None:
    await ops.create_queue("watched")
    for member in ("a", "b"):
        await ops.grant_right("shop", "consume", "watched")
        await ops.send("watched", b"x")
        async with at(pair, folder, member, "shop") as client, client.consumer("watched", mode="immediate") as consumer:
            assert (await anext(aiter(consumer))).payload == b"x"
            waiting = asyncio.create_task(client.dequeue("watched", wait=OUTER_S))
            await ops.revoke_right("shop", "consume", "watched")
            for call in (anext(aiter(consumer)), waiting):
                with pytest.raises(NotFound) as caught:  # no right on it is left
                    async with asyncio.timeout(OUTER_S):
                        await call
                assert caught.value.reason == "QUEUE_NOT_FOUND"


async def test_a_unit_whose_right_was_revoked_since_its_begin_is_refused_at_its_commit(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """It stays open: with the right it commits, and without it nothing of it happens."""
    await ops.create_queue("units")
    for member in ("a", "b"):
        await ops.grant_right("shop", "produce", "units")
        await ops.grant_right("shop", "consume", "units")
        await ops.send("units", b"got")
        async with opener_of(str(folder / "shop"))(pair.endpoint(member), ()) as channel:
            units = transaction_service_pb2_grpc.TransactionServiceStub(channel)
            queues = queue_service_pb2_grpc.QueueServiceStub(channel)
            begin = transaction_service_pb2.BeginRequest(queue="units", request_id=new_id())
            unit = (await units.Begin(begin, timeout=OUTER_S)).unit_id
            put = queue_service_pb2.EnqueueRequest(
                queue="units", request_id=new_id(), unit_id=unit, messages=[{"payload": b"put"}]
            )
            await queues.Enqueue(put, timeout=OUTER_S)
            got = queue_service_pb2.DequeueRequest(queue="units", request_id=new_id(), unit_id=unit)
            assert len((await queues.Dequeue(got, timeout=OUTER_S)).messages) == 1
            for right in ("produce", "consume"):
                await ops.revoke_right("shop", right, "units")
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await units.Commit(transaction_service_pb2.CommitRequest(unit_id=unit), timeout=OUTER_S)
                assert from_rpc_error(caught.value).reason == "PERMISSION_DENIED"
                await ops.grant_right("shop", right, "units")
            await units.Commit(transaction_service_pb2.CommitRequest(unit_id=unit), timeout=OUTER_S)
        assert [bytes(each.payload) for each in await ops.dequeue("units")] == [b"put"]
        await ops.purge_queue("units")


async def test_rows_are_published_where_their_publisher_may_produce(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """What was staged may be published hours later, and by whoever knows its id."""
    await ops.create_queue("rows")
    await ops.grant_right("shop", "produce", "rows")
    async with opener_of(str(folder / "shop"))(pair.endpoint("a"), ()) as channel:
        stages = stage_service_pb2_grpc.StageServiceStub(channel)
        stage = stage_service_pb2.StageRequest(stage_id=new_id(), part=1, batch={"queue": "rows"})
        stage.batch.messages.payloads.append(b"row")
        await stages.Stage(stage, timeout=OUTER_S)
        publish = stage_service_pb2.PublishRequest(writer="shop", query_id="q", batch=0, stage_ids=[stage.stage_id])
        await ops.grant_right("shop", "produce", "elsewhere")
        await ops.revoke_right("shop", "produce", "rows")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stages.Publish(publish, timeout=OUTER_S)
        assert from_rpc_error(caught.value).reason == "QUEUE_NOT_FOUND"
        await ops.grant_right("shop", "produce", "rows")
        assert (await stages.Publish(publish, timeout=OUTER_S)).queues[0].rows == 1
        await ops.revoke_right("shop", "produce", "rows")
        again = await stages.Publish(publish, timeout=OUTER_S)
        assert (again.duplicate, list(again.queues)) == (True, []), "by the writer's name alone"
        release = stage_service_pb2.ReleaseWriterRequest(writer="xmit/elsewhere/main/pair")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stages.ReleaseWriter(release, timeout=OUTER_S)
        assert from_rpc_error(caught.value).reason == "PERMISSION_DENIED"


async def test_weights_of_a_macro_queue_are_published_by_who_administers_it(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """They say where it deals what it is sent, and replace its table. Under another name they steer nothing."""
    hour = timedelta(hours=1)
    await ops.create_macro("spread", relationship=Relationship.PRODUCER)
    await ops.create_queue("part")
    await ops.grant_right("billing", "administer", "part")
    for member in ("a", "b"):
        async with at(pair, folder, member) as billing:
            await billing.publish_weights("anything", {"part": 1}, valid_for=hour)
            with pytest.raises(NotFound, match="no queue 'spread'"):
                await billing.publish_weights("spread", {"part": 1}, valid_for=hour)
            await ops.grant_right("billing", "produce", "spread")
            await denied(billing.publish_weights("spread", {"part": 1}, valid_for=hour), "administer", "spread")
            await ops.revoke_right("billing", "produce", "spread")
    await ops.grant_right("billing", "administer", "spread")
    async with at(pair, folder, "a") as billing:
        await billing.publish_weights("spread", {"part": 1}, valid_for=hour)
    for queue in ("part", "spread"):
        await ops.revoke_right("billing", "administer", queue)


async def test_commands_grant_test_list_and_revoke(pair: Cluster, folder: Path) -> None:
    async def run(*words: str, who: str = CLIENT, code: int = 0) -> str:
        shown = ("--target", pair.target, "--credentials", str(folder / who))
        result = await asyncio.to_thread(CliRunner().invoke, root, [*words, *shown])
        assert result.exit_code == code, result.output
        return result.output

    await run("right", "grant", "shop", "browse", "shop/**")
    facts = json.loads(await run("right", "test", "shop", "browse", "shop/eu", "-o", "json"))
    assert (facts["allowed"], facts["decides"]) == (True, "shop/**")
    assert json.loads(await run("right", "test", "ops", "operate", "-o", "json"))["decides"] == "administrators"
    assert not json.loads(await run("right", "test", "shop", "operate", "-o", "json", code=1))["allowed"]
    listed = json.loads(await run("right", "ls", "shop", "-o", "json", who="shop"))["grants"]
    assert [each["granted_by"] for each in listed if each["pattern"] == "shop/**"] == ["principal/ops"]
    assert "PERMISSION_DENIED" in await run("right", "ls", "billing", who="shop", code=1)
    assert "PERMISSION_DENIED" in await run("right", "grant", "shop", "operate", who="shop", code=1)
    await run("right", "revoke", "shop", "browse", "shop/**")
    assert "RIGHT_NOT_FOUND" in await run("right", "revoke", "shop", "browse", "shop/**", code=1)
    assert "VERSION_MISMATCH" in await run("right", "grant", "x", "observe", "--expected-version", "0", code=1)


async def test_each_batch_of_a_stream_is_asked_about(pair: Cluster, folder: Path, ops: aio.Client) -> None:
    """The stream was opened for another queue; and a queue that answers are to go to needs the right as well."""
    for name in ("first", "second"):
        await ops.create_queue(name)
    await ops.grant_right("shop", "produce", "first")
    for member in ("a", "b"):
        async with opener_of(str(folder / "shop"))(pair.endpoint(member), ()) as channel:
            stream = queue_service_pb2_grpc.QueueServiceStub(channel).Produce(timeout=OUTER_S)
            await stream.write(queue_service_pb2.ProduceRequest(open={"queue": "first", "client_id": member.encode()}))
            assert (await stream.read()).HasField("opened")
            for number, (queue, reply_to) in enumerate((("second", ""), ("secret", ""), ("first", "second"))):
                batch = queue_service_pb2.EnqueueBatch(queue=queue, first_sequence=number + 1)
                batch.messages.payloads.append(b"x")
                batch.messages.reply_tos.extend([reply_to] if reply_to else [])
                await stream.write(queue_service_pb2.ProduceRequest(batch=batch))
                error = (await stream.read()).reject.error
                assert error.reason == common_pb2.REASON_QUEUE_NOT_FOUND, error
            stream.cancel()
    assert [each.ready for each in await ops.list_queues() if each.name in ("second", "secret")] == [0, 0]


def audited(pair: Cluster, member: str) -> list[AuditLine]:
    path = pair.data_dir / member / FILE
    return decoded(path.read_bytes().split(b"\n"))[0] if path.exists() else []


def stand(pair: Cluster, member: str, wanted: set[tuple[str, str, str, str]]) -> bool:
    return wanted <= {(each.principal, each.method, each.object, each.outcome) for each in audited(pair, member)}


async def test_who_was_refused_and_who_gave_orders_is_written_down(
    pair: Cluster, folder: Path, ops: aio.Client
) -> None:
    """At the member that was called, with the client's name, and with no word of what was sent."""
    await ops.create_queue("kept")
    await ops.grant_right("shop", "administer", "kept")
    await ops.grant_right("billing", "produce", "orders")
    for member in ("a", "b"):
        async with at(pair, folder, member) as client:
            await hidden(client.send("kept", b"canary-payload"), "kept")
        async with at(pair, folder, member, "shop") as client:
            await client.purge_queue("kept")
            await denied(client.handoff(member), "operate", "pair", "principal/shop")
        async with opener_of(str(folder / "billing"))(pair.endpoint(member), ()) as channel:
            stream = queue_service_pb2_grpc.QueueServiceStub(channel).Produce(timeout=OUTER_S)
            await stream.write(queue_service_pb2.ProduceRequest(open={"queue": "orders", "client_id": b"c"}))
            assert (await stream.read()).HasField("opened")
            batch = queue_service_pb2.EnqueueBatch(queue="kept", first_sequence=1)
            batch.messages.payloads.append(b"canary-payload")
            await stream.write(queue_service_pb2.ProduceRequest(batch=batch))
            assert (await stream.read()).reject.error.reason == common_pb2.REASON_QUEUE_NOT_FOUND
            stream.cancel()
        wanted = {
            ("principal/billing", "QueueService/Enqueue", "kept", "QUEUE_NOT_FOUND"),
            ("principal/billing", "QueueService/Produce", "kept", "QUEUE_NOT_FOUND"),
            ("principal/shop", "QueueAdminService/PurgeQueue", "kept", "OK"),
            ("principal/shop", "PairService/Handoff", "pair", "PERMISSION_DENIED"),
        }
        await until(functools.partial(stand, pair, member, wanted))
        own = [each for each in audited(pair, member) if each.object == "kept"]
        purges = [each for each in own if each.method.endswith("PurgeQueue")]
        assert len(purges) == 1  # what the replica carries is its own line, and not the master's
        assert len(bytes.fromhex(purges[0].request)) == 16
        assert b"canary" not in (pair.data_dir / member / FILE).read_bytes()
        shown = ("audit", "ls", str(pair.data_dir / member), "--principal", "shop", "--object", "kept", "-o", "jsonl")
        result = await asyncio.to_thread(CliRunner().invoke, root, shown)
        assert [json.loads(each)["outcome"] for each in result.output.splitlines()] == ["OK"]
    grants = [each.object for each in (*audited(pair, "a"), *audited(pair, "b")) if each.method.endswith("GrantRight")]
    assert "shop administer kept" in grants
