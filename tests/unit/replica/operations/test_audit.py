"""The audit log's file: what stands in it, how much of it there may be, and what becomes of lines that do not fit."""

from __future__ import annotations

import threading
from pathlib import Path

from replica.operations import audit
from replica.operations.audit import KEYS_MAX, PENDING_MAX, Audited, AuditLog
from tandemq.auditing import FILE, OLDER, AuditLine, decoded

LIMITS = {"bytes_max": 64 << 20, "refusals_max": 10}


def order(number: int = 0, who: str = "principal/ops") -> Audited:
    return Audited(who, "ipv4:192.0.2.7:1", "QueueAdminService/PurgeQueue", f"q{number}", "OK", "ab")


def refusal(who: str = "principal/billing", outcome: str = "PERMISSION_DENIED") -> Audited:
    return Audited(who, "ipv4:192.0.2.7:1", "QueueService/Enqueue", "orders", outcome)


def lines(directory: Path) -> list[AuditLine]:
    names = [each for each in (OLDER, FILE) if (directory / each).exists()]
    found, bad = decoded(b"".join((directory / each).read_bytes() for each in names).split(b"\n"))
    assert not bad
    return found


async def test_an_order_is_a_line_that_the_owner_alone_reads(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, "a", **LIMITS)
    log.ordered(order(7))
    log.ordered(Audited("x" * 1_000, "", "M", "\x1b[31m\n" + "o" * 1_000, "OK"))
    await log.close()
    first, second = lines(tmp_path)
    assert (first.member, first.principal, first.object, first.outcome) == ("a", "principal/ops", "q7", "OK")
    assert (first.address, first.request, first.left_out) == ("ipv4:192.0.2.7:1", "ab", 0)
    assert (len(second.principal), len(second.object)) == (322, 322)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert b"\x1b" not in (tmp_path / FILE).read_bytes()


async def test_refusals_are_thinned_and_counted_and_orders_are_not(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, "a", **LIMITS)
    for _ in range(1_000):
        log.refused(refusal())
    log.refused(refusal("principal/shop"))
    log.refused(refusal(outcome="QUEUE_NOT_FOUND"))
    for number in range(100):
        log.ordered(order(number))
    await log.close()
    found = lines(tmp_path)
    flood = [each for each in found if (each.principal, each.outcome) == ("principal/billing", "PERMISSION_DENIED")]
    assert len(flood) + sum(each.left_out for each in flood) - 1 == 1_000  # the last one stands for others alone
    assert len(flood) <= 10 * LIMITS["refusals_max"]  # however long this took
    assert sum(each.principal == "principal/shop" for each in found) == 1
    assert sum(each.outcome == "QUEUE_NOT_FOUND" for each in found) == 1
    assert sum(each.outcome == "OK" for each in found) == 100


async def test_many_principals_share_a_count(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, "a", **LIMITS)
    for number in range(3 * KEYS_MAX):
        log.refused(refusal(f"principal/{number}"))
    assert len(log._counts) <= KEYS_MAX + 1
    await log.close()


async def test_what_was_left_out_gets_its_line_once_its_second_is_over(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, "a", **LIMITS)
    for _ in range(30):
        log.refused(refusal())
    for count in log._counts.values():
        count.since_ms -= audit.SECOND_MS
    log.look(0)
    assert not log._counts
    await log.close()
    assert sum(each.left_out for each in lines(tmp_path)) == 20


async def test_both_files_together_stay_within_their_bound(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, "a", bytes_max=64 << 10, refusals_max=10)
    for number in range(3_000):
        log.ordered(order(number))
    await log.close()
    sizes = [(tmp_path / each).stat().st_size for each in (FILE, OLDER)]
    assert sum(sizes) <= 64 << 10
    found = lines(tmp_path)
    assert found[-1].object == "q2999"
    assert [int(each.object[1:]) for each in found] == list(range(3_000 - len(found), 3_000))
    assert (tmp_path / OLDER).stat().st_mode & 0o777 == 0o600


async def test_what_cannot_be_written_is_counted_and_nobody_waits(tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    log = AuditLog(directory, "a", **LIMITS)
    log.ordered(order(1))
    assert log._writing is not None
    await log._writing
    await log.close()
    assert log.lost == 1
    directory.mkdir()
    log = AuditLog(directory, "a", **LIMITS)
    hangs = threading.Event()
    log._pool.submit(hangs.wait)
    for number in range(PENDING_MAX + 11):  # the first one is on its way to the thread
        log.ordered(order(number))
    assert log.lost == 10
    hangs.set()
    await log.close()
    assert len(lines(directory)) == PENDING_MAX + 1


async def test_a_line_that_was_torn_by_a_kill_takes_no_other_with_it(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"time":"2026')
    log = AuditLog(tmp_path, "a", **LIMITS)
    log.ordered(order(1))
    await log.close()
    found, bad = decoded((tmp_path / FILE).read_bytes().split(b"\n"))
    assert ([each.object for each in found], bad) == (["q1"], 1)


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"")
    (tmp_path / FILE).symlink_to(tmp_path / "victim")
    log = AuditLog(tmp_path, "a", **LIMITS)
    log.ordered(order(1))
    await log.close()
    assert (log.lost, (tmp_path / "victim").read_bytes()) == (1, b"")
