"""RabbitMQ through pika's SelectConnection, which its documentation gives for publishing at speed: confirms come as
they come.

AMQP 0.9.1 has no batch; the broker confirms many messages by one frame, and a consumer acknowledges many by one frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pika
import pika.adapters.select_connection

from bench.peers.load import WAIT_S, Job

ACKED_AT_ONCE = 100
LOOK_S = 0.02


def parameters(job: Job) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(job.target["host"], job.target["port"], heartbeat=0)


def prepare(job: Job) -> None:
    with pika.BlockingConnection(parameters(job)) as connection:
        channel = connection.channel()
        channel.queue_delete(job.queue)
        channel.queue_declare(job.queue, durable=True, arguments={"x-queue-type": job.target["queue_type"]})


class Session(ABC):
    """One connection with one channel; what happens on it is up to a subclass. A closed channel ends the process."""

    def __init__(self, job: Job, ioloop: Any = None) -> None:
        self.job = job
        self.channel: Any = None
        self._ended = ""
        self.connection = pika.SelectConnection(
            parameters(job),
            on_open_callback=self._opened,
            on_open_error_callback=self._failed,
            custom_ioloop=ioloop,
        )

    def run(self) -> None:
        self.connection.ioloop.start()
        if self._ended:
            raise SystemExit(f"rabbitmq: {self._ended}")

    def close(self) -> None:
        self.channel.close()  # it is answered after all that was sent before

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self.channel = channel
        channel.add_on_close_callback(self._closed)
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """The channel is open."""

    def _closed(self, _: Any, reason: Any) -> None:
        if not isinstance(reason, pika.exceptions.ChannelClosedByClient):
            self._ended = str(reason)
        self.connection.ioloop.stop()

    def _failed(self, _: Any, reason: Any) -> None:
        self._ended = str(reason)
        self.connection.ioloop.stop()


class Producer(Session):
    def begin(self) -> None:
        self._properties = pika.BasicProperties(delivery_mode=2)
        self._sent: dict[int, float] = {}  # by the number that the confirm will have; in order
        self._tag = 0
        self._waiting = False
        self.channel.confirm_delivery(self._confirmed, callback=self._confirming)

    def _confirming(self, _: Any) -> None:
        if self.job.paced:
            self.job.wake_when_due(lambda: self.connection.ioloop.add_callback_threadsafe(self._send))
        self._send()

    def _send(self) -> None:
        self._waiting = False
        publish, queue, properties = self.channel.basic_publish, self.job.queue, self._properties
        while payloads := self.job.take(self.job.batch):
            for place, payload in enumerate(payloads):
                publish("", queue, payload, properties)
                self._tag += 1
                self._sent[self._tag] = payloads.began + place * self.job.step_s
        if self.job.over and not self._sent:
            self.close()
        elif not self._sent and not self._waiting and not self.job.paced:
            self._waiting = True  # for the consumer: no confirm will come that would wake it
            self.connection.ioloop.call_later(WAIT_S, self._send)

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        assert isinstance(method, pika.spec.Basic.Ack), "a message was refused"
        if method.multiple:
            tags = []
            for tag in self._sent:
                if tag > method.delivery_tag:
                    break
                tags.append(tag)
            began = [self._sent.pop(tag) for tag in tags]
            if self.job.paced:  # others between them may be confirmed already
                for due in began:
                    self.job.answered(1, due)
            else:
                self.job.answered(len(began), began[0])
        else:
            self.job.answered(1, self._sent.pop(method.delivery_tag))
        self._send()


class OneOfMany(Session):
    """A producer of its own beside others on the same loop: publishes what it is handed."""

    def __init__(self, job: Job, ioloop: Any, ready: Callable[[], None], answered: Callable[[], None]) -> None:
        super().__init__(job, ioloop)
        self._ready, self._answered = ready, answered
        self._properties = pika.BasicProperties(delivery_mode=2)
        self._sent: dict[int, float] = {}  # by the number that the confirm will have; in order
        self._tag = 0

    def begin(self) -> None:
        self.channel.confirm_delivery(self._confirmed, callback=lambda _: self._ready())

    def publish(self, payload: bytes, due: float) -> None:
        self.channel.basic_publish("", self.job.queue, payload, self._properties)
        self._tag += 1
        self._sent[self._tag] = due

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        assert isinstance(method, pika.spec.Basic.Ack), "a message was refused"
        tags = [tag for tag in self._sent if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for tag in tags:
            self.job.answered(1, self._sent.pop(tag))
        self._answered()


class Many:
    """So many producers, each message by the next one when it is due."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._unready = job.producers
        self._number = 0
        self._ioloop = pika.adapters.select_connection.IOLoop()
        self._sessions = [OneOfMany(job, self._ioloop, self._ready, self._end) for _ in range(job.producers)]

    def run(self) -> None:
        self._sessions[0].run()

    def _ready(self) -> None:
        self._unready -= 1
        if not self._unready:
            self._job.wake_when_due(lambda: self._ioloop.add_callback_threadsafe(self._send))

    def _send(self) -> None:
        while payloads := self._job.take(self._job.batch):
            for place, payload in enumerate(payloads):
                session = self._sessions[self._number % len(self._sessions)]
                session.publish(payload, payloads.began + place * self._job.step_s)
                self._number += 1
        self._end()

    def _end(self) -> None:
        if self._job.over and not self._job.unanswered:
            self._sessions[0].close()  # which ends the loop; the others go with the process


class Consumer(Session):
    def begin(self) -> None:
        self._bodies: list[bytes] = []
        self._tag = 0
        self.channel.basic_qos(prefetch_count=self.job.window)
        self.channel.basic_consume(self.job.queue, self._delivered)
        self._look()

    def _delivered(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self._bodies.append(body)
        self._tag = method.delivery_tag
        if len(self._bodies) >= ACKED_AT_ONCE:
            self._settle()

    def _settle(self) -> None:
        if self._bodies:
            self.job.received(self._bodies)
            self._bodies = []
            self.channel.basic_ack(self._tag, multiple=True)

    def _look(self) -> None:
        self._settle()
        if self.job.done():
            self.close()
        else:
            self.connection.ioloop.call_later(LOOK_S, self._look)


def produce(job: Job) -> None:
    (Many if job.producers > 1 else Producer)(job).run()


def consume(job: Job) -> None:
    Consumer(job).run()
