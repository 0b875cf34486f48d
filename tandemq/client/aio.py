"""The asyncio client: what users call. It decides nothing: it fills in requests and hands them on.

async with tandemq.aio.connect("host:7600,host:7610") as client:
    async with client.producer("orders") as producer:
        receipt = await producer.send(b"...")
    async for delivery in client.consumer("orders"):
        delivery.ack()
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from tandemq import retry
from tandemq.channels import Open, open_channel
from tandemq.client import (
    admin,
    batches,
    completion,
    exporting,
    journal,
    macros,
    messages,
    open_units,
    proxies,
    queue_watch,
    reactions,
    readers,
    rights,
    staging,
    transmissions,
    units,
    weights,
)
from tandemq.client.admin import MemberAnswer
from tandemq.client.batches import LeasedBatch, TakenBatches
from tandemq.client.completion import Completion, Final, Handle, Reached
from tandemq.client.consumer import Consumer, Mode
from tandemq.client.delivery import Delivery, DeliveryBatch, ReceivedMessage
from tandemq.client.exporting import Export
from tandemq.client.filtering import Where
from tandemq.client.journal import JournalHead, JournalKind, JournalPage, JournalRow, JournalStart
from tandemq.client.links import Links
from tandemq.client.macros import Macro, MacroMember, MacroPolicy, MacroWeights, Relationship
from tandemq.client.messages import ReceivedBatch
from tandemq.client.open_units import Unit, UnitState
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.client.places import JournalPosition
from tandemq.client.producer import Producer
from tandemq.client.proxies import Proxy, ProxyState
from tandemq.client.queue_watch import DepthEvent, WatchReason
from tandemq.client.readers import JournalReader
from tandemq.client.receipts import Level, PartlyRefused, Receipt, Receipts, Warned
from tandemq.client.rights import Decision, Grant, Rights
from tandemq.client.settling import Lost
from tandemq.client.staging import Published, PublishedRows, Staged, WriterState, new_stage_id
from tandemq.client.target import NoTarget
from tandemq.client.transmissions import Going, ReleasedTransmission, Transmission
from tandemq.client.waits import Wait, to_wait
from tandemq.client.weights import PublishedWeights, WeightTable
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.chosen import directory_of, opener_of
from tandemq.errors import TandemqError
from tandemq.finding.resolver import Resolver
from tandemq.finding.target import Target

__all__ = [
    "Attributes",
    "BadCredentials",
    "Client",
    "Completion",
    "Consumer",
    "Decision",
    "Delivery",
    "DeliveryBatch",
    "DepthEvent",
    "Export",
    "Final",
    "Going",
    "Grant",
    "Handle",
    "JournalHead",
    "JournalKind",
    "JournalPage",
    "JournalPosition",
    "JournalReader",
    "JournalRow",
    "JournalStart",
    "LeasedBatch",
    "Level",
    "Lost",
    "Macro",
    "MacroMember",
    "MacroPolicy",
    "MacroWeights",
    "MemberAnswer",
    "NoTarget",
    "Outgoing",
    "PartlyRefused",
    "Producer",
    "Proxy",
    "ProxyState",
    "Published",
    "PublishedRows",
    "PublishedWeights",
    "Reached",
    "Receipt",
    "Receipts",
    "ReceivedBatch",
    "ReceivedMessage",
    "Relationship",
    "ReleasedTransmission",
    "Rights",
    "Staged",
    "TakenBatches",
    "TandemqError",
    "Target",
    "Transmission",
    "Unit",
    "UnitState",
    "Warned",
    "WatchReason",
    "WeightTable",
    "WriterState",
    "connect",
    "new_stage_id",
]

TIMEOUT_S = 30.0


def connect(
    target: str | Sequence[str] | Target | None = None,
    *,
    timeout: float = TIMEOUT_S,
    attempt_timeout: float = 5.0,
    follow_master: bool = True,
    resolvers: Sequence[Resolver] = (),
    credentials: str | os.PathLike[str] | None = None,
) -> Client:
    """A client for a pair: "host:port,host:port", or "//name"; else the default one of this user, host or site.

    "//orders" is looked up by `resolvers`, then by those of this machine's files (docs/CLIENTS.md, Finding a manager);
    "//orders/cf/hotline" connects to the same and lets `Client.queue` be "cf/hotline"; "///cf/hotline" finds a queue
    that was exported. Wherever a queue is named, a full name may stand: another manager's opens a connection there.

    Connects when something is asked of it. `timeout` (seconds) bounds every call with all its repetitions, and the time
    that producers and consumers go on without any answer; `attempt_timeout` one attempt. With `follow_master` the
    client goes to the master that replies name; without, it keeps to the named endpoints, which forward.
    `credentials`: a directory with ca.pem, cert.pem and key.pem, for a pair with TLS (docs/SECURITY.md); by default
    $TANDEMQ_CREDENTIALS, else the current context's. Files that are exchanged there are used for new connections.
    Raises NoTarget, BadCredentials.
    """
    if not isinstance(target, Target):
        from tandemq.finding.default import resolve_target  # its files and names are not needed beside a Target

        target = resolve_target(target if target is None or isinstance(target, str) else ",".join(target))
    policy = retry.Policy(total_s=timeout, attempt_s=attempt_timeout)
    directory = directory_of(credentials) or target.credentials
    return Client(target, policy, follow_master=follow_master, open_channel=opener_of(directory), resolvers=resolvers)


class Client:
    """Talks to one pair. Belongs to the event loop in which it is first used."""

    # Most calls are functions of the modules beside this one, which see of a client its connections and no more:
    # `links`, and `callbacks` where a sender is to be called back (docs/decisions/0045-clients-of-parts.md).

    def __init__(
        self,
        target: Target,
        policy: retry.Policy,
        *,
        follow_master: bool = True,
        open_channel: Open = open_channel,
        resolvers: Sequence[Resolver] = (),
    ) -> None:
        self.target = target
        self.links = Links(target, policy, follow_master=follow_master, open_channel=open_channel, extra=resolvers)
        self.callbacks = completion.Callbacks(self.links)
        self._open: weakref.WeakSet[Producer | Consumer] = weakref.WeakSet()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its producers (which flush) and consumers (which give back), then the connections."""
        await self.callbacks.close()
        await asyncio.gather(*(item.close() for item in list(self._open)))
        await self.links.close()

    @property
    def queue(self) -> str:
        """The queue that the target named beside the manager, relative to it; empty when it named none."""
        return self.target.queue

    async def locate(self) -> tuple[str, ...]:
        """Where its manager serves clients; looks it up when it was given by name. Raises MANAGER_NOT_FOUND,
        MANAGER_UNREACHABLE."""
        return await self.links.own.members.located()

    def epoch(self, domain: str = "main") -> int:
        """Highest epoch in the replies; 0 when none has."""
        return self.links.own.members.masters.epoch(domain)

    def master(self, domain: str = "main") -> str:
        """host:port of the master that replies have named; empty when none has."""
        return self.links.own.members.masters.endpoint(domain)

    # -- streams -----------------------------------------------------------------------------------------------------

    def producer(
        self,
        queue: str,
        *,
        client_id: bytes | str | None = None,
        min_copies: int = 0,
        max_batch_messages: int = 1000,
        max_batch_bytes: int = 1 << 20,
        max_unanswered_batches: int = 4,
        max_pending_bytes: int = 64 << 20,
        max_pending_messages: int = 1_000_000,
        full_wait: Wait | None = None,
        forward: bool = False,
    ) -> Producer:
        """A producer for one queue; connects when it is first used.

        client_id: names it over restarts of the application (1 to 56 bytes); None: a new one. One producer at a time:
            when batches of another one turn up under it, this one goes on as `<client_id>~1`.
        min_copies: refuse (NOT_ENOUGH_COPIES) rather than acknowledge on fewer; 0 means 1.
        max_batch_*: a batch that is full leaves at once, up to `max_unanswered_batches` of them. What is less than 64
            KiB waits for the answer to the last one of its kind, if one is under way, and leaves together.
        max_pending_*: bound of what waits here; beyond it `send` waits and `send_nowait` raises.
        full_wait: how long a message may wait for room in a full queue, in the order in which it came to the master;
            seconds, -1 for ever; by default it is refused with QUEUE_FULL at once. `timeout` counts from then on.
        forward: messages for `//manager/queue` are given to this client's own manager, which sends them on: once, in
            order, later; without, another manager is connected to.
        """
        link, queue = (self.links.own, queue) if forward else self.links.at(queue)
        producer = Producer(
            link.members,
            self.links.policy,
            queue,
            client_id=client_id,
            min_copies=min_copies,
            max_batch_messages=max_batch_messages,
            max_batch_bytes=max_batch_bytes,
            max_unanswered_batches=max_unanswered_batches,
            max_pending_bytes=max_pending_bytes,
            max_pending_messages=max_pending_messages,
            full_wait=to_wait(full_wait),
        )
        self._open.add(producer)
        return producer

    def consumer(
        self,
        queue: str,
        *,
        client_id: bytes | str | None = None,
        credit_messages: int = 1000,
        credit_bytes: int = 8 << 20,
        lease: timedelta | None = None,
        mode: Mode | None = None,
        on_lost: Callable[[Lost], None] | None = None,
        where: str | Where | None = None,
    ) -> Consumer:
        """A consumer of one queue; connects when it is first asked for a message.

        credit_*: how much may be on its way or buffered here.
        lease, mode: None: the queue's. Mode "immediate" removes at delivery: at most once.
        on_lost: called with settlements that were refused; they are counted in `Consumer.lost` as well.
        where: only these; a text is a selector.
        """
        link, queue = self.links.at(queue)
        consumer = Consumer(
            link.members,
            self.links.policy,
            queue,
            client_id=client_id,
            credit_messages=credit_messages,
            credit_bytes=credit_bytes,
            lease=lease,
            mode=mode,
            on_lost=on_lost,
            where=where,
        )
        self._open.add(consumer)
        return consumer

    # -- single calls about messages ---------------------------------------------------------------------------------

    enqueue = messages.enqueue
    dequeue = messages.dequeue
    settle = messages.settle
    browse = messages.browse
    watch = queue_watch.watch
    transact = units.transact
    unit = open_units.unit
    in_unit = open_units.in_unit
    list_units = open_units.list_units
    react = reactions.react

    send = completion.send
    call = completion.call
    handle = completion.handle
    check_completions = completion.check_completions
    wait_completions = completion.wait_completions
    completions = completion.completions
    reply = completion.reply

    list_transmissions = transmissions.list_transmissions
    release_transmission = transmissions.release_transmission

    # -- rows that are staged, batches that are leased ---------------------------------------------------------------

    stage = staging.stage
    publish = staging.publish
    abort_stages = staging.abort_stages
    writer_state = staging.writer_state
    release_writer = staging.release_writer

    lease_batch = batches.lease_batch
    read_batch = batches.read_batch
    ack_batch = batches.ack_batch
    get_batches = batches.get_batches

    # -- the journal and its readers ---------------------------------------------------------------------------------

    journal_head = journal.journal_head
    read_journal = journal.read_journal

    register_reader = readers.register_reader
    advance_reader = readers.advance_reader
    delete_reader = readers.delete_reader
    list_readers = readers.list_readers

    # -- administration ----------------------------------------------------------------------------------------------

    create_queue = admin.create_queue
    create_replicated_queue = admin.create_replicated_queue
    open_replicated_queue = admin.open_replicated_queue
    close_replicated_queue = admin.close_replicated_queue
    destroy_replicated_queue = admin.destroy_replicated_queue
    restart_side = admin.restart_side
    get_queue = admin.get_queue
    list_queues = admin.list_queues
    update_queue = admin.update_queue
    delete_queue = admin.delete_queue
    purge_queue = admin.purge_queue
    restore_queue = admin.restore_queue
    manager_info = admin.manager_info
    pair_status = admin.pair_status
    handoff = admin.handoff

    configure_queue = admin.configure_queue
    open_queue = admin.open_queue
    close_queue = admin.close_queue
    create_alias = admin.create_alias
    delete_alias = admin.delete_alias
    get_defaults = admin.get_defaults
    update_defaults = admin.update_defaults

    move_messages = admin.move_messages
    redrive_queue = admin.redrive_queue
    delete_messages = admin.delete_messages

    find_queue = exporting.find_queue
    export_queue = exporting.export_queue
    withdraw_queue = exporting.withdraw_queue

    create_macro = macros.create_macro
    add_macro_member = macros.add_macro_member
    remove_macro_member = macros.remove_macro_member
    get_macro = macros.get_macro
    list_macros = macros.list_macros
    delete_macro = macros.delete_macro
    create_proxy = proxies.create_proxy
    get_proxy = proxies.get_proxy
    list_proxies = proxies.list_proxies
    delete_proxy = proxies.delete_proxy
    publish_weights = weights.publish_weights
    get_weights = weights.get_weights
    list_weights = weights.list_weights
    delete_weights = weights.delete_weights

    grant_right = rights.grant_right
    revoke_right = rights.revoke_right
    list_rights = rights.list_rights
    check_right = rights.check_right
