"""Probes over real sockets (listeners, refused ports, black holes, frozen processes, unknown names), their double, and
what the classifiers that look make of what they see: one case each over real ports, the rest in the loop's own time.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from chaos.cluster import is_stopped
from failover import peer_outdate
from failover.alt_path import AltPath
from failover.classifier import Answer, DomainFacts, Event, EventKind, Evidence, Suspend, Verdict
from failover.combine import Combine
from failover.marks import DataMark, Role
from failover.memory_network import MemoryNetwork, Place
from failover.peer_outdate import PeerOutdate
from failover.probe import Sight, look
from tests.support.sockets import full_listener, listener, refused
from tests.support.starvation import Timely
from tests.support.until import OUTER_S, until_sync
from tests.support.virtual_time import run, until

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


# ---- the double


PLACES = {
    "up:1": Place.UP,
    "other:1": Place.MUTE,
    "closed:1": Place.CLOSED,
    "down:1": Place.GONE,
    "gone:1": Place.GONE,
    "cut:1": Place.CUT_OFF,
}
UP, OTHER, CLOSED, DOWN, GONE, CUT = PLACES
NAMELESS = "nowhere.invalid:1"


async def test_the_double_sees_what_a_probe_of_real_ports_sees() -> None:
    """As the two tests above, at once: who stands at a real port, and the place that says so."""
    network = MemoryNetwork({})
    with listener() as mute, full_listener() as gone:
        async with http_process() as (up, _):
            network.places |= {mute: Place.MUTE, gone: Place.GONE, up: Place.UP, (closed := refused()): Place.CLOSED}
            for http in (False, True):
                # What answers is given time: a busy machine makes nobody silent.
                quiet = (gone, mute) if http else (gone,)
                asked = [
                    (address, SHORT_S if address in quiet else OUTER_S) for address in (mute, gone, up, closed, NO_NAME)
                ]
                real = await asyncio.gather(*(look(address, limit_s, http=http) for address, limit_s in asked))
                planned = await asyncio.gather(*(network(address, limit_s, http=http) for address, limit_s in asked))
                assert [(seen.address, seen.sight) for seen in real] == [(seen.address, seen.sight) for seen in planned]
                assert {seen.sight for seen in real} == set(Sight) - {Sight.CUT_OFF}


def test_silence_costs_the_double_the_whole_time_and_an_answer_none() -> None:
    async def looked(address: str, *, http: bool = False) -> float:
        began = asyncio.get_running_loop().time()
        await MemoryNetwork(PLACES)(address, 3.0, http=http)
        return asyncio.get_running_loop().time() - began

    assert [run(looked(each)) for each in (UP, OTHER, CLOSED, CUT, NAMELESS)] == [0.0] * 5
    assert [run(looked(DOWN)), run(looked(OTHER, http=True))] == [3.0, 3.0]


# ---- alt-path


def alt_path(address: str, references: Sequence[str], network: MemoryNetwork | None = None, **more: Any) -> AltPath:
    return AltPath(address, references, looking=network or MemoryNetwork(PLACES), **more)


@pytest.mark.parametrize(
    ("address", "references", "event", "expected"),
    [
        (UP, [OTHER, DOWN], MASTER, 24),
        (DOWN, [UP, GONE], MASTER, 20),
        (CLOSED, [UP, OTHER], MASTER, 20),
        (DOWN, [UP, OTHER], REPLICA, 21),
        (DOWN, [GONE, GONE], MASTER, 22),
        (DOWN, [CUT, CUT], MASTER, 22),
        (NAMELESS, [UP, OTHER], MASTER, None),
        (DOWN, [GONE, NAMELESS], MASTER, None),
    ],
)
def test_what_alt_path_says_of_what_it_sees(
    address: str, references: list[str], event: Event, expected: int | None
) -> None:
    answer = run(alt_path(address, references, bias_s=0.1).classify(event))
    assert (None if answer.verdict is None else answer.verdict.value) == expected
    assert (answer.evidence, answer.by) == (Evidence.NONE, "alt-path")
    assert answer.duration_ms <= event.decide_by_ms


@pytest.mark.clock
async def test_alt_path_over_real_ports() -> None:
    with Timely(TURN_S), listener() as up, listener() as other, full_listener() as down:
        answer = await AltPath(down, [up, other], bias_s=0.1).classify(replace(REPLICA, decide_by_ms=600))
        assert (answer.verdict, answer.evidence, answer.by) == (Verdict.ASSUME_MASTERSHIP, Evidence.NONE, "alt-path")
        assert "silent" in answer.reason


def test_the_time_limit_holds_with_everything_silent_and_the_longest_bias() -> None:
    answer = run(alt_path(DOWN, [UP, DOWN, GONE, DOWN], bias_s=60.0).classify(REPLICA))
    assert answer.verdict is Verdict.ASSUME_MASTERSHIP
    assert answer.duration_ms == REPLICA.decide_by_ms * 0.9, "a bias of half of its share, and two looks of a quarter"


def test_a_look_is_no_longer_than_a_second_however_long_the_event_leaves() -> None:
    answer = run(alt_path(DOWN, [UP, OTHER], bias_s=2.0).classify(replace(REPLICA, decide_by_ms=3_600_000)))
    assert answer.duration_ms == 4_000


def test_a_peer_that_comes_back_within_the_bias_is_seen() -> None:
    """A replica looks twice: the first look alone would have promoted it."""
    network = MemoryNetwork(PLACES)

    async def story() -> Answer:
        asked = asyncio.ensure_future(alt_path(CLOSED, [UP, OTHER], network, bias_s=0.5).classify(REPLICA))
        await until(0.4)
        network.places[CLOSED] = Place.UP
        return await asked

    assert run(story()).verdict is Verdict.PEER_ALIVE
    assert [at for at, address in network.looks if address == CLOSED] == [0.0, 0.5]


def test_what_shows_that_a_process_runs_is_asked_of_the_peer_alone() -> None:
    """A frozen peer still has a kernel; of a reference a kernel is enough."""
    event = replace(MASTER, decide_by_ms=10_000)
    assert run(alt_path(OTHER, [OTHER, UP]).classify(event)).verdict is Verdict.PEER_ALIVE
    assert run(alt_path(OTHER, [OTHER, UP], http=True).classify(event)).verdict is Verdict.CONTINUE_AS_MASTER


def test_preflight_names_what_it_could_not_use() -> None:
    assert run(alt_path(UP, [UP, CLOSED]).preflight()) == []
    text = "\n".join(run(alt_path(DOWN, [NAMELESS, NAMELESS]).preflight()))
    assert f"second address: {DOWN} silent" in text
    assert f"reference: {NAMELESS} blind" in text
    assert "at least 2 different references" in text


# ---- peer-outdate: nobody there


async def test_a_peer_that_cannot_be_reached_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_outdate, "PREFLIGHT_S", SHORT_S)
    with listener() as black_hole:
        for endpoint in (refused(), black_hole, NO_NAME):
            answer = await PeerOutdate(endpoint, bias_s=0.0).classify(replace(MASTER, decide_by_ms=300))
            assert answer.verdict is None
            assert endpoint in answer.reason
        assert black_hole in (await PeerOutdate(black_hole).preflight())[0]


# ---- combine


class Misbehaved(Suspend):
    """A classifier of somebody else's that breaks the contract."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.ended = asyncio.Event()
        self.limits_ms: list[int] = []

    async def classify(self, event: Event) -> Answer:
        self.limits_ms.append(event.decide_by_ms)
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


@pytest.mark.parametrize(
    ("rule", "members", "expected"),
    [
        ("any", "dead hangs", Verdict.CONTINUE_AS_MASTER),
        ("all", "dead hangs", None),
        ("all", "alive alive", Verdict.PEER_ALIVE),
        ("any", "alive dead", Verdict.WAIT),
        ("veto", "dead suspends", Verdict.WAIT),
        ("2", "dead dead hangs", Verdict.CONTINUE_AS_MASTER),
    ],
)
def test_members_are_asked_at_once_and_one_that_hangs_costs_its_own_vote(
    rule: str, members: str, expected: Verdict | None
) -> None:
    known = {
        "alive": lambda: alt_path(UP, [UP, OTHER]),
        "dead": lambda: alt_path(DOWN, [UP, OTHER]),
        "hangs": lambda: Misbehaved("hangs"),
        "suspends": Suspend,
    }
    asked = Combine([known[name]() for name in members.split()], rule)
    answer = run(asked.classify(replace(MASTER, decide_by_ms=10_000)))
    assert answer.verdict is expected, answer
    assert answer.evidence is Evidence.NONE
    # All at once: a dead peer takes one look of a second, whoever hangs its share of the time, nobody more.
    assert answer.duration_ms == (9_000 if "hangs" in members else 1_000 if "dead" in members else 0)


async def test_combine_over_a_real_black_hole() -> None:
    with listener() as up, listener() as other, full_listener() as down, listener() as black_hole:
        members = (AltPath(down, [up, other]), PeerOutdate(black_hole))  # which connects, and then nothing comes
        answer = await Combine(members, "any").classify(replace(MASTER, decide_by_ms=600))
        assert answer.verdict is Verdict.CONTINUE_AS_MASTER, answer


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", "failed: RuntimeError('no idea')"),
        ("hangs", "no answer within 270 ms"),
        ("answers for another", "answered for another event"),
    ],
)
def test_a_member_that_breaks_the_contract_is_unknown(how: str, words: str) -> None:
    good = alt_path(CLOSED, [UP, OTHER])
    bad = Misbehaved(how)
    event = replace(MASTER, decide_by_ms=300)
    answer = run(Combine((good, bad), "all").classify(event))
    assert answer.verdict is None
    assert words in answer.reason
    assert run(Combine((good, bad), "any").classify(event)).verdict is Verdict.CONTINUE_AS_MASTER
    assert bad.limits_ms == [270, 270], "its share"
    assert how != "hangs" or bad.ended.is_set()
    assert "no idea either" in run(Combine((good, bad)).preflight())[-1]
