"""What options mean, and which are refused, without Spark."""

from __future__ import annotations

import pytest

from tandemq.client.journal import JournalKind
from tandemq.errors import InvalidRequest
from tandemq.spark.options import Options, parse


def test_nothing_given_reads_everything() -> None:
    assert parse({}, streaming=False) == Options() == parse({}, streaming=True)


def test_everything_given_is_read_whatever_its_case() -> None:
    given = {
        "TARGET": "a:1,b:2",
        "queues": " orders, bills ,orders",
        "domain": "main",
        "Kinds": "Enqueued,ACKED",
        "payloads": "FALSE",
        "startlogindex": "3",
        "endLogIndex": "9",
        "partitions": "7",
        "timeoutSeconds": "5",
    }
    assert parse(given, streaming=False) == Options(
        target="a:1,b:2",
        queues=("orders", "bills"),
        domain="main",
        kinds=(JournalKind.ENQUEUED, JournalKind.ACKED),
        payloads=False,
        start_log_index=3,
        end_log_index=9,
        partitions=7,
        timeout_s=5,
    )
    streamed = parse({"startingPosition": "Latest", "maxRowsPerTrigger": "40000"}, streaming=True)
    assert (streamed.starting_position, streamed.max_rows) == ("latest", 40_000)
    assert parse({"startingPosition": "17"}, streaming=True).starting_position == "17"
    placed = parse({"startingPosition": "17:3", "thisMember": "true"}, streaming=True)
    assert (placed.starting_position, placed.starting_epoch, placed.this_member) == ("17", 3, True)
    assert parse({"everyRecord": "true"}, streaming=True).every_record


@pytest.mark.parametrize(
    ("given", "streaming", "option", "told"),
    [
        ({"path": "x"}, False, "path", "no such option"),
        ({"startIndex": "1"}, True, "startIndex", "readStream does not take it"),
        ({"startingPosition": "earliest"}, False, "startingPosition", "read does not take it"),
        ({"startIndex": "1"}, False, "startIndex", "0 are named"),
        ({"endIndex": "1", "queues": "a,b"}, False, "endIndex", "2 are named"),
        ({"startIndex": "1", "startLogIndex": "1", "queues": "a"}, False, "startIndex", "give one of them"),
        ({"startIndex": "5", "endIndex": "4", "queues": "a"}, False, "endIndex", "before startIndex = 5"),
        ({"startLogIndex": "5", "endLogIndex": "4"}, False, "endLogIndex", "before startLogIndex = 5"),
        ({"startLogIndex": "0"}, False, "startLogIndex", "from 1"),
        ({"startLogIndex": "-1"}, False, "startLogIndex", "from 1"),
        ({"startLogIndex": "\u0663"}, False, "startLogIndex", "whole number"),
        ({"startLogIndex": "9" * 5_000}, False, "startLogIndex", "whole number"),
        ({"endLogIndex": str(1 << 63)}, False, "endLogIndex", "whole number"),
        ({"partitions": "0"}, False, "partitions", "from 1 to 10000"),
        ({"payloads": "yes"}, False, "payloads", "true or false"),
        ({"kinds": "sold"}, False, "kinds", "enqueued"),
        ({"queues": ",".join(f"q{at}" for at in range(1_001))}, False, "queues", "1001 queues"),
        ({"startingPosition": "newest"}, True, "startingPosition", "earliest, latest or a log index"),
        ({"startingPosition": "0"}, True, "startingPosition", "from 1"),
        ({"startingPosition": "17:"}, True, "startingPosition", "with the epoch before it"),
        ({"startingPosition": "17:0"}, True, "startingPosition", "from 1"),
        ({"thisMember": "a"}, False, "thisMember", "true or false"),
        ({"maxRowsPerTrigger": "0"}, True, "maxRowsPerTrigger", "from 1"),
        ({"timeoutSeconds": "1e3"}, True, "timeoutSeconds", "whole number"),
    ],
)
def test_a_bad_option_is_named(given: dict[str, str], streaming: bool, option: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match="BAD_OPTION") as caught:
        parse(given, streaming=streaming)
    assert caught.value.metadata == {"option": option}
    assert told in str(caught.value)
    assert caught.value.definite
