"""What the doctor makes of what members say: one wrong fact, one line that names it and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tandemq.cli.doctor.asking import Asked, LinkOf
from tandemq.cli.doctor.finding import Finding, Level
from tandemq.cli.doctor.judging import judge
from tandemq.cli.view import DomainView, MemberView, PairView
from tandemq.config import Etcd, ManagerConfig
from tandemq.twin.looking import SeenTwin, SeenTwins
from tandemq.v1 import macro_service_pb2 as macro_pb
from tandemq.v1 import manager_admin_service_pb2 as manager_pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb
from tandemq.witness.v1 import witness_service_pb2 as witness_pb

MAIN = DomainView(
    name="main",
    role="MASTER",
    data_state="IN_SYNC",
    link_state="UP",
    epoch=7,
    log_index=100,
    durable_index=100,
    commit_index=100,
    applied_index=100,
    digest="d1",
    state_digest="s1",
    in_sync_set=("a", "b"),
)
A = MemberView(
    name="a",
    endpoint="127.0.0.1:1",
    reachable=True,
    peer_connected=True,
    witness_connected=True,
    authority="witness",
    classifier="witness",
    classifier_mode="enforce",
    safety_class="A",
    clock_ahead_ms=0,
    round_trip_ms=4,
    domains=(MAIN,),
)
B = msgspec.structs.replace(
    A, name="b", endpoint="127.0.0.1:2", domains=(msgspec.structs.replace(MAIN, role="REPLICA"),), clock_ahead_ms=3
)
AWAY = MemberView(name="b", endpoint="127.0.0.1:2", problem="no answer within 2 s")
CONFIG = ManagerConfig(
    member="a", data_dir="/d", pair="orders", peer_member="b", peer_address="127.0.0.1:3", peer_endpoint="127.0.0.1:2"
)
VERSION = manager_pb.GetManagerResponse(
    version="1.0", format_version=2, protocol_min=1, protocol_max=1, store_used_bytes=10, store_map_bytes=1000
)


def registers(epoch: int = 7, holder: str = "a") -> witness_pb.ListRegistersResponse:
    answer = witness_pb.ListRegistersResponse()
    for pair, domain in (("orders", "main"), ("orders", "start/a"), ("other", "main")):
        one = answer.registers.add(pair=pair, domain=domain)
        one.register.epoch, one.register.holder = epoch, holder
    return answer


def found(
    *members: MemberView,
    versions: dict[str, manager_pb.GetManagerResponse] | None = None,
    witness: Any = None,
    tcp: bool = True,
    config: ManagerConfig = CONFIG,
) -> list[Finding]:
    managers = {"a": VERSION, "b": VERSION} if versions is None else versions
    witnesses = {"127.0.0.1:9": registers() if witness is None else witness}
    addresses = dict.fromkeys((config.peer_address, *config.etcd.endpoints), tcp)
    return judge(Asked(PairView(pair="orders", members=members), managers, witnesses, addresses), [config])


def sided(**facts: Any) -> list[tuple[Level, str, str]]:
    """Lines about the sides of a queue of ten messages at most."""
    queue = admin_pb.QueueInfo(name="q", last_index=9, length=6, config={"max_length": 10}, **facts)
    asked = Asked(PairView(pair="orders", members=(A, B)), {}, {}, {CONFIG.peer_address: True}, (), (queue,))
    return [(each.level, each.what, each.do) for each in judge(asked, [CONFIG]) if each.check == "sides"]


def test_a_side_that_has_lost_its_place_is_named_with_what_to_do() -> None:
    lost = {"member": "b", "passed": 2, "lost": True, "lost_until": 8, "because": "it was away"}
    ok, fail = sided(sides=[{"member": "a", "passed": 8}, lost])
    assert ok[0] is Level.OK
    assert fail[0] is Level.FAIL
    assert "the side at b has lost its place: it was away; messages 3 to 8 are gone" in fail[1]
    assert "tandemq queue restart-side q --member b" in fail[2]


@pytest.mark.parametrize(("passed", "level"), [(2, Level.WARN), (3, Level.OK)])
def test_a_side_that_fills_the_queue_is_named(passed: int, level: Level) -> None:
    ahead, behind = sided(sides=[{"member": "a", "passed": 8}, {"member": "b", "passed": passed}])
    assert (ahead[0], behind[0]) == (Level.OK, level)


def macro_lines(*macros: macro_pb.MacroQueue) -> list[tuple[Level, str]]:
    asked = Asked(PairView(pair="orders", members=(A, B)), {}, {}, {CONFIG.peer_address: True}, macros=macros)
    return [(each.level, f"{each.about}: {each.what}") for each in judge(asked, [CONFIG]) if each.check == "macros"]


def test_a_member_at_another_manager_that_gives_nothing_is_named() -> None:
    """M7: the macro queue goes on without it, so nobody else would see it."""
    elsewhere = {
        "queue": "p",
        "target": "//west/q",
        "far": {"state": macro_pb.FAR_STATE_AWAY, "why": "MANAGER_UNREACHABLE"},
    }
    away = macro_pb.MacroQueue(name="all", members=[{"queue": "q"}, elsewhere])
    wanted = "macro queue all: member p (//west/q) is AWAY, and nothing of it is given: MANAGER_UNREACHABLE"
    assert macro_lines(away) == [(Level.WARN, wanted)]
    dealt = macro_pb.MacroQueue(name="all", relationship=macro_pb.RELATIONSHIP_PRODUCER, members=[elsewhere])
    ((_, said),) = macro_lines(dealt)
    assert "is AWAY, and is dealt only what no other member takes: MANAGER_UNREACHABLE" in said
    elsewhere["far"] = {"state": macro_pb.FAR_STATE_HEARD}
    well = macro_pb.MacroQueue(name="all", members=[elsewhere])
    assert macro_lines(well) == [(Level.OK, "macro queues: 1 of them have members")]


def test_a_macro_queue_without_members_or_with_a_table_that_is_over_is_named() -> None:
    well = macro_pb.MacroQueue(name="well", members=[{"queue": "q"}], weights={"version": 2, "in_force": True})
    bare = macro_pb.MacroQueue(name="bare")
    late = macro_pb.MacroQueue(name="late", members=[{"queue": "q"}], weights={"version": 3})
    assert macro_lines() == []
    assert macro_lines(well) == [(Level.OK, "macro queues: 1 of them have members")]
    first, second = macro_lines(well, bare, late)
    assert (first[0], "macro queue bare: it has no members" in first[1]) == (Level.WARN, True)
    assert (second[0], "macro queue late: its table of weights is not in force (version 3" in second[1]) == (
        Level.WARN,
        True,
    )


def seen_twins(*twins: SeenTwin, differences: Sequence[dict[str, Any]] = ()) -> list[tuple[Level, str]]:
    seen = SeenTwins("board", "flights", list(twins), 9, "d", 0, list(differences))
    asked = Asked(PairView(pair="orders", members=(A, B)), {}, {}, {CONFIG.peer_address: True}, twins=(seen,))
    return [(each.level, each.what) for each in judge(asked, [CONFIG]) if each.check == "twins"]


def twin(member: str, host: str = "", *, running: bool = True) -> SeenTwin:
    return SeenTwin("board", member, running, "1", None, host or f"host-{member}", 1, 5, 4)


def test_twins_that_run_apart_are_well() -> None:
    ((level, text),) = seen_twins(twin("a"), twin("b"))
    assert level is Level.OK
    assert "up to 9" in text


def test_a_twin_that_does_not_run_is_named() -> None:
    ((level, text),) = seen_twins(twin("a"), twin("b", running=False))
    assert level is Level.WARN
    assert "none runs at b, 4 inputs are not settled there; if the one at a dies, nobody works" in text
    both = seen_twins(twin("a", running=False), twin("b", running=False))
    assert [level for level, _ in both] == [Level.WARN] * 2
    assert all("and none anywhere" in text for _, text in both)


def test_both_twins_on_one_host_are_named() -> None:
    ((level, text),) = seen_twins(twin("a", "one"), twin("b", "one"))
    assert (level, "both run on host one" in text) == (Level.WARN, True)


def test_twins_that_differed_are_named() -> None:
    last = {"member": "b", "number": 7, "own": "aa", "other": "bb", "where": ""}
    ((level, text),) = seen_twins(twin("a"), twin("b"), differences=[last])
    assert level is Level.FAIL
    assert "the twin at b differed up to input 7: aa there, and bb of the one that came first" in text


def links(*rows: admin_pb.Transmission, domain: str = "") -> list[Finding]:
    of = tuple(LinkOf(domain, row) for row in rows)
    asked = Asked(PairView(pair="orders", members=(A, B)), {}, {}, {CONFIG.peer_address: True}, of)
    return [each for each in judge(asked, [CONFIG]) if each.check == "links"]


def test_a_link_that_stands_still_is_named_with_its_reason() -> None:
    well = admin_pb.Transmission(
        target="west", messages=3, addresses=["w:1"], state=admin_pb.TRANSMISSION_STATE_CARRYING
    )
    still = admin_pb.Transmission(
        target="east", messages=5, why="it is full", state=admin_pb.TRANSMISSION_STATE_WAITING
    )
    still.waiting.seconds = 40
    nowhere = admin_pb.Transmission(target="north", state=admin_pb.TRANSMISSION_STATE_IDLE)
    found = {each.about: each for each in links(well, still, nowhere)}
    assert found["manager west"].level is Level.OK
    assert found["manager east"].level is Level.WARN
    assert found["manager east"].what == "5 messages wait for it, since 40 s: it is full"
    assert "xmit ls" in found["manager east"].do
    assert "nobody who was asked knows where it is" in found["manager north"].what


def test_a_link_to_a_domain_is_named_with_it_and_looked_for_by_its_manager() -> None:
    (found,) = links(admin_pb.Transmission(target="west:billing"), domain="orders")
    assert found.about == "manager west:billing, from domain orders"
    assert found.do.startswith("enter west in links.managers")


def changed(member: MemberView, **domain: Any) -> MemberView:
    return msgspec.structs.replace(member, domains=(msgspec.structs.replace(member.domains[0], **domain),))


def test_a_pair_that_is_well_has_nothing_to_do() -> None:
    lines = found(A, B)
    assert {each.level for each in lines} == {Level.OK}
    assert not [each for each in lines if each.do]
    assert {each.check for each in lines} == {
        *("members", "roles", "in-sync", "epochs", "copies", "link", "authority", "register"),
        *("versions", "clocks", "store-room", "peer-port"),
    }


@pytest.mark.parametrize(
    ("members", "check", "level", "words"),
    [
        ((A, AWAY), "members", Level.FAIL, "no answer within 2 s"),
        ((A, AWAY), "in-sync", Level.WARN, "the other member was not seen"),
        ((A, changed(B, role="MASTER")), "roles", Level.FAIL, "a is MASTER, b is MASTER"),
        ((changed(A, role="PROBE"), B), "roles", Level.FAIL, "a is PROBE"),
        ((A, changed(B, role="MAINTENANCE")), "roles", Level.WARN, "b is MAINTENANCE"),
        ((A, changed(B, data_state="SYNCING")), "in-sync", Level.WARN, "b is SYNCING"),
        ((A, changed(B, data_state="DAMAGED")), "in-sync", Level.FAIL, "b is DAMAGED"),
        ((A, changed(B, epoch=6)), "epochs", Level.WARN, "a is in 7, b is in 6"),
        ((A, changed(B, digest="d2")), "copies", Level.FAIL, "with other digests"),
        ((A, changed(B, log_index=99, digest="d2")), "copies", Level.OK, "b has 99"),
        ((msgspec.structs.replace(A, peer_connected=False), B), "link", Level.FAIL, "not connected"),
        ((msgspec.structs.replace(A, witness_connected=False), B), "authority", Level.FAIL, "out of reach"),
        ((msgspec.structs.replace(A, authority="none", classifier="suspend"), B), "authority", Level.WARN, "nobody"),
        ((msgspec.structs.replace(A, automation_paused=True), B), "orders", Level.WARN, "automation is paused"),
        ((msgspec.structs.replace(A, doubts=("so",)), B), "last-writes", Level.WARN, "so"),
        ((msgspec.structs.replace(A, maintenance=True), B), "orders", Level.WARN, "in maintenance"),
        ((msgspec.structs.replace(A, waiting_event_id="e1"), B), "orders", Level.FAIL, "operator's verdict"),
        ((A, msgspec.structs.replace(B, clock_ahead_ms=2_500)), "clocks", Level.WARN, "2,500 ms apart"),
        ((A, msgspec.structs.replace(B, clock_ahead_ms=-90_000)), "clocks", Level.FAIL, "90,000 ms apart"),
        # A slow look is no proof of a wrong clock.
        ((A, msgspec.structs.replace(B, clock_ahead_ms=1_200, round_trip_ms=900)), "clocks", Level.OK, "sure to 900"),
        ((A, msgspec.structs.replace(B, name="c")), "same-pair", Level.FAIL, "a has b for its peer"),
    ],
)
def test_what_is_wrong_is_named(members: tuple[MemberView, ...], check: str, level: Level, words: str) -> None:
    lines = [each for each in found(*members) if each.check == check]
    assert any(each.level is level and words in each.what for each in lines), lines
    assert all(bool(each.do) is (each.level is not Level.OK) for each in lines)
    assert all(each.why for each in lines)


def of(check: str, lines: list[Finding]) -> list[Finding]:
    return [each for each in lines if each.check == check]


def test_other_versions_and_no_common_protocol() -> None:
    newer = manager_pb.GetManagerResponse(version="1.1", format_version=2, protocol_min=1, protocol_max=2)
    [line] = of("versions", found(A, B, versions={"a": VERSION, "b": newer}))
    assert (line.level, "b runs 1.1" in line.what) == (Level.WARN, True)
    stranger = manager_pb.GetManagerResponse(version="2.0", format_version=2, protocol_min=2, protocol_max=2)
    [line] = of("versions", found(A, B, versions={"a": VERSION, "b": stranger}))
    assert (line.level, "no protocol in common" in line.what) == (Level.FAIL, True)


@pytest.mark.parametrize(("used", "level"), [(100, Level.OK), (650, Level.WARN), (900, Level.FAIL)])
def test_a_store_that_fills_up(used: int, level: Level) -> None:
    full = manager_pb.GetManagerResponse(version="1.0", protocol_max=1, store_used_bytes=used, store_map_bytes=1000)
    [line] = of("store-room", found(A, versions={"a": full}))
    assert line.level is level


def test_a_witness_that_is_away_or_holds_another_epoch() -> None:
    lines = of("authority", found(A, B, witness="no answer within 2 s"))
    assert [each.level for each in lines if each.about.startswith("witness")] == [Level.FAIL]
    [line] = of("register", found(A, B, witness=registers(8, "b")))
    assert line.level is Level.WARN
    assert "epoch 8 of b; a says that it is master in epoch 7" in line.what


def test_ports_of_peer_and_etcd() -> None:
    [line] = of("peer-port", found(A, B, tcp=False))
    assert line.level is Level.FAIL
    etcd = msgspec.structs.replace(CONFIG, etcd=Etcd(endpoints=("h:1", "h:2", "h:3")))
    asked = Asked(PairView(pair="orders", members=(A, B)), {}, {}, {"127.0.0.1:3": True, "h:1": True, "h:2": True})
    [line] = [each for each in judge(asked, [etcd]) if each.about == "etcd"]
    assert (line.level, "away: h:3" in line.what) == (Level.WARN, True)
    asked.tcp["h:2"] = False
    [line] = [each for each in judge(asked, [etcd]) if each.about == "etcd"]
    assert line.level is Level.FAIL


def test_with_nobody_to_ask_it_says_why() -> None:
    [line] = judge(Asked(PairView(pair="", members=()), {}, {}, {}), [], "no target given")
    assert (line.level, line.what) == (Level.SKIPPED, "no target given")


def test_an_unpaired_manager_needs_no_peer() -> None:
    sole = changed(A, data_state="SOLE")
    alone = msgspec.structs.replace(sole, authority="", peer_connected=False, witness_connected=False)
    config = ManagerConfig(member="a", data_dir="/d")
    asked = Asked(PairView(pair="a", members=(alone,)), {"a": VERSION}, {}, {})
    assert {each.level for each in judge(asked, [config])} == {Level.OK}
