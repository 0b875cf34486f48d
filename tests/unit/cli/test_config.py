"""A manager's configuration: what is read, who wins, and that each refusal says where, what and what to do."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tandemq.client.target import NoTarget, parse_endpoints
from tandemq.config import (
    ConfigError,
    Etcd,
    Failover,
    ManagerConfig,
    check,
    find_file,
    load,
    member_ports,
    parse_address,
    to_toml,
    witness_port,
)

PAIRED = ManagerConfig(
    member="a",
    data_dir="/data/a",
    pair="orders",
    peer_member="b",
    peer_address="127.0.0.1:7611",
    peer_endpoint="127.0.0.1:7610",
    witness="127.0.0.1:7620",
    domains=("main", "second"),
)


def file_of(folder: Path, text: str) -> Path:
    path = folder / "a.toml"
    path.write_text(text)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert load(file_of(tmp_path, to_toml(PAIRED)), environ={}) == PAIRED


def test_later_sources_win(tmp_path: Path) -> None:
    path = file_of(tmp_path, to_toml(PAIRED))
    environ = {"TANDEMQ_TIMERS_LOST_MS": "3000", "TANDEMQ_MANAGER_DOMAINS": "x,y", "TANDEMQ_MANAGER_MEMBER": "c"}
    config = load(path, {"member": "d"}, environ)
    assert (config.timers.lost_ms, config.domains, config.member) == (3000, ("x", "y"), "d")
    assert config.timers.heartbeat_ms == PAIRED.timers.heartbeat_ms


def test_a_single_manager_needs_a_name_and_a_directory() -> None:
    config = load(None, {"member": "solo", "data_dir": "/data"}, {})
    assert not config.paired
    assert config.endpoint == "127.0.0.1:7600"
    with pytest.raises(ConfigError, match=r"manager\.data_dir is missing.*TANDEMQ_MANAGER_DATA_DIR"):
        load(None, {"member": "solo"}, {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[managr]\n", r"a\.toml: unknown section \[managr\]; did you mean manager\?"),
        ("[manager]\nmembr = 'a'\n", r"a\.toml: unknown key manager\.membr; did you mean member\?"),
        ("[manager]\nmember = 3\n", r"a\.toml: manager\.member = 3: Expected `str`"),
        ("[timers]\nlost_ms = 'soon'\n", r"a\.toml: timers\.lost_ms = 'soon': Expected `int`"),
        ("member = 'a'\n", r"a\.toml: unknown section \[member\]"),
        ("[manager\n", r"a\.toml: is not TOML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(file_of(tmp_path, text), environ={})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"etcd": Etcd(endpoints=("127.0.0.1:2379",))}, r"witness\.address and etcd\.endpoints are both given"),
        ({"failover": Failover(mode="try")}, r"failover\.mode = 'try': choose one of enforce, observe, off"),
        ({"failover": Failover(classifier="command")}, r"failover\.command = \[\]: give the command as a list"),
        ({"failover": Failover(classifier="etcd")}, r"failover\.classifier = 'etcd': the authority here is witness"),
        ({"failover": Failover(classifier="combine")}, r"failover\.members = \[\]: name at least two"),
        ({"failover": Failover(rule="most")}, r"failover\.rule = 'most'"),
        ({"failover": Failover(classifier="alt-path")}, r"failover\.probe_address = '': classifier alt-path needs it"),
        (
            {"failover": Failover(classifier="alt-path", probe_address="h:1", probe_targets=("g:1", "g:1"))},
            r"failover\.probe_targets = \['g:1', 'g:1'\]: classifier alt-path needs two",
        ),
        (
            {"failover": Failover(classifier="combine", members=("suspend", "peer-outdate"))},
            r"failover\.outdate_endpoint = '': classifier peer-outdate needs it",
        ),
        (
            {"failover": Failover(classifier="combine", members=("suspend", "etcd"))},
            r"failover\.members = 'etcd': the authority here is witness",
        ),
        (
            {"failover": Failover(classifier="combine", members=("suspend", "combine"))},
            r"failover\.members = .* none of them combine",
        ),
        (
            {"failover": Failover(classifier="combine", members=("suspend", "operator"), rule="3")},
            r"failover\.rule = '3': there are 2 members",
        ),
        (
            {"failover": Failover(classifier="combine", members=("suspend", "command"))},
            r"failover\.command = \[\]: give the command as a list",
        ),
        ({"failover": Failover(probe_targets=("gateway",))}, r"failover\.probe_targets = 'gateway': write host:port"),
        ({"failover": Failover(call_ms=0)}, r"failover\.call_ms = 0: must be positive"),
        ({"failover": Failover(verify_hours=-1)}, r"failover\.verify_hours = -1: must not be negative"),
        ({"peer_address": ""}, r"peer\.address is missing"),
        ({"peer_member": "a"}, r"peer\.member = 'a' is this member's own name"),
        ({"pair": ""}, r"peer\.member = 'b' belongs to a pair, but manager\.pair is empty"),
        ({"listen_client": "0.0.0.0:7600"}, r"listen_client = '0\.0\.0\.0:7600'.*--insecure-network"),
        ({"listen_peer": "127.0.0.1:7600"}, r"listen_peer.*is also manager\.listen_client"),
        ({"listen_http": "7602"}, r"listen_http = '7602': write host:port"),
        ({"listen_unix": "tandemq.sock"}, r"listen_unix = 'tandemq\.sock': write an absolute path"),
        ({"listen_unix": "/a,b"}, r"listen_unix = '/a,b': .* without a comma"),
        ({"listen_unix": "/" + "x" * 90}, r"listen_unix = '/x+': .* at most 90 bytes"),
        ({"listen_unix_mode": "rw"}, r"listen_unix_mode = 'rw': write it in octal digits"),
        ({"listen_unix": "/run/a.sock", "listen_client": ""}, r"listen_client = '': write host:port"),  # the peer's way
        ({"server_required": False}, r"server_required = false opens no listener, but manager\.pair needs one"),
        ({"domains": ("main", "local")}, r"domains = 'local'"),
        ({"domains": ()}, r"at least one name"),
        ({"profile": "fast"}, r"choose one of safe"),
        ({"member": "a b"}, r"manager\.member"),
        ({"timers": msgspec.structs.replace(PAIRED.timers, suspect_ms=100)}, r"must rise"),
        ({"limits": msgspec.structs.replace(PAIRED.limits, park_ms=0)}, r"limits\.park_ms = 0: must be positive"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = file_of(tmp_path, to_toml(msgspec.structs.replace(PAIRED, **change)))
    with pytest.raises(ConfigError, match=complaint) as caught:
        load(path, environ={})
    assert caught.value.reason == "CONFIG_ERROR"


def test_other_machines_may_reach_it_only_when_said_so(tmp_path: Path) -> None:
    config = msgspec.structs.replace(PAIRED, listen_client="10.0.0.1:7600", insecure_network=True)
    assert load(file_of(tmp_path, to_toml(config)), environ={}) == config


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    environ = {"TANDEMQ_CONFIG_HOME": str(tmp_path)}
    assert find_file(None, environ) is None
    (tmp_path / "tandemq.toml").write_text("")
    assert find_file(None, environ) == tmp_path / "tandemq.toml"
    with pytest.raises(ConfigError, match="no such file"):
        find_file(str(tmp_path / "other.toml"), environ)


@pytest.mark.requirement("R008")
def test_a_socket_on_this_host_takes_the_place_of_the_clients_port() -> None:
    config = ManagerConfig(member="a", data_dir="d", listen_client="", listen_unix="/run/a.sock")
    check(config)
    assert config.endpoint == "unix:/run/a.sock"
    assert parse_endpoints("unix:/run/a.sock, host") == ("unix:/run/a.sock", "host:7600")
    with pytest.raises(NoTarget, match="write the absolute path"):
        parse_endpoints("unix:a.sock")


@pytest.mark.requirement("R033")
def test_a_manager_without_listeners_names_no_place_to_dial() -> None:
    config = load(None, {"member": "a", "data_dir": "d"}, {"TANDEMQ_MANAGER_SERVER_REQUIRED": "false"})
    assert (config.server_required, config.endpoint) == (False, "")
    assert ManagerConfig(member="a", data_dir="d").server_required


def test_ports_of_a_base_port() -> None:
    assert member_ports(7600, 0) == (7600, 7601, 7602)
    assert member_ports(7600, 1) == (7610, 7611, 7612)
    assert witness_port(7600) == 7620


def test_what_cannot_be_written_as_toml_is_written_or_refused_in_words(tmp_path: Path) -> None:
    odd = file_of(tmp_path, to_toml(ManagerConfig(member="a", data_dir="/data/\x7f\x01ä")))
    assert load(odd, environ={}).data_dir == "/data/\x7f\x01ä"
    with pytest.raises(ConfigError, match=r"manager.data_dir = .*is no text in UTF-8"):
        load(None, {"member": "a", "data_dir": "/data/\udc82"}, {})
    with pytest.raises(ConfigError, match=r"TANDEMQ_TIMERS_LOST_MS: timers.lost_ms"):
        load(None, {"member": "a", "data_dir": "d"}, {"TANDEMQ_TIMERS_LOST_MS": "\udc82"})


@pytest.mark.parametrize("port", ["9" * 5000, "٣", "0", "65536", "-1", ""])
def test_what_is_no_port_is_refused_in_words(port: str) -> None:
    with pytest.raises(ConfigError, match=r"here = .* write host:port"):
        parse_address(f"127.0.0.1:{port}", "here")
    with pytest.raises(NoTarget, match="is not host:port"):
        parse_endpoints(f"127.0.0.1:{port}")
