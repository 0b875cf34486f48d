"""What every gRPC port of ours is opened with against crowds and floods. Each was tried with a raw socket
(`tests/integration/test_edge.py`): several arguments do not do what their description says.
"""

from __future__ import annotations

HANDSHAKE_MS = 3_000
"""From the connection to the client's SETTINGS, and from ours to its acknowledgement."""
PING_STRIKES_MAX = 8
"""Pings that come too soon, since the server last sent something. A keepalive has one ping under way, so that of an
honest client few can come at once; a flood ends within a packet.
"""
STREAMS_MAX = 1_000
"""Open at once on one connection; the next one is refused (REFUSED_STREAM), which gRPC clients take for "wait"."""
METADATA_BYTES_MAX = 8 << 10
PING_TIMEOUT_MS = 5_000

EDGE_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 0),  # a second process on the port is an error, not a second half of the clients
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),  # ends what says nothing, or half a preface
    ("grpc.http2.settings_timeout", HANDSHAKE_MS),  # ends what says its preface and then nothing
    ("grpc.http2.max_ping_strikes", PING_STRIKES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),  # the one above is soft: some larger ones pass
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
    # Without this one pings that nobody answered ended nothing within 8 s, whatever the one above says.
    ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
)


def bounded(connections_max: int) -> tuple[str, int]:
    """At most so many connections at a server; those beyond it are closed as soon as they are accepted."""
    return ("grpc.max_allowed_incoming_connections", connections_max)
