"""ActiveMQ Artemis through stomp.py: a receipt for every message, many unanswered; a hundred deliveries by one ack."""

from __future__ import annotations

import threading
import time
from typing import Any

import stomp

from bench.peers.load import WAIT_S, Job

ACKED_AT_ONCE = 100
LOOK_S = 0.02
END_S = 30.0
OVERHEAD_BYTES = 512  # of a message in a consumer's window


def connect(job: Job, listener: Any) -> stomp.StompConnection12:
    connection = stomp.StompConnection12([(job.target["host"], job.target["port"])], auto_decode=False)
    connection.set_listener("", listener)
    connection.connect(job.target["user"], job.target["password"], wait=True)
    return connection


class Listener(stomp.ConnectionListener):  # type: ignore[misc]  # the package has no types
    """What both sides need: failures, which come in a thread of stomp.py's, and the last receipt."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.failure = ""
        self.ended = threading.Event()

    def on_error(self, frame: Any) -> None:
        self.failure = f"{frame.headers} {frame.body!r}"

    def on_receipt(self, frame: Any) -> None:
        if frame.headers["receipt-id"] == "end":
            self.ended.set()

    def check(self) -> None:
        if self.failure:
            raise SystemExit(f"artemis: {self.failure}")


class Sent(Listener):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.began: dict[str, float] = {}
        self.answered = threading.Event()

    def on_receipt(self, frame: Any) -> None:
        began = self.began.pop(frame.headers["receipt-id"], None)
        if began is None:
            super().on_receipt(frame)
            return
        self.job.answered(1, began)
        self.answered.set()


class Received(Listener):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.bodies: list[bytes] = []
        self.last = ""
        self.guard = threading.Lock()
        self.connection: Any = None

    def on_message(self, frame: Any) -> None:
        with self.guard:
            self.bodies.append(frame.body)
            self.last = frame.headers["ack"]
            if len(self.bodies) >= ACKED_AT_ONCE:
                self.settle()

    def settle(self) -> None:
        if self.bodies:
            self.job.received(self.bodies)
            self.bodies = []
            self.connection.ack(self.last)


def prepare(job: Job) -> None:
    """A queue is made by the first message."""


def produce(job: Job) -> None:
    listener = Sent(job)
    connection = connect(job, listener)
    common = {"destination-type": "ANYCAST", "persistent": "true"}
    number = 0
    while not job.over:
        listener.check()
        if not (payloads := job.take(job.batch)):
            listener.answered.wait(WAIT_S)
            listener.answered.clear()
            continue
        for payload in payloads:
            number += 1
            receipt = str(number)
            listener.began[receipt] = time.perf_counter()
            connection.send(job.queue, payload, headers={**common, "receipt": receipt})
    while listener.began:
        listener.check()
        time.sleep(WAIT_S)
    connection.disconnect()


def consume(job: Job) -> None:
    listener = Received(job)
    connection = connect(job, listener)
    listener.connection = connection
    window = str(job.window * (job.size + OVERHEAD_BYTES))
    headers = {"subscription-type": "ANYCAST", "consumer-window-size": window}
    connection.subscribe(job.queue, id="1", ack="client", headers=headers)
    while not job.done():
        listener.check()
        time.sleep(LOOK_S)
        with listener.guard:
            listener.settle()
    connection.unsubscribe("1", receipt="end")
    if not listener.ended.wait(END_S):
        raise SystemExit("artemis: the last acknowledgement was not answered")
    connection.disconnect()
