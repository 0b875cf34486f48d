"""What the application promises: every order that was taken has one invoice, whatever happens to the queue or to us."""

import subprocess

import pytest
from conftest import INVOICES, ORDERS

from tandemq.testing import Chaos, Pair, Workload


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


def test_kill_9_of_the_application(application: list[subprocess.Popen[bytes]], tandemq_workload: Workload) -> None:
    tandemq_workload.start(ORDERS, take_from=INVOICES, rate=200)
    tandemq_workload.goes_on(100)
    application[0].kill()
    application[0].wait()
    tandemq_workload.goes_on(200)


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
