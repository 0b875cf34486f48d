"""What the application promises: every order that was taken has one invoice, whatever happens to the queue or to us."""

import subprocess
import time
from datetime import timedelta

import pytest
from conftest import INVOICES, ORDERS, POLL_S
from invoicing.__main__ import BATCH_MAX

from tandemq import Client
from tandemq.testing import Chaos, Pair, Workload
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

WAITERS_S = 30.0


@pytest.mark.usefixtures("application")
def test_an_order_becomes_an_invoice(tandemq_pair: Pair) -> None:
    client = tandemq_pair.client()
    client.enqueue(ORDERS, [b"two chairs"])
    for delivery in client.consumer(INVOICES):
        assert delivery.payload == b"two chairs"
        delivery.ack()
        break


@pytest.mark.usefixtures("application")
def test_kill_9_of_the_master(tandemq_pair: Pair, tandemq_workload: Workload) -> None:
    tandemq_workload.start(ORDERS, take_from=INVOICES, rate=200)
    killed = tandemq_pair.kill("master")
    tandemq_workload.goes_on(200)
    tandemq_pair.start(killed[0])
    verdict = tandemq_workload.verdict()
    assert verdict.longest_pause_ms < 5_000


def test_kill_9_of_the_application(
    application: list[subprocess.Popen[bytes]], tandemq_pair: Pair, tandemq_workload: Workload
) -> None:
    """Always with orders in hand: there is no room for their invoices, so it waits between its two steps."""
    client = tandemq_pair.client()
    client.update_queue(INVOICES, QueueConfig(max_length=BATCH_MAX), ["max_length"])
    client.enqueue(INVOICES, [b"in the way"] * BATCH_MAX)
    in_the_way = client.dequeue(INVOICES, BATCH_MAX, lease=timedelta(minutes=10))  # ours until they are settled
    assert len(in_the_way) == BATCH_MAX
    tandemq_workload.start(ORDERS, take_from=INVOICES, rate=200)
    wait_for_waiters(client, 2)
    application[0].kill()
    application[0].wait()
    wait_for_waiters(client, 1)
    in_the_way.ack()
    tandemq_workload.goes_on(200)


def wait_for_waiters(client: Client, count: int) -> None:
    """So many processes wait for room for their invoices."""
    until = time.monotonic() + WAITERS_S
    while client.get_queue(INVOICES).waiters != count:
        assert time.monotonic() < until, f"not {count} but {client.get_queue(INVOICES).waiters} wait"
        time.sleep(POLL_S)


@pytest.mark.usefixtures("application")
def test_a_partition(tandemq_chaos: Chaos, tandemq_workload: Workload) -> None:
    tandemq_workload.start(ORDERS, take_from=INVOICES, rate=200)
    with tandemq_chaos.held("cut"):
        tandemq_workload.goes_on(200)


@pytest.mark.usefixtures("application")
def test_a_handoff(tandemq_pair: Pair, tandemq_workload: Workload) -> None:
    tandemq_workload.start(ORDERS, take_from=INVOICES, rate=200)
    before = tandemq_pair.master
    assert tandemq_pair.handoff() != before
    tandemq_workload.goes_on(200)


@pytest.mark.tandemq(seed=20)
@pytest.mark.usefixtures("application")
def test_a_storm(tandemq_chaos: Chaos, tandemq_workload: Workload) -> None:
    tandemq_workload.start(ORDERS, take_from=INVOICES, rate=200)
    print(tandemq_chaos.storm(rounds=2, for_s=1.5))
