"""A reaction by the name of a macro queue acts on each of its members by one record (V18, R216)."""

from __future__ import annotations

from typing import Any

import pytest

from tandemq import aio
from tandemq.client.identity import new_request_id
from tandemq.client.macros import Relationship
from tandemq.client.reactions import Cancel, Outcome
from tandemq.errors import TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import new_name, payloads
from tests.integration.two_pairs import client_of, two_pairs

pytestmark = pytest.mark.process

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


@pytest.fixture
async def macro(east: aio.Client) -> tuple[str, list[str]]:
    """A macro queue with two members, of three messages each."""
    name = new_name("macro")
    queues = [f"{name}.{number}" for number in range(2)]
    await east.create_macro(name)
    for queue in queues:
        await east.create_queue(queue, QueueConfig(reactions_enabled=True))
        await east.add_macro_member(name, queue)
        await east.enqueue(queue, [b"1", b"2", b"3"])
    return name, queues


async def react(client: aio.Client, name: str, **more: Any) -> Any:
    return await client.react(name, "tq_index < 3", Cancel(), everything=True, **more)


@pytest.mark.requirement("R216")
async def test_it_is_scattered_to_the_members_and_each_has_its_outcome(
    east: aio.Client, macro: tuple[str, list[str]]
) -> None:
    name, queues = macro
    request_id = new_request_id()
    done = await react(east, name, request_id=request_id)
    assert (done.outcome, done.applied, done.duplicate) == (Outcome.APPLIED, 4, False)
    assert [(home.queue, home.applied) for home in done.homes] == [(queue, 2) for queue in queues]
    assert [await payloads(east, queue) for queue in queues] == [[b"3"], [b"3"]]
    await east.remove_macro_member(name, queues[1])
    again = await react(east, name, request_id=request_id)
    assert (again.applied, again.duplicate, again.homes) == (4, True, ()), "nothing says whose counts they were"
    await east.remove_macro_member(name, queues[0])
    assert (await react(east, name, request_id=request_id)).duplicate
    with pytest.raises(TandemqError, match=r"CONFIG_ERROR.*has no members"):
        await react(east, name)


async def test_what_it_cannot_act_on_is_refused_by_name_and_nothing_is_done(
    east: aio.Client, west: aio.Client, macro: tuple[str, list[str]]
) -> None:
    name, queues = macro
    far = new_name("far")
    await west.create_queue(far)
    await east.create_proxy(f"{far}.proxy", f"//west/{far}")
    await east.add_macro_member(name, f"{far}.proxy")
    with pytest.raises(TandemqError, match=rf"BAD_REQUEST.*member {far}.proxy of macro queue {name}"):
        await react(east, name)
    spread = f"{name}.in"
    await east.create_macro(spread, relationship=Relationship.PRODUCER)
    await east.add_macro_member(spread, f"//west/{far}")
    with pytest.raises(TandemqError, match=rf"BAD_REQUEST.*member SYSTEM.XMIT/west/{far} of macro queue"):
        await react(east, spread)
    with pytest.raises(TandemqError, match=r"BAD_REQUEST.*is a macro queue: one call reacts to it alone"):
        await east.react([name, queues[0]], "tq_index < 3", Cancel())
    await east.remove_macro_member(name, f"{far}.proxy")
    await east.update_queue(queues[1], QueueConfig(reactions_enabled=False), ["reactions_enabled"])
    with pytest.raises(TandemqError, match=f"REACTION_DISABLED.*{queues[1]}"):
        await react(east, name)
    assert [await payloads(east, queue) for queue in queues] == [[b"1", b"2", b"3"]] * 2
