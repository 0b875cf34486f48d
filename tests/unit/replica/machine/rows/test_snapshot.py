"""A state written as bytes and read back is the same state; the digest tells any two apart."""

from __future__ import annotations

import sys

import pytest

from replica.machine import Limits, Machine, Refused
from replica.machine.plan.time import next_due_ms
from replica.machine.rows.kept import ROW_KEPT_MAX
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, MEMBERS, Driver, batch_of


@pytest.fixture
def driver() -> Driver:
    """One of everything."""
    made = Driver(Limits(expire_max=10))
    made.create("q", persistence=admin_pb2.PERSISTENCE_CONDITIONAL, max_message_bytes=10)
    made.create("other")
    made.enqueue(batch_of([1, 11, 1, 1], priorities=[1, 2, 3, 9], persistence=[2, 1, 1, 2], ttls_ms=[0, 9, 90, 900]))
    made.enqueue(batch_of([1] * 5), request_id=b"r" * 16)
    made.lease(3, duration_ms=9)
    made.now_ms += 10
    made.expire()
    lease_id, order = made.lease(3)
    made.outcome(ACK, lease_id, (order[0], order[0]))
    made.commits = False
    made.send(4)
    return made


def test_restored_state_is_equal_and_goes_on_equally(driver):
    again = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    assert again.digest() == driver.master.digest()
    assert (again.applied_index, again.state.commit_index) == (
        driver.master.applied_index,
        driver.master.state.commit_index,
    )
    assert next_due_ms(again.state) == next_due_ms(driver.master.state)
    assert again.names() == ["other", "q"]
    driver.master = again  # the shadow has lived through it all
    driver.now_ms += 100_000
    assert driver.browse() == [1, 2, 4, 5, 6, 7, 8]
    driver.commit()
    assert driver.browse() == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    driver.expire()
    assert driver.lease(20)[1] == [4, 5, 6, 7, 8, 9, 10, 11, 12, 1]
    assert again.find_request(b"r" * 16, 0) is not None


def test_the_commit_index_is_no_part_of_the_state(driver):
    before = driver.master.digest()
    driver.commit()
    assert driver.master.digest() == before == driver.replica.digest()


def test_every_change_changes_the_digest(driver):
    seen = {driver.master.digest()}
    driver.commit()
    steps = (
        lambda: driver.send(1),
        lambda: driver.lease(1),
        lambda: driver.create("third"),
        lambda: driver.enqueue(batch_of([1], queue="other"), client_id=b"x"),
        lambda: driver.enqueue(batch_of([1], queue="other"), request_id=b"y" * 16),
    )
    for at, step in enumerate(steps, 2):
        step()
        seen.add(driver.master.digest())
        assert len(seen) == at
    assert {len(digest) for digest in seen} == {16}


def test_other_bytes_are_no_snapshot(driver):
    data = driver.master.snapshot()
    for damaged in (data[:-1], data + b"x", b"XXX" + data[3:]):
        with pytest.raises(AssertionError):
            Machine.restore(damaged, MEMBERS)
    with pytest.raises(Refused, match="format 2"):
        Machine.restore(data[:3] + b"\x02" + data[4:], MEMBERS)


def calls_of(work):
    """How many functions a piece of work calls, ours and the interpreter's: what it costs, without a clock."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_snapshot_costs_what_was_touched_since_the_last_one():
    """The members take one every 64 MiB of log: with 10,000 queues of which one is used, all of them were in the cost
    of its messages (1.24 times that of one queue alone), and each time everything else waited for 150 ms."""
    count = 300
    driver = Driver()
    driver.plan = lambda make: make()
    driver.order = lambda header: driver.master.apply(driver.master.applied_index + 1, 1, header)
    for number in range(count):
        driver.create(f"q{number}")
        driver.enqueue(batch_of([1], queue=f"q{number}"), first_sequence=1)
    everything = calls_of(driver.master.snapshot)
    driver.enqueue(batch_of([1], queue="q7"), first_sequence=2)
    one = calls_of(driver.master.snapshot)
    assert everything > 50 * count
    assert one < count


def test_what_is_kept_of_a_snapshot_is_no_more_than_a_few_kilobytes_a_queue():
    driver = Driver()
    driver.create("short")
    driver.create("long")
    driver.plan = lambda make: make()
    driver.order = lambda header: driver.master.apply(driver.master.applied_index + 1, 1, header)
    for number in range(1, 400):
        driver.enqueue(batch_of([1], queue="long"), first_sequence=number)
    state = driver.master.state
    driver.master.snapshot()
    kept = [len(each.row) for each in (*state.queues.values(), *(producer for _, producer in state.producers.dump()))]
    assert 0 < kept[0] <= ROW_KEPT_MAX
    assert kept[1:] == [0, 0], "a row that is longer is written each time"
