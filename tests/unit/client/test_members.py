"""What a client keeps for each endpoint: bounded, whatever masters replies name."""

from __future__ import annotations

import grpc

from tandemq.client.members import CHANNELS_LEARNED_MAX, DOMAINS_MAX, QUEUES_MAX, Members


async def test_what_was_heard_goes_with_the_channel() -> None:
    members = Members(("named:1",))
    endpoints = ["named:1", *(f"learned:{number}" for number in range(CHANNELS_LEARNED_MAX + 1))]
    for endpoint in endpoints:
        members.channel(endpoint)
        members.hear(endpoint, 1.0)
    gone = endpoints[1]
    assert members.heard_s(gone) == 0.0
    assert all(members.heard_s(endpoint) == 1.0 for endpoint in endpoints if endpoint != gone)
    members.hear(gone, 2.0)  # a stream that goes on over the dropped channel
    assert members.heard_s(gone) == 0.0
    await members.close()
    assert members.heard_s("named:1") == 0.0


async def test_with_the_client_its_connections_end() -> None:
    members = Members(("127.0.0.1:1",))
    channel = members.channel("127.0.0.1:1")
    await members.close()
    assert channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN
    assert members.channel("127.0.0.1:1") is not channel
    await members.close()


async def test_what_is_known_of_queues_and_domains_is_bounded_and_the_oldest_goes() -> None:
    members = Members(("127.0.0.1:1",))
    for number in range(QUEUES_MAX + 1):
        members.masters.place(f"q{number}", "main")
    assert [members.masters.domain_of(f"q{number}") for number in (0, 1, QUEUES_MAX)] == ["", "main", "main"]
    members.masters.place("q1", "main")  # heard of again
    members.masters.place("new", "main")
    assert [members.masters.domain_of(name) for name in ("q1", "q2")] == ["main", ""]
    for number in range(DOMAINS_MAX + 1):
        members.masters.learn(f"d{number}", 3, "b:1")
    assert [members.masters.endpoint(f"d{number}") for number in (0, 1, DOMAINS_MAX)] == ["", "b:1", "b:1"]
