"""The table of rights beside the contract: each call of a client has a row, and each path leads to names of queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

import replica.manager  # registers the descriptors of all that is served
from replica.machine.state.rights import ADMINISTER, BROWSE, CONSUME, OBSERVE, OPERATE, PRODUCE
from replica.rpc.skim import Skim
from replica.services.guard import needs_of
from replica.services.needs import ADMINISTRATOR, ANYBODY, LINK, NEEDS, SEE, Need
from tandemq.v1 import rights_service_pb2

FILES = (
    *(
        "batch",
        "journal",
        "macro",
        "manager_admin",
        "pair",
        "proxy",
        "queue_admin",
        "queue",
        "reaction",
        "rights",
        "stage",
    ),
    *("stage", "transaction", "weights"),
)


def calls() -> Iterator[tuple[str, MethodDescriptor]]:
    pool = descriptor_pool.Default()
    for name in FILES:
        for service in pool.FindFileByName(f"tandemq/v1/{name}_service.proto").services_by_name.values():
            for method in service.methods:
                yield f"{service.name}/{method.name}", method


def test_each_call_of_a_client_has_a_row() -> None:
    assert {path for path, _ in calls()} == set(NEEDS)


def test_the_contract_has_no_other_service() -> None:
    found = {path.name for path in Path(replica.manager.__file__).parents[1].glob("proto/tandemq/v1/*_service.proto")}
    assert found == {f"{name}_service.proto" for name in FILES}


def test_a_call_without_a_row_is_an_administrators() -> None:
    assert needs_of("QueueService/Unknown") == (Need(ADMINISTRATOR),)


def test_each_path_leads_to_names() -> None:
    for path, method in calls():
        for need in NEEDS[path]:
            for each in filter(None, (need.path, need.when)):
                last = field_at(method.input_type, each)
                text = last.type == FieldDescriptor.TYPE_STRING
                assert text == (each == need.path), f"{path}: {each}"
        Skim(method.input_type, [each for need in NEEDS[path] for each in (need.path, need.when)])


def field_at(kind: Descriptor, path: str) -> FieldDescriptor:
    name, _, rest = path.partition(".")
    field = kind.fields_by_name[name]
    return field_at(field.message_type, rest) if rest else field


def test_the_calls_that_anybody_may_make_are_these() -> None:
    assert {path for path, needs in NEEDS.items() if needs == ANYBODY} == {
        "ManagerAdminService/GetManager",
        "QueueAdminService/ListQueues",
        "RightsService/ListRights",
        "RightsService/TestRight",
        "TransactionService/Rollback",
    }


def test_each_field_of_a_request_that_names_a_queue_is_asked_about() -> None:
    """By the names that such fields have in the contract; a new one needs a place in the table, or here a reason."""
    names = {"queue", "queues", "more_queues", "reply_to", "reply_tos", "report_to", "dead_letter_queue", "to", "alias"}
    open_ = {
        ("QueueService/Produce", "batch.queue"),  # asked about frame by frame (services/messages/produce.py)
        ("QueueService/Produce", "batch.messages.reply_tos"),
        ("QueueService/Reply", "message.reply_to"),  # an answer is not answered
        ("QueueService/Consume", "reply.message.reply_to"),
        ("PairService/Handoff", "to"),  # a member
        ("ProxyService/CreateProxy", "expected.dead_letter_queue"),  # compared, and nothing is sent there
        # Members of the macro queue that is asked about.
        ("QueueService/Settle", "settlements.queue"),
        ("QueueService/Consume", "settle.settlements.queue"),
        ("TransactionService/Transact", "settles.settlements.queue"),
        ("TransactionService/TransactMany", "units.settles.settlements.queue"),
        ("RightsService/TestRight", "queue"),  # a question
    }
    found = set()
    for path, method in calls():
        asked = {need.path for need in NEEDS[path]}
        found |= {(path, each) for each in named(method.input_type, names) if each not in asked}
    assert found == open_


def named(kind: Descriptor, names: set[str], above: str = "", depth: int = 4) -> Iterator[str]:
    for field in kind.fields:
        if field.name in names and field.type == FieldDescriptor.TYPE_STRING:
            yield above + field.name
        if field.message_type is not None and depth and field.message_type.full_name.startswith("tandemq."):
            yield from named(field.message_type, names, f"{above}{field.name}.", depth - 1)


def test_rights_are_numbered_as_in_the_contract() -> None:
    numbers = (PRODUCE, CONSUME, BROWSE, ADMINISTER, OBSERVE, OPERATE)
    assert [rights_service_pb2.Right.Name(number) for number in numbers] == [  # type: ignore[arg-type]  # numbers
        *("RIGHT_PRODUCE", "RIGHT_CONSUME", "RIGHT_BROWSE", "RIGHT_ADMINISTER", "RIGHT_OBSERVE", "RIGHT_OPERATE")
    ]
    assert {need.right for needs in NEEDS.values() for need in needs} == {*numbers, SEE, ADMINISTRATOR, LINK}
