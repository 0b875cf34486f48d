"""What happens to a pair in the middle of an open loop, and what must have come of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import grpc

from bench.peers.adapters.tandemq import Tandemq
from bench.peers.place import BenchError
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import pair_service_pb2_grpc as pb_grpc

NONE, KILL, HANDOFF = FAULTS = ("none", "kill -9 of the master", "handoff")
LABELS = {NONE: "undisturbed", KILL: KILL, HANDOFF: HANDOFF}
HANDOFF_S = 30.0


def disturbed(peer: Tandemq, fault: str, master: str, after_s: float) -> Callable[[], None] | None:
    """What is to be done when the load has begun: after so long, the fault."""

    def act() -> None:
        time.sleep(after_s)
        if fault == KILL:
            peer.cluster.kill(master)
        else:
            hand_over(peer.cluster.endpoint(master))

    return None if fault == NONE else act


def not_as_told(fault: str, before: str, after: str) -> list[str]:
    """Why a run is not one with that fault, by who was master before it and after."""
    if (fault == NONE) != (before == after):
        return [f"{fault}, and the master was {before} before and {after} after"]
    return []


def whole_again(peer: Tandemq, fault: str, master: str) -> None:
    if fault == KILL:
        peer.restart(master)
    peer.wait(peer.cluster.wait_ready())


def hand_over(endpoint: str) -> None:
    with grpc.insecure_channel(endpoint) as channel:
        reply = pb_grpc.PairServiceStub(channel).Handoff(pb.HandoffRequest(reason="bench"), timeout=HANDOFF_S)
    if not reply.done:
        raise BenchError(f"the handoff was refused: {', '.join(reply.reasons)}: {reply.text}")
