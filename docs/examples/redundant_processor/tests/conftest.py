"""The application under test: two processes, as in production."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tandemq.testing import Pair
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

ORDERS, INVOICES = "orders", "invoices"
READY_S, POLL_S = 30.0, 0.05


def start(pair: Pair) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "invoicing", ORDERS, INVOICES]
    return subprocess.Popen(command, env={**os.environ, **pair.environment})


@pytest.fixture
def application(tandemq_pair: Pair) -> Iterator[list[subprocess.Popen[bytes]]]:
    orders = QueueConfig()
    orders.lease_duration.FromSeconds(2)  # an order of a dead process comes again after so long
    client = tandemq_pair.client()
    client.create_queue(ORDERS, orders)
    client.create_queue(INVOICES)
    processes = [start(tandemq_pair) for _ in range(2)]
    until = time.monotonic() + READY_S
    while client.get_queue(ORDERS).consumers < len(processes):  # both are at work
        assert time.monotonic() < until, f"not ready: {[process.poll() for process in processes]}"
        time.sleep(POLL_S)
    yield processes
    alive = [process for process in processes if process.returncode is None]  # a test may have killed one
    for process in alive:
        process.terminate()
    assert [process.wait(30) for process in alive] == [0] * len(alive)
