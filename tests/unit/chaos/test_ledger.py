"""The ledger must catch what it exists to catch: each kind of fault is planted once."""

from __future__ import annotations

from chaos.ledger import Ledger

ROWS = 6


def run_through(ledger: Ledger, rows: range = range(ROWS)) -> None:
    """A queue that keeps its promise: everything in order, once."""
    for row in rows:
        ledger.on_sent(1, row)
        ledger.on_acknowledged(row, row + 1, row + 0.25)
        ledger.on_received(row, row + 1)
        ledger.on_settled([row])


def test_a_clean_run_passes() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger)
    totals = ledger.totals()
    assert totals.verdict == "pass"
    assert totals[:9] == (6, 6, 6, 6, 6, 0, 0, 0, 0)


def test_an_acknowledged_row_that_never_came_is_lost() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger, range(5))
    ledger.on_sent(1, 5)
    ledger.on_acknowledged(5, 6, 5.5)
    assert ledger.lost_rows() == [5]
    assert (ledger.totals().lost, ledger.totals().verdict) == (1, "fail")


def test_a_row_that_was_never_acknowledged_is_not_lost_but_the_run_fails() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger, range(5))
    ledger.on_sent(1, 5)
    assert (ledger.totals().lost, ledger.totals().verdict) == (0, "fail")


def test_two_confirmed_settlements_of_one_row_are_a_duplicate() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger)
    ledger.on_received(3, 4)
    ledger.on_settled([3])
    totals = ledger.totals()
    assert (totals.duplicates, totals.redelivered, totals.settled, totals.verdict) == (1, 1, 6, "fail")


def test_the_same_row_at_two_indexes_is_a_duplicate() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger)
    ledger.on_received(2, 7)
    assert (ledger.totals().duplicates, ledger.totals().verdict) == (1, "fail")


def test_a_row_acknowledged_twice_is_a_duplicate() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger)
    ledger.on_acknowledged(2, 9, 9.0)
    assert (ledger.totals().duplicates, ledger.totals().acknowledged) == (1, 6)


def test_an_unsettled_row_received_again_is_no_fault() -> None:
    ledger = Ledger(ROWS)
    for row in range(ROWS):
        ledger.on_sent(1, row)
        ledger.on_acknowledged(row, row + 1, row)
    for row in (0, 1, 2, 1, 2, 3, 4, 5):  # the lease of 1 and 2 ended with their master
        ledger.on_received(row, row + 1)
    ledger.on_settled(range(ROWS))
    totals = ledger.totals()
    assert (totals.redelivered, totals.order_breaks, totals.duplicates, totals.verdict) == (2, 0, 0, "pass")


def test_a_first_receipt_behind_a_later_row_is_an_order_break() -> None:
    ledger = Ledger(ROWS)
    for row in range(ROWS):
        ledger.on_sent(1, row)
        ledger.on_acknowledged(row, row + 1, row)
    for row in (0, 2, 1, 3, 5, 4):
        ledger.on_received(row, row + 1)
    ledger.on_settled(range(ROWS))
    assert (ledger.totals().order_breaks, ledger.totals().verdict) == (2, "fail")
    assert ledger.findings == [
        "row 1 was first delivered after row 2",
        "row 4 was first delivered after row 5",
    ]


def test_a_delivery_that_died_with_its_connection_may_come_late() -> None:
    ledger = Ledger(4)
    for row in range(4):
        ledger.on_sent(1, row)
        ledger.on_acknowledged(row, row + 1, row)
    for row, delivery_count in ((0, 1), (3, 1), (1, 2), (2, 2)):
        ledger.on_received(row, row + 1, delivery_count)
    ledger.on_settled(range(4))
    totals = ledger.totals()
    assert (totals.order_breaks, totals.redelivered, totals.late, totals.verdict) == (0, 2, 2, "pass")


def test_strange_messages_and_indexes_are_found() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger)
    ledger.on_corrupt(99)
    assert (ledger.totals().corrupt, ledger.totals().verdict) == (1, "fail")

    ledger = Ledger(2)
    ledger.on_sent(2, 0)
    ledger.on_acknowledged(0, 1, 0)
    ledger.on_acknowledged(1, 1, 0)
    assert ledger.totals().corrupt == 1


def test_a_pause_counts_only_while_something_waits() -> None:
    ledger = Ledger(3)
    ledger.on_sent(1, 1.0)
    ledger.on_acknowledged(0, 1, 1.1)
    ledger.on_sent(2, 50.0)  # nobody waited in between
    ledger.on_acknowledged(1, 2, 50.2)
    ledger.on_acknowledged(2, 3, 50.9)
    assert ledger.totals().longest_pause_ms == 700
    assert (ledger.longest_pause.from_s, ledger.longest_pause.to_s) == (50.2, 50.9)


def test_a_kill_needs_a_later_epoch() -> None:
    ledger = Ledger(ROWS)
    run_through(ledger)
    ledger.on_master(1)
    ledger.on_kill("a", 1, 2.0)
    assert (ledger.totals().takeovers, ledger.totals().verdict) == (0, "fail")
    ledger.on_master(2)
    ledger.on_master(2)
    assert (ledger.totals().takeovers, ledger.totals().verdict, ledger.totals().epochs) == (1, "pass", (1, 2))


def test_details_are_bounded_and_counts_are_not() -> None:
    ledger = Ledger(100)
    run_through(ledger, range(100))
    ledger.on_settled(range(100))
    assert (ledger.duplicates, len(ledger.findings)) == (100, 20)
