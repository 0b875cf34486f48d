"""Messages that each language must read: `python -m tests.interop.golden` writes them into golden/, session.txt says
what is in them.

They hold what bindings differ in: numbers beyond 2^53 and 2^63, text beyond ASCII, a value of an enumeration that is
not known yet, a map, a oneof, an unset optional field. A change of the bytes is a change of the contract.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import Message

from tandemq.v1 import message_pb2, queue_service_pb2
from tandemq.v1.common_pb2 import Level, ResponseHeader

FOLDER = Path(__file__).resolve().parent / "golden"
UNKNOWN_REASON = 4095  # that of a newer member


def _request() -> queue_service_pb2.EnqueueRequest:
    first = message_pb2.Message(payload=b"hi", priority=9)
    first.ttl.FromMilliseconds(90_500)
    first.properties["name"].text = "größe"
    first.properties["level"].integer = -7
    request = queue_service_pb2.EnqueueRequest(queue="orders", request_id=bytes(range(16)))
    request.messages.extend([first, message_pb2.Message(payload=b"")])
    return request


def _delivery() -> queue_service_pb2.DequeueResponse:
    header = ResponseHeader(epoch=7, copies=2, level=Level.LEVEL_PAIR_SYNC)
    answer = queue_service_pb2.DequeueResponse(header=header, lease_id=2**53 + 1)
    body = message_pb2.Message(payload=b"\x00\xff", content_type="EUR")
    answer.messages.add(queue="orders", index=2**64 - 1, message=body, delivery_count=3)
    return answer


def _acks() -> queue_service_pb2.ProduceResponse:
    answer = queue_service_pb2.ProduceResponse()
    answer.ack.first_index = 2**32 + 1
    answer.more_acks.add(first_sequence=2, count=1)
    last = answer.more_acks.add(first_sequence=3, count=60)
    refused = last.errors.add(ordinal=59)
    # Protobuf's Python keeps a value that it does not know, as every reader has to; it sets one from the wire only.
    refused.error.ParseFromString(bytes([0x08, 0xFF, 0x1F]))
    assert refused.error.reason == UNKNOWN_REASON
    return answer


MESSAGES: dict[str, Message] = {type(each).__name__: each for each in (_request(), _delivery(), _acks())}


def facts(message: Message) -> str:
    """What a client has to find, in the order of the script's value."""
    match message:
        case queue_service_pb2.EnqueueRequest():
            first = message.messages[0]
            found = [
                message.queue,
                message.request_id.hex(),
                len(message.messages),
                first.payload.hex(),
                first.priority,
            ]
            found += [first.ttl.seconds, first.properties["name"].text, first.properties["level"].integer]
        case queue_service_pb2.DequeueResponse():
            one, header = message.messages[0], message.header
            found = [message.lease_id, header.epoch, header.copies, one.index, one.message.payload.hex()]
            found += [one.delivery_count, one.message.content_type]
        case queue_service_pb2.ProduceResponse():
            last = message.more_acks[-1]
            found = [message.ack.first_index, len(message.more_acks), last.first_sequence]
            found += [last.errors[0].error.reason, last.count]
        case _:
            raise AssertionError(type(message))
    return ",".join(str(each) for each in found)


if __name__ == "__main__":
    for name, each in MESSAGES.items():
        (FOLDER / f"{name}.binpb").write_bytes(each.SerializeToString(deterministic=True))
