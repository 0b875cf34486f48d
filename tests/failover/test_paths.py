"""Probes and classifiers over real sockets: listeners, refused ports, black holes, frozen processes, unknown names."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from chaos.cluster import is_stopped
from failover.alt_path import AltPath
from failover.classifier import Answer, DomainFacts, Event, EventKind, Evidence, Suspend, Verdict
from failover.combine import Combine
from failover.marks import DataMark, Role
from failover.peer_outdate import PeerOutdate
from failover.probe import Sight, look
from tests.support.sockets import full_listener, listener, refused
from tests.support.starvation import Stopwatch, Timely
from tests.support.until import OUTER_S, until_sync

PART = DomainFacts(
    "main", Role.MASTER, DataMark.IN_SYNC, 3, last_index=5, durable_index=5, commit_index=4, peer_index=4
)
MASTER = Event("e", EventKind.PEER_LOST, 1, "orders", "a", "b", (PART,), decide_by_ms=2_000)
REPLICA = replace(MASTER, domains=(replace(PART, role=Role.PROBE),))
NO_NAME = "no-such-host.invalid:7600"
SHORT_S = 0.3
TURN_S = 0.1  # what a look of a short time can do without


SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@asynccontextmanager
async def http_process() -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """Answers every GET with 503, until it is frozen."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"127.0.0.1:{int(await process.stdout.readline())}", process
    finally:
        process.kill()
        await process.wait()


def freeze(process: asyncio.subprocess.Process) -> None:
    """Returns when it has stopped."""
    process.send_signal(signal.SIGSTOP)
    until_sync(lambda: is_stopped(process.pid), "it has stopped")


# ---- what a probe sees


async def test_a_probe_tells_an_answer_a_refusal_silence_and_blindness_apart() -> None:
    with listener() as open_port, full_listener() as full:
        assert (await look(open_port, OUTER_S)).sight is Sight.ANSWERS
        assert (await look(refused(), OUTER_S)).sight is Sight.REFUSES
        assert (await look(full, SHORT_S)).sight is Sight.SILENT
        unknown = await look(NO_NAME, OUTER_S)
        assert unknown.sight is Sight.BLIND
        assert unknown.text
        # what this host refuses to send is not silence either
        assert (await look("255.255.255.255:7600", OUTER_S)).sight in (Sight.BLIND, Sight.CUT_OFF)


async def test_only_http_tells_a_frozen_process_from_a_running_one() -> None:
    async with http_process() as (address, process):
        seen = await look(address, OUTER_S, http=True)
        assert (seen.sight, seen.text.split()[1]) == (Sight.ANSWERS, "503")  # it runs; whether it is ready is not asked
        freeze(process)
        assert (await look(address, OUTER_S)).sight is Sight.ANSWERS
        assert (await look(address, SHORT_S, http=True)).sight is Sight.SILENT
        process.send_signal(signal.SIGCONT)
        assert (await look(address, OUTER_S, http=True)).sight is Sight.ANSWERS
    with listener() as black_hole:
        assert (await look(black_hole, SHORT_S, http=True)).sight is Sight.SILENT


# ---- alt-path


@pytest.mark.clock
async def test_alt_path_over_real_ports() -> None:
    with Timely(TURN_S), listener() as up, listener() as other, full_listener() as down, full_listener() as gone:
        for address, references, event, expected in (
            (up, [other, down], MASTER, 24),
            (down, [up, gone], MASTER, 20),
            (refused(), [up, other], MASTER, 20),
            (down, [up, other], REPLICA, 21),
            (down, [gone, gone], MASTER, 22),
            (NO_NAME, [up, other], MASTER, None),
            (down, [gone, NO_NAME], MASTER, None),
        ):
            with Stopwatch() as watch:
                answer = await AltPath(address, references, bias_s=0.1).classify(event)
            value = None if answer.verdict is None else answer.verdict.value
            assert value == expected, f"{address} {references}: {answer}"
            assert (answer.evidence, answer.by) == (Evidence.NONE, "alt-path")
            watch.judge("the answer", event.decide_by_ms / 1000, answer.duration_ms / 1000)


@pytest.mark.clock
async def test_the_time_limit_holds_with_everything_silent_and_the_longest_bias() -> None:
    with full_listener() as down, listener() as up, Stopwatch() as watch:
        answer = await AltPath(down, [up, down, down, down], bias_s=60.0).classify(REPLICA)
    assert answer.verdict is Verdict.ASSUME_MASTERSHIP
    assert MASTER.decide_by_ms / 3 < answer.duration_ms
    watch.judge("the answer", MASTER.decide_by_ms / 1000, answer.duration_ms / 1000)


@pytest.mark.clock
async def test_a_peer_that_comes_back_within_the_bias_is_seen() -> None:
    """A replica looks twice: the first look alone would have promoted it."""
    port = int(refused().rpartition(":")[2])
    with Timely(TURN_S), listener() as up, listener() as other:
        asked = asyncio.ensure_future(AltPath(f"127.0.0.1:{port}", [up, other], bias_s=0.5).classify(REPLICA))
        began = time.monotonic()
        while not asked.done() and time.monotonic() - began < 0.1:  # noqa: ASYNC110 (the first look takes a millisecond)
            await asyncio.sleep(0)
        with socket.create_server(("127.0.0.1", port)):
            assert (await asked).verdict is Verdict.PEER_ALIVE


async def test_preflight_names_what_it_could_not_use() -> None:
    with listener() as up, full_listener() as down:
        assert await AltPath(up, [up, refused()]).preflight() == []
        text = "\n".join(await AltPath(down, [NO_NAME, NO_NAME]).preflight())
    assert f"second address: {down} silent" in text
    assert f"reference: {NO_NAME} blind" in text
    assert "at least 2 different references" in text


# ---- peer-outdate: nobody there


@pytest.mark.clock
async def test_a_peer_that_cannot_be_reached_is_no_answer() -> None:
    with listener() as black_hole:
        for endpoint in (refused(), black_hole, NO_NAME):
            with Stopwatch() as watch:
                answer = await PeerOutdate(endpoint, bias_s=0.0).classify(replace(MASTER, decide_by_ms=600))
            assert answer.verdict is None
            assert endpoint in answer.reason
            watch.judge("the answer", 0.6, answer.duration_ms / 1000)
        assert black_hole in (await PeerOutdate(black_hole).preflight())[0]


# ---- combine


@pytest.mark.clock
async def test_members_are_asked_at_once_and_one_that_hangs_costs_its_own_vote() -> None:
    with Timely(TURN_S), listener() as up, listener() as other, full_listener() as down, listener() as black_hole:
        alive = AltPath(up, [up, other])
        dead = AltPath(down, [up, other])
        outdate = PeerOutdate(black_hole)  # connects, and then nothing comes
        for rule, members, expected in (
            ("any", (dead, outdate), Verdict.CONTINUE_AS_MASTER),
            ("all", (dead, outdate), None),
            ("all", (alive, alive), Verdict.PEER_ALIVE),
            ("any", (alive, dead), Verdict.WAIT),
            ("veto", (dead, Suspend()), Verdict.WAIT),
            ("2", (dead, dead, outdate), Verdict.CONTINUE_AS_MASTER),
        ):
            with Stopwatch() as watch:
                answer = await Combine(members, rule).classify(replace(MASTER, decide_by_ms=1_000))
            assert answer.verdict is expected, f"{rule}: {answer}"
            watch.judge("the answer", 1.5, answer.duration_ms / 1000)
            assert answer.evidence is Evidence.NONE


class Misbehaved(Suspend):
    """A classifier of somebody else's that breaks the contract."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.ended = asyncio.Event()

    async def classify(self, event: Event) -> Answer:
        assert event.decide_by_ms == 270  # its share
        if self.name == "raises":
            raise RuntimeError("no idea")
        if self.name == "hangs":
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
        return Answer("another", 1, Verdict.CONTINUE_AS_MASTER)

    async def preflight(self) -> list[str]:
        raise RuntimeError("no idea either")


async def test_a_member_that_breaks_the_contract_is_unknown() -> None:
    with listener() as up, listener() as other:
        good = AltPath(refused(), [up, other])
        for how, words in (
            ("raises", "failed: RuntimeError('no idea')"),
            ("hangs", "no answer within 270 ms"),
            ("answers for another", "answered for another event"),
        ):
            bad = Misbehaved(how)
            event = replace(MASTER, decide_by_ms=300)
            answer = await Combine((good, bad), "all").classify(event)
            assert answer.verdict is None
            assert words in answer.reason
            assert (await Combine((good, bad), "any").classify(event)).verdict is Verdict.CONTINUE_AS_MASTER
            assert how != "hangs" or bad.ended.is_set()
            assert "no idea either" in (await Combine((good, bad)).preflight())[-1]
