"""Which version of a peer runs, whose programs those are, and what is said where there is no newer Debian beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.document import Document
from bench.peers import packaged, report, session, targets
from bench.peers.adapters import KINDS, PEERS
from bench.peers.adapters.postgres import binary
from bench.peers.adapters.rabbitmq import Quorum, Single
from bench.peers.adapters.redis import Redis, RedisOlder, Valkey
from bench.peers.contract import MEASURED_WITH
from bench.peers.packaged import OLDER, Packaged
from bench.peers.place import BenchError, Place
from bench.peers.programs import OVER, OWN, Found, Installed, Programs, Version, by_age, root_at

PACKAGED = [kind for kind in KINDS if issubclass(kind, Packaged)]


def program(root: Path, path: str) -> None:
    (file := root / path).parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    file.chmod(0o755)


def installed(text: str, programs: Programs) -> Installed:
    return Installed(Version.of(text), programs)


def test_the_newest_comes_first_whoever_has_it_and_each_version_once() -> None:
    root = Programs(Path("/root"))
    own = installed("7.0.15", OWN)
    newer, same, oldest = (installed(text, root) for text in ("8.0.2", "7.0.15", "6.9.99"))
    assert by_age([own, newer]) == [newer, own]
    assert by_age([own, oldest]) == [own, oldest]
    assert by_age([same, own]) == [own], "the machine's own needs no root"
    assert by_age([installed("9.6", OWN), installed("10.1", root)])[0].version.text == "10.1"
    with pytest.raises(BenchError, match="no version"):
        Version.of("unknown")


def test_a_program_is_sought_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "usr/bin/redis-server")
    program(tmp_path, "usr/lib/postgresql/15/bin/postgres")
    program(tmp_path, "usr/lib/postgresql/17/bin/postgres")
    program(tmp_path, "opt/bin/other")
    root = Programs(tmp_path)
    monkeypatch.setenv("PATH", "/bin:/opt/bin")
    assert root.have("redis-server"), "/bin is a link to /usr/bin"
    assert not root.have("valkey-server")
    assert not root.have("other"), "what is not below /usr is the machine's own"
    assert binary("postgres", root) == "/usr/lib/postgresql/17/bin/postgres"
    assert root.have(binary("postgres", root))
    assert not root.have(binary("initdb", root))
    assert OWN.prefix == ()
    assert root.prefix[-1] == str(tmp_path / "usr")


def test_why_there_is_no_root_is_said(tmp_path: Path) -> None:
    def fine(_: Programs) -> str:
        return ""

    link, place = tmp_path / "newest", tmp_path / "clone"
    assert "make bench-deps" in root_at(link, privileged=True, place=place, works=fine).why
    (made := tmp_path / "made").mkdir()
    link.symlink_to(made)
    assert root_at(link, privileged=True, place=place, works=fine) == Found(Programs(made))
    assert root_at(link, privileged=False, place=place, works=fine).why == "only root runs programs in one"
    assert "/usr/src/clone" in root_at(link, privileged=True, place=OVER / "src/clone", works=fine).why
    denied = root_at(link, privileged=True, place=place, works=lambda _: "mount: permission denied")
    assert denied == Found(None, "mount: permission denied")


def test_a_run_says_that_there_is_no_root_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "newest_root", lambda: Found(None, "for a reason"))
    assert session.without_root(["tandemq", "nats"]) == ""
    assert "(for a reason): what this machine has itself is measured" in session.without_root(["tandemq", "redis"])
    monkeypatch.setattr(session, "newest_root", lambda: Found(Programs(Path("/root"))))
    assert session.without_root(["redis"]) == ""


def test_a_run_says_which_version_it_was() -> None:
    facts = {"versions": {"server": "8.0.2", "redis": "6"}, "programs": "Debian 13, in a root"}
    assert session.ran(facts) == " 8.0.2 (Debian 13, in a root)"
    assert session.ran({"versions": {"server": "2.15.2"}, "programs": ""}) == " 2.15.2"
    assert session.ran({}) == ""


class At:
    """What is at hand, in place of what this machine has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Packaged], *found: Installed) -> None:
        monkeypatch.setattr(kind, "at_hand", classmethod(lambda _: by_age(found)))


def test_the_newest_is_measured_and_an_older_one_as_a_peer_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, root = Place(tmp_path / "run"), Programs(tmp_path)
    At(monkeypatch, Redis, installed("7.0.15", OWN), installed("8.0.2", root))
    newest, older = Redis(place), RedisOlder(place)
    assert newest.title.startswith("Redis 8.0, primary")
    assert older.title.startswith("Redis 7.0, primary")
    assert newest.command("redis-cli") == [*root.prefix, "redis-cli"]
    assert older.command("redis-cli") == ["redis-cli"]
    assert newest.version_setting("8.0.2").wrong == ""
    assert newest.version_setting("7.0.15").wrong == "version is '7.0.15', not '8.0.2'"
    assert "in a root" in newest.origin()
    assert "the machine's own" in older.origin()


def test_what_is_missing_of_a_peer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path / "run")

    def missing(peer: type[Packaged]) -> list[str]:
        return [each for each in peer(place).missing() if each not in (*MEASURED_WITH, peer.interpreter)]

    monkeypatch.setattr(packaged, "newest_root", lambda: Found(None, "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing(Valkey) == ["valkey-server", "valkey-cli"]
    At(monkeypatch, Redis, installed("7.0.15", OWN))
    assert missing(Redis) == []
    assert missing(RedisOlder) == ["version of Redis beside 7.0.15"]


def test_a_version_of_rabbitmq_is_that_of_its_folder(tmp_path: Path) -> None:
    for text in ("3.9.13", "3.10.8"):
        (tmp_path / f"usr/lib/rabbitmq/lib/rabbitmq_server-{text}").mkdir(parents=True)
    assert Quorum.version_in(Programs(tmp_path)) == "3.10.8"


@pytest.mark.parametrize(("text", "asked"), [("3.10.8", True), ("4.0.5", False)])
def test_rabbitmq_is_asked_for_no_setting_that_it_does_not_know(
    text: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.0 does not start where a configuration names the delay that 3.10 would start with."""
    At(monkeypatch, Quorum, installed(text, OWN))
    lines = Quorum(Place(tmp_path / "run")).configuration()
    assert any("randomized_startup_delay" in line for line in lines) == asked


@pytest.mark.parametrize(("text", "copies"), [("3.10.8", 1), ("4.0.5", 0)])
def test_a_classic_queue_promises_what_its_version_syncs(
    text: str, copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 4.0.5, two syncs were seen for a hundred confirmed messages."""
    At(monkeypatch, Single, installed(text, OWN))
    peer = Single(Place(tmp_path / "run"))
    assert peer.copies == copies
    assert ("nothing is synced" in peer.promise) == (copies == 0)


@pytest.mark.parametrize("kind", PACKAGED, ids=lambda kind: kind.name)
def test_an_older_version_is_the_same_peer(kind: type[Packaged]) -> None:
    assert kind.older == kind.name.endswith(OLDER)
    if kind.older:
        newer = PEERS[kind.name.removesuffix(OLDER)]
        assert issubclass(kind, newer)
        assert (kind.copies, kind.client, kind.batch, kind.window) == (
            newer.copies, newer.client, newer.batch, newer.window,
        )  # fmt: skip


# -- tables ------------------------------------------------------------------------------------------------------------

CALM = {"foreign_cores": 0.0, "settings_wrong": [], "load_share": {}, "size": 1024}


def document(older: dict[str, tuple[float, ...]], newer: dict[str, tuple[float, ...]]) -> Document:
    """Of two versions; of one in flight the median in milliseconds, of others messages a second."""
    found = Document("peers", {}, "", {"runs": 3, "size": 1024})
    ours = {"enqueue": (1000.0,) * 3, "single": (1.0,) * 3}
    for name, measured in (("tandemq", ours), ("redis", newer), ("redis-older", older)):
        title = {"tandemq": "Tandemq", "redis": "Redis 8.0", "redis-older": "Redis 7.0"}[name]
        found.peers[name] = {"title": title, "copies": 2, "versions": {"server": title.split()[-1]}}
        for workload, values in measured.items():
            for run, value in enumerate(values):
                line: dict[str, Any] = {"run": run, "value": value, **CALM}
                if workload == "single":
                    line |= {"p50_ms": value, "p99_ms": 2 * value}
                found.add((name, workload), line)
    return found


NEWER = {"enqueue": (100.0, 110.0, 120.0), "single": (2.0, 2.1, 2.2)}


@pytest.mark.parametrize(
    ("older", "stands"),
    [
        ({"enqueue": (101.0, 111.0, 121.0), "single": (3.0, 3.0, 3.0)}, True),
        ({"enqueue": (50.0, 50.0, 50.0), "single": (1.9, 2.0, 2.1)}, True),
        ({"enqueue": (150.0, 150.0, 119.0), "single": (1.0, 1.0, 2.3)}, False),
        ({"enqueue": (100.0, 110.0, 120.0), "single": (2.0, 2.1, 2.2)}, False),
        ({"drain": (1.0, 1.0, 1.0)}, True),
    ],
    ids=["enqueues more", "answers sooner", "not in each run", "the same", "newer was not measured in it"],
)
def test_an_older_version_stands_in_a_table_only_where_it_is_the_faster_one(
    older: dict[str, tuple[float, ...]], stands: bool
) -> None:
    found = document(older, NEWER)
    assert ("redis-older" in report.standing(found)) == stands
    said = "".join(report.outdone_said(found))
    assert ("left out: Redis 7.0 (7.0)" in said) == (not stands)


def test_a_target_is_held_against_the_faster_version() -> None:
    found = document({"enqueue": (200.0,) * 3, "single": (4.0,) * 3}, NEWER)
    by = {(row[0], row[1]): row[3] for row in targets.rows(found)[1:]}
    assert by["pipelined enqueue", "Redis 7.0"].startswith("5.00x")
    found = document({"enqueue": (50.0,) * 3, "single": (4.0,) * 3}, NEWER)
    by = {(row[0], row[1]): row[3] for row in targets.rows(found)[1:]}
    assert by["pipelined enqueue", "Redis 8.0"].startswith("9.09x")


def test_an_older_version_that_promises_more_stands_however_slow_it_is() -> None:
    """RabbitMQ's classic queue, which syncs in 3.10 and not in 4.0."""
    found = document({"enqueue": (1.0,) * 3}, NEWER)
    assert report.outdone(found) == ["redis-older"]
    found.peers["redis"]["copies"] = 0
    assert report.outdone(found) == []
