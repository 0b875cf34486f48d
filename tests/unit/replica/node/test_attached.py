"""Which clients are attached: counted by queue, kind and place, and let go when their streams end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from replica.node.attached import Attached, AttachedClients, Client


@pytest.mark.requirement("R048")
def test_clients_are_counted_while_their_streams_are_open() -> None:
    attached = Attached()
    with ExitStack() as stack:
        for queue, producer, remote in (
            ("q", True, False),
            ("q", False, True),
            ("alias", False, False),
            ("r", True, True),
        ):
            stack.enter_context(attached.client(Client(queue, producer, remote)))
        stack.enter_context(attached.client(None))  # the peer's
        assert attached.counts("q") == AttachedClients(consumers=1, producers=1, remote=1)
        assert attached.counts("q", "alias", "nobody") == AttachedClients(consumers=2, producers=1, remote=1)
        assert attached.counts() == AttachedClients(consumers=2, producers=2, remote=2)
        assert (attached.counts().all, attached.counts().local) == (4, 2)
    assert attached.counts() == attached.counts("q") == AttachedClients()
