"""Faults of a disk in `bench/failover.py`: what became of each message, what its answers say, and when it is played."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench import failover_report
from bench.check import unfit
from bench.document import Document, Figures
from bench.failover import table, table_of_disks, wanted_of
from bench.failover_disks import DISKS, PAYLOAD_BYTES, Checked, said_by
from bench.failover_traffic import Answer, Traffic
from bench.peers.payloads import Payloads
from tandemq import aio
from tests.support.until import OUTER_S

RUN = {
    "ms": 10_500.0,
    "p99_ms": 10_400.0,
    "foreign_cores": 0.0,
    "ended": 1,
    "epochs": 1,
    "one_copy_ms": 7,
    "whole_ms": 9,
}


def sent(count: int) -> tuple[Checked, list[bytes]]:
    checked = Checked(Payloads(PAYLOAD_BYTES, 1))
    return checked, [payload for _ in range(count) for payload in checked.next()]


def refused(checked: Checked) -> list[str]:
    account, broke = checked.result()
    return Figures({"of": ["hung disk"], "runs": [{"run": 0, "ms": 1.0, "account": account, "broke": broke}]}).refused


async def test_all_that_was_sent_is_waited_for_and_has_come() -> None:
    checked, payloads = sent(3)
    checked.take([(payloads[0], 1), (payloads[2], 3)])
    waiting = asyncio.create_task(checked.all_came())
    await asyncio.sleep(0)
    assert not waiting.done()
    checked.take([(payloads[2], 3), (payloads[1], 2)])
    async with asyncio.timeout(OUTER_S):
        await waiting
    account, _ = checked.result()
    assert account == {"sent": 3, "received": 3, "lost": 0, "again": 1, "corrupt": 0, "unknown": 0}
    assert refused(checked) == []


def test_what_is_lost_doubled_or_damaged_is_refused() -> None:
    checked, payloads = sent(3)
    damaged = bytes([*payloads[1][:-1], payloads[1][-1] ^ 1])
    checked.take([(payloads[0], 1), (damaged, 2), (payloads[0], 3)])
    assert refused(checked) == ["1 messages corrupt", "1 messages doubled", "2 messages lost"]


def test_answers_say_in_which_epoch_and_with_how_many_copies() -> None:
    before = [Answer(0.0, 1.0, 4, 1)]
    answers = [*before, Answer(2.0, 2.5, 4, 2), Answer(2.5, 12.0, 5, 1), Answer(13.0, 13.5, 5, 1), Answer(14, 14, 6, 2)]
    assert said_by(answers, 2.0) == {"epochs": 2, "one_copy": 2, "one_copy_ms": 1500}
    assert said_by(answers[:2], 2.0) == {"epochs": 0, "one_copy": 0, "one_copy_ms": 0}


async def test_a_message_waits_from_when_it_was_due() -> None:
    async with aio.connect("127.0.0.1:1") as client:
        traffic = Traffic(client, answers=[Answer(1.0, 1.5, 1, 2), Answer(1.5, 9.5, 1, 2), Answer(3.0, 9.5, 1, 2)])
    assert traffic.p99_ms(1.0, 2.0) == 8000.0
    assert traffic.longest_pause(1.0, 10.0) == 8.0


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("", [*failover_report.TARGETS_MS]),
        ("kill", ["kill -9"]),
        ("disk", [*DISKS]),
        ("hung disk", ["hung disk", "hung disk of the replica"]),
        ("of the replica", ["hung disk of the replica"]),
        ("nobody", []),
    ],
)
def test_disks_are_hurt_where_they_are_asked_for(only: str, names: list[str]) -> None:
    assert wanted_of(only) == names


def document(**more: Any) -> Document:
    found = Document("failover", {"commit": "abc"}, "", {"runs": 20, "rate": 1000.0})
    found.add(("hung disk",), {"run": 0, **RUN, **more})
    return found


def test_what_a_disk_did_is_printed_and_in_no_page() -> None:
    assert table(document()).row_count == 0
    shown = table_of_disks(document())
    assert [next(iter(column.cells)) for column in shown.columns] == [
        *("hung disk", "1", "10,500", "10,500", "10,400", "1", "1", "7", "9"),
    ]
    lost = table_of_disks(document(broke=["2 messages doubled"]))
    assert [next(iter(column.cells)) for column in lost.columns][:3] == [
        "hung disk; refused: 2 messages doubled",
        "1",
        "",
    ]
    assert "not asked for: hung disk (run 1)" in unfit(document(), failover_report.PLAN)
