"""beanstalkd over its text protocol, pipelined: greenstalk, its usual client, waits for each answer.

Every put and every delete is a sync of its own in the server, so its Python client is not what bounds it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from typing import BinaryIO

from bench.peers.load import WAIT_S, Job

RESERVED_MAX = 100


def connect(job: Job) -> tuple[socket.socket, BinaryIO]:
    connection = socket.create_connection((job.target["host"], job.target["port"]))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, connection.makefile("rb")


def use(connection: socket.socket, answers: BinaryIO, job: Job) -> None:
    connection.sendall(f"use {job.queue}\r\nwatch {job.queue}\r\nignore default\r\n".encode())
    for expected in (b"USING", b"WATCHING", b"WATCHING"):
        line = answers.readline()
        assert line.startswith(expected), line


def prepare(job: Job) -> None:
    connection, answers = connect(job)
    with connection:
        use(connection, answers, job)
        # What an earlier queue of the name left; there is no other way to empty one.
        while True:
            connection.sendall(b"reserve-with-timeout 0\r\n")
            line = answers.readline()
            if line == b"TIMED_OUT\r\n":
                return
            _, number, size = line.split()
            answers.read(int(size) + 2)
            connection.sendall(b"delete " + number + b"\r\n")
            answers.readline()


def produce(job: Job) -> None:
    if job.window == 1:
        one_in_flight(job)
    else:
        many_in_flight(job)


def put(job: Job, payloads: list[bytes]) -> bytes:
    head = f"put 0 0 600 {job.size}\r\n".encode()
    return b"".join(part for payload in payloads for part in (head, payload, b"\r\n"))


def one_in_flight(job: Job) -> None:
    connection, answers = connect(job)
    with connection:
        use(connection, answers, job)
        while not job.over:
            began = time.perf_counter()
            connection.sendall(put(job, job.take(1)))
            line = answers.readline()
            assert line.startswith(b"INSERTED "), line
            job.answered(1, began)


def many_in_flight(job: Job) -> None:
    connection, answers = connect(job)
    sent: deque[float] = deque()
    sending = threading.Event()
    sending.set()

    def read() -> None:
        while sending.is_set() or sent:
            if not sent:
                time.sleep(WAIT_S)
                continue
            line = answers.readline()
            assert line.startswith(b"INSERTED "), line
            job.answered(1, sent.popleft())

    with connection:
        use(connection, answers, job)
        reader = threading.Thread(target=read)
        reader.start()
        try:
            while not job.over and reader.is_alive():
                began = time.perf_counter()
                if not (payloads := job.take(job.batch)):
                    time.sleep(WAIT_S)
                    continue
                sent.extend([began] * len(payloads))
                connection.sendall(put(job, payloads))
        finally:
            sending.clear()
            reader.join()


def consume(job: Job) -> None:
    connection, answers = connect(job)
    settled: list[bytes] = []
    with connection:
        use(connection, answers, job)
        while not job.done() or settled:
            # Reserves that do not wait: one that blocks would hold up the deletes behind it on this connection.
            deletes = b"".join(b"delete " + number + b"\r\n" for number in settled)
            connection.sendall(deletes + b"reserve-with-timeout 0\r\n" * RESERVED_MAX)
            for _ in settled:
                line = answers.readline()
                assert line == b"DELETED\r\n", line
            settled, bodies = [], []
            for _ in range(RESERVED_MAX):
                line = answers.readline()
                if line == b"TIMED_OUT\r\n":
                    continue
                word, number, size = line.split()
                assert word == b"RESERVED", line
                bodies.append(answers.read(int(size) + 2)[:-2])
                settled.append(number)
            if bodies:
                job.received(bodies)
            else:
                time.sleep(WAIT_S)
