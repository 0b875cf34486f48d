"""Sends messages whose bodies are all different, settles what comes, and keeps what it was told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

import tandemq
from pipeline.schema import OK, UNKNOWN
from tandemq.errors import TandemqError
from tandemq.spark import Recording

BATCH, EVERY_S, WAITS_S = 10, 0.2, 120.0
SEND = "send"


class Load:
    """In a thread of its own, until the block ends; over takeovers the client waits."""

    def __init__(self, target: str, queue: str) -> None:
        self._target, self._queue, self._over = target, queue, threading.Event()
        self._recording = Recording()
        self.acknowledged: dict[bytes, int] = {}
        """Body to the index that the producer was told."""
        self.in_doubt: list[bytes] = []
        self._thread = threading.Thread(target=self._work, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def write(self, history: Path) -> None:
        """What an audit is given."""
        self._recording.write(history)

    def _work(self) -> None:
        with tandemq.connect(self._target, timeout=WAITS_S) as client:
            number = 0
            while not self._over.wait(EVERY_S):
                bodies = [f"m{number + at}".encode() for at in range(BATCH)]
                number += len(bodies)
                self._send(client, bodies)
                try:
                    client.dequeue(self._queue, BATCH).ack()
                except TandemqError:
                    continue  # a lease that went with its master comes again

    def _send(self, client: tandemq.Client, bodies: list[bytes]) -> None:
        began = self._recording.now_ns()
        try:
            receipts = client.enqueue(self._queue, bodies)
        except TandemqError:
            self.in_doubt += bodies
            self._recording.add("load", SEND, UNKNOWN, began, self._queue, indexes=[None] * len(bodies))
            return
        self.acknowledged |= {body: receipt.index for body, receipt in zip(bodies, receipts, strict=True)}
        self._recording.add(
            *("load", SEND, OK, began, self._queue),
            indexes=[receipt.index for receipt in receipts],
            ids=[receipt.id for receipt in receipts],
            epochs=[receipt.epoch for receipt in receipts],
        )
