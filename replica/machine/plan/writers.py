"""Decides whether a writer's name may be used; changes nothing."""

from __future__ import annotations

from replica.machine.state.errors import Refused
from replica.machine.state.stages import Stages, Writer
from replica.machine.state.state import State
from tandemq.v1 import common_pb2


def writer_of(stages: Stages, name: str, query_id: str) -> Writer | None:
    """What is known of it. Raises Refused (WRITER_TAKEN) when it is somebody else's."""
    known = stages.writers.get(name)
    if known is not None and known.query_id != query_id:
        text = (
            f"writer {name!r} belongs to query {known.query_id!r}, whose last batch was {known.batch}; choose "
            "another name, or release the writer when that query is over"
        )
        raise Refused(common_pb2.REASON_WRITER_TAKEN, text, {"query_id": known.query_id, "batch": str(known.batch)})
    return known


def check_room_for_writer(state: State, name: str) -> None:
    """Raises Refused (QUOTA_EXCEEDED) when one more is too many."""
    writers, most = state.stages.writers, state.limits.writers_max
    if name not in writers and len(writers) >= most:
        text = f"{len(writers)} writers are known in this domain, which is the limit; release one"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(most), "of": "writers"})
