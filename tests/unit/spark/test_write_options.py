"""What the options of a write mean, and which are refused, with the option's name in the text."""

from __future__ import annotations

import pytest

from tandemq.errors import InvalidRequest
from tandemq.spark.write_options import QUERY_ID, STAGE_S, WriteOptions, check_columns, parse

PLAIN = [("payload", "binary")]


def refusal(given: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse(given, streaming=streaming)
    assert caught.value.reason == "BAD_OPTION"
    return caught.value.message


def test_what_is_not_given_has_a_default() -> None:
    assert parse({}, streaming=False) == WriteOptions(query_id=QUERY_ID, stage_s=STAGE_S, timeout_s=60)
    streamed = parse({"writer": "w", "checkpointLocation": "x"}, streaming=True)
    assert streamed == WriteOptions(writer="w", checkpoint="x")


def test_everything_can_be_said_however_it_is_spelled() -> None:
    given = {
        "TARGET": "h:1",
        "queue": "q",
        "domain": "d",
        "Writer": "w",
        "queryid": "id",
        "batchId": "0",
        "stageSeconds": "60",
        "timeoutSeconds": "5",
        "historyID": "AB" * 16,
    }
    assert parse(given, streaming=False) == WriteOptions("h:1", "q", "d", "w", "id", 0, 60, 5, "ab" * 16)


@pytest.mark.parametrize(
    ("given", "streaming", "words"),
    [
        ({}, True, "option writer = '': writeStream needs it"),
        ({"writer": "w", "batchId": "1"}, True, "option batchId = '1': writeStream does not take it"),
        ({"writer": "w"}, False, "option writer = 'w': a batch write has both"),
        ({"batchId": "1"}, False, "option batchId = '1': a batch write has both"),
        ({"writer": "w", "batchId": "-1"}, False, "option batchId = '-1'"),
        ({"queues": "q"}, False, "option queues = 'q': there is no such option of a write"),
        ({"stageSeconds": "86401"}, False, "option stageSeconds"),
        ({"historyId": "4711"}, False, "option historyId = '4711': it is 32 hexadecimal digits"),
        ({"writer": "w" * 256, "batchId": "1"}, False, "it may have 255 bytes"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], words: str, *, streaming: bool) -> None:
    assert words in refusal(given, streaming=streaming)


@pytest.mark.parametrize(
    ("columns", "queue", "words"),
    [
        ([], "q", "option column payload = ''"),
        ([("payload", "bigint")], "q", "option column payload = 'bigint': it must be of type binary or string"),
        ([*PLAIN, ("kind", "string")], "q", "option column kind = 'string': there is no such column"),
        (PLAIN, "", "option queue = ''"),
        ([*PLAIN, ("queue", "int")], "", "option column queue = 'int'"),
    ],
)
def test_a_frame_that_is_no_messages_is_refused(columns: list[tuple[str, str]], queue: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_columns(columns, WriteOptions(queue=queue))
    assert words in caught.value.message


def test_frames_that_are_taken() -> None:
    check_columns(PLAIN, WriteOptions(queue="q"))
    check_columns(
        [("payload", "string"), ("queue", "string"), ("priority", "int"), ("group_id", "string")], WriteOptions()
    )


def test_a_path_is_not_ignored() -> None:
    """save("elsewhere") would write to the queue of the option, without a word."""
    assert "path" in refusal({"path": "elsewhere", "queue": "q"})
