"""Decides what a manager's configuration means and whether it can work; it never opens a port or a directory.

Values come from a TOML file and from `TANDEMQ_SECTION_KEY` variables, which win over the file. Every refusal names the
file, the key, the value, and what to do.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from tandemq.client.target import UNIX, is_port
from tandemq.config_custom import Custom, problem_of_custom
from tandemq.config_links import Links, problem_of
from tandemq.config_security import Security, problem_of_security
from tandemq.config_slips import near_miss, suggestion
from tandemq.config_tokens import Tokens, problem_of_tokens
from tandemq.listening import problem_of_local

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

BASE_PORT_DEFAULT = 7600
# Distances from the base port: the second member's ports stay clear of the first one's, the witness of both.
PEER_OFFSET, HTTP_OFFSET, BEARER_OFFSET, MEMBER_STRIDE, WITNESS_OFFSET = 1, 2, 3, 10, 20

FILE_NAME = "tandemq.toml"
VARIABLES = "TANDEMQ_"  # what every variable of ours begins with
SYSTEM_FILE = Path("/etc/tandemq") / FILE_NAME
CLASSIFIERS = ("witness", "etcd", "command", "alt-path", "peer-outdate", "combine", "operator", "suspend")
MODES = ("enforce", "observe", "off")
PROFILES = ("safe", "classic")  # what new queues get; classic: the defaults of the first design, Table 5
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HOURS_MAX = 87_600
NUMBER_MAX = (1 << 63) - 1  # of any number in a file: what a store or a clock can take


class ConfigError(ValueError):
    """A configuration that cannot work: `reason` is the contract's name for it, `message` says what to do."""

    reason = "CONFIG_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class MemberPorts(NamedTuple):
    """The ports that each member has."""

    client: int
    peer: int
    http: int


def member_ports(base_port: int, ordinal: int) -> MemberPorts:
    """Ports of the first (0) or second (1) member."""
    client = base_port + ordinal * MEMBER_STRIDE
    return MemberPorts(client, client + PEER_OFFSET, client + HTTP_OFFSET)


def witness_port(base_port: int) -> int:
    return base_port + WITNESS_OFFSET


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a silent peer is noticed, in milliseconds; heartbeat < suspect < lost."""

    heartbeat_ms: int = 200
    suspect_ms: int = 600
    lost_ms: int = 1500
    hung_ms: int = 5000  # connected and without a heartbeat for so long: its loop hangs; lost_ms where that is more
    replica_bias_ms: int = 300  # a replica asks the witness this much later than a master would


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one member; each has a named refusal when it is reached."""

    map_bytes: int = 64 * GIB  # sparse file; sending is refused at 80 %
    journal_bytes: int = 1 * GIB  # beyond it, or beyond journal_hours, a peer needs a full transfer
    journal_hours: int = 24
    reader_bytes: int = 4 * GIB  # of log that is kept for named readers of the journal alone
    reader_hours: int = 72  # ... and how old it may be; who is further behind loses his place
    side_bytes: int = 4 * GIB  # of messages that are kept for one side of a PRODUCER queue alone
    side_hours: int = 72  # ... and how long it may settle nothing while they are; beyond it loses its place
    side_full_seconds: int = 60  # ... the same while its queue, or the store, is full and senders wait
    checkpoint_bytes: int = 64 * MIB  # of log between two checkpoints: what a restart replays at most
    volatile_bytes: int = 256 * MIB
    max_batch_bytes: int = 4 * MIB
    park_ms: int = 5000  # how long a call without a deadline waits for a master
    consume_streams: int = 20_000  # open at this member, those that it carries to the master included


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides who lives, and how a handoff is done; times in milliseconds."""

    classifier: str = ""  # "" = the authority if there is one, else suspend; see CLASSIFIERS, or an entry point's name
    mode: str = "enforce"  # observe: run and journal it, act on the authority's verdict; off: never run it
    command: tuple[str, ...] = ()  # argv of classifier `command`; no shell
    call_ms: int = 5000  # one call; then its process group is ended
    attempts: int = 3
    total_ms: int = 30_000  # all attempts for one event
    accept_unproven: bool = False  # let classifiers of class B and C promote without an authority
    flap_changes: int = 3  # of role, automatic, without an authority, in flap_window_ms; then an operator is needed
    flap_window_ms: int = 600_000
    slow_peer_ms: int = 10_000  # connected and not a step further: the peer counts as slow
    stall_ms: int = 10_000  # a write of this member that takes longer is a local fault
    cold_start_ms: int = 60_000  # without an authority: alone since the start for so long is a question
    meet_ms: int = 3000  # after a start: how long a peer that may serve too is awaited; 0 = go on alone at once
    hold_ms: int = 2000  # how long a handoff may drain
    cooldown_ms: int = 1000  # a replica may ask for the role this long after the last handoff, not sooner
    hand_over_at_stop: bool = True
    verify_hours: int = 24  # between two comparisons of the copies; 0 = never by itself
    members: tuple[str, ...] = ()  # of classifier `combine`
    rule: str = "all"  # of `combine`: all, any, veto, or how many must agree
    probe_address: str = ""  # of `alt-path`: the peer by another network
    probe_http: bool = False  # of `alt-path`: want an answer to GET /livez; a connection alone shows only a kernel
    probe_bias_ms: int = 2000  # a replica looks, and outdates its peer, this much later than a master would
    probe_targets: tuple[str, ...] = ()  # of `alt-path`: host:port that answer while this member is not cut off
    outdate_endpoint: str = ""  # of `peer-outdate`: the peer's client port by another network


class Etcd(msgspec.Struct, frozen=True, kw_only=True):
    """The register in etcd instead of a witness."""

    endpoints: tuple[str, ...] = ()  # host:port
    prefix: str = "/tandemq/"
    credentials: str = ""  # directory with ca.pem of etcd's authority, and cert.pem and key.pem that etcd takes


class ManagerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a manager is told at start; nothing in it changes while it runs."""

    member: str
    data_dir: str
    pair: str = ""  # "" = unpaired
    peer_member: str = ""  # empty exactly when pair is
    peer_address: str = ""  # the other member's peer port
    peer_endpoint: str = ""  # the other member's client port
    witness: str = ""
    listen_client: str = "127.0.0.1:7600"
    listen_peer: str = "127.0.0.1:7601"
    listen_http: str = "127.0.0.1:7602"
    listen_bearer: str = ""  # for clients with tokens instead of certificates, host:port; "" = none
    listen_unix: str = ""  # path of a socket for clients on this host; "" = none
    listen_unix_mode: str = "0600"  # who may: its owner; 0660: its group too
    server_required: bool = True  # false: no listener at all, for a manager inside an application
    advertise: str = ""  # what clients are told to dial; "" = listen_client
    profile: str = "safe"
    domains: tuple[str, ...] = ("main",)
    reactions: bool = True  # false: React is refused to clients of this member (R189)
    backup_dir: str = ""  # where RestoreQueue finds backups; "" = <data_dir>/backups
    insecure_network: bool = False
    timers: Timers = Timers()
    limits: Limits = Limits()
    failover: Failover = Failover()
    etcd: Etcd = Etcd()
    links: Links = Links()
    security: Security = Security()
    tokens: Tokens = Tokens()
    custom: Custom = Custom()

    @property
    def authority(self) -> str:
        """Who keeps the register: witness, etcd, or none (the members themselves, by verdict)."""
        return "etcd" if self.etcd.endpoints else "witness" if self.witness else "none"

    @property
    def paired(self) -> bool:
        return bool(self.pair)

    @property
    def endpoint(self) -> str:
        """Where clients are told to find this member; empty: only who is in its process finds it."""
        if not self.server_required:
            return ""
        return self.advertise or self.listen_client or f"{UNIX}{self.listen_unix}"


class Key(NamedTuple):
    """Where a value of the file goes."""

    field: str
    kind: Any


_OF_SECTIONS: tuple[type[msgspec.Struct], ...] = (Timers, Limits, Failover, Etcd, Links, Security, Tokens, Custom)
NESTED: Mapping[str, type[msgspec.Struct]] = MappingProxyType({each.__name__.lower(): each for each in _OF_SECTIONS})
_KINDS = MappingProxyType({field.name: field.type for field in msgspec.structs.fields(ManagerConfig)})
_ELSEWHERE = ("peer_member", "peer_address", "peer_endpoint", "witness", *NESTED)
SECTIONS: Mapping[str, dict[str, Key]] = MappingProxyType(
    {
        "manager": {name: Key(name, kind) for name, kind in _KINDS.items() if name not in _ELSEWHERE},
        "peer": {name: Key(f"peer_{name}", str) for name in ("member", "address", "endpoint")},
        "witness": {"address": Key("witness", str)},
        **{
            section: {field.name: Key(field.name, field.type) for field in msgspec.structs.fields(struct)}
            for section, struct in NESTED.items()
        },
    }
)


def find_file(given: str | None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file to read: the one given, else the user's, else the system's; None when there is none."""
    if given:
        path = Path(given)
        if not path.is_file():
            raise ConfigError(f"{given}: no such file; give an existing file to --config")
        return path
    places = [client_directory(environ) / FILE_NAME, SYSTEM_FILE]
    return next((path for path in places if path.is_file()), None)


def client_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the user's own settings are: $TANDEMQ_CONFIG_HOME, else ~/.config/tandemq."""
    return Path(home) if (home := environ.get("TANDEMQ_CONFIG_HOME")) else Path.home() / ".config" / "tandemq"


def load(
    path: Path | None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ManagerConfig:
    """Reads the file (None: none), then the environment, then `overrides` by field name; the later wins.

    Raises ConfigError for anything unknown, of the wrong kind, or that cannot work.
    """
    used = sorted(name for section in SECTIONS for name in environ if name.startswith(variable_of(section, "")))
    source = " with ".join([str(path) if path else "no file", *filter(None, [", ".join(used)])])
    values = file_values(path) if path else {}
    for name, value in (*environment_values(environ).items(), *(overrides or {}).items()):
        values[name] = {**values.get(name, {}), **value} if isinstance(value, Mapping) else value
    for name in ("member", "data_dir"):
        if not values.get(name):
            raise ConfigError(
                f"{source}: manager.{name} is missing; set it in section [manager] or as {variable_of('manager', name)}"
            )
    nested = {section: struct(**values.get(section, {})) for section, struct in NESTED.items()}
    config = ManagerConfig(**{**values, **nested})
    check(config, source)
    return config


def file_values(path: Path) -> dict[str, Any]:
    """What that file says, by field name. Raises ConfigError."""
    try:
        return parse(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def parse(document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The document's values by field name; nested for timers and limits."""
    values: dict[str, Any] = {}
    for section, body in document.items():
        keys = SECTIONS.get(section)
        if keys is None:
            raise ConfigError(f"{source}: unknown section [{section}]{suggestion(section, SECTIONS)}")
        if not isinstance(body, Mapping):
            raise ConfigError(f"{source}: {section} = {body!r} stands outside a section; write [{section}] and keys")
        for key, value in body.items():
            _take(values, section, key, value, source)
    return values


def variable_of(section: str, name: str) -> str:
    return f"{VARIABLES}{section}_{name}".upper()


def environment_values(environ: Mapping[str, str]) -> dict[str, Any]:
    """What its variables say, by field name. Raises ConfigError."""
    values: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        prefix = variable_of(section, "")
        for variable, text in environ.items():
            if variable.startswith(prefix):
                key = variable.removeprefix(prefix).lower()
                many = key in keys and keys[key].kind == tuple[str, ...]
                value = text.split(",") if many else text
                _take(values, section, key, value, f"environment variable {variable}", strict=False)
    settings = [variable_of(section, name) for section, keys in SECTIONS.items() for name in keys]
    if slip := near_miss(environ, VARIABLES, [variable_of(section, "") for section in SECTIONS], settings):
        raise ConfigError(f"environment variable {slip[0]} is read by nothing; did you mean {slip[1]}?")
    return values


def _take(values: dict[str, Any], section: str, key: str, value: Any, source: str, *, strict: bool = True) -> None:
    if (known := SECTIONS[section].get(key)) is None:
        raise ConfigError(f"{source}: unknown key {section}.{key}{suggestion(key, SECTIONS[section])}")
    try:
        converted = msgspec.convert(value, known.kind, strict=strict)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # the second: bytes of the environment, no text
        raise ConfigError(f"{source}: {section}.{key} = {value!r}: {error}") from error
    if isinstance(converted, int) and abs(converted) > NUMBER_MAX:
        raise ConfigError(f"{source}: {section}.{key} = {value!r}: is too large")
    if section in NESTED:
        values.setdefault(section, {})[known.field] = converted
    else:
        values[known.field] = converted


def check(config: ManagerConfig, source: str = "configuration") -> None:
    """Raises ConfigError unless a manager with these values can work."""

    def refuse(key: str, value: object, advice: str) -> None:
        raise ConfigError(f"{source}: {key} = {value!r}: {advice}")

    if not NAME.fullmatch(config.member):
        refuse("manager.member", config.member, "use up to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit")
    if config.profile not in PROFILES:
        refuse("manager.profile", config.profile, f"choose one of {', '.join(PROFILES)}")
    if not config.domains or len(set(config.domains)) < len(config.domains):
        refuse("manager.domains", list(config.domains), "give at least one name, and each name once")
    for domain in config.domains:
        if domain == "local" or not NAME.fullmatch(domain):
            refuse("manager.domains", domain, "use A-Z a-z 0-9 . _ -; local is taken by every member's own domain")
    _check_text(config, source)
    _check_pair(config, source)
    _check_failover(config, source)
    _check_listening(config, source)
    timers, limits = config.timers, config.limits
    if not 0 < timers.heartbeat_ms < timers.suspect_ms < timers.lost_ms:
        told = (timers.heartbeat_ms, timers.suspect_ms, timers.lost_ms)
        refuse("timers", told, "must rise: 0 < heartbeat_ms < suspect_ms < lost_ms")
    if timers.replica_bias_ms < 0:
        refuse("timers.replica_bias_ms", timers.replica_bias_ms, "must not be negative")
    for name in (name for name in limits.__struct_fields__ if getattr(limits, name) <= 0):
        refuse(f"limits.{name}", getattr(limits, name), "must be positive")
    for name in (name for name in ("journal_hours", "reader_hours", "side_hours") if getattr(limits, name) > HOURS_MAX):
        refuse(f"limits.{name}", getattr(limits, name), f"at most {HOURS_MAX} hours, which is ten years")
    if limits.map_bytes < 16 * MIB:
        refuse("limits.map_bytes", limits.map_bytes, "give the store at least 16 MiB")


def _check_text(config: ManagerConfig, source: str) -> None:
    """Bytes of a command line or of the environment that are no text could not be written or shown again."""
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            value = getattr(getattr(config, section) if section in NESTED else config, key.field)
            try:
                toml_value(value).encode()
            except UnicodeEncodeError:
                raise ConfigError(f"{source}: {section}.{name} = {value!r}: is no text in UTF-8") from None


def _check_pair(config: ManagerConfig, source: str) -> None:
    peer = {f"peer.{name}": str(getattr(config, f"peer_{name}")) for name in ("member", "address", "endpoint")}
    if not config.pair:
        given = [f"{key} = {value!r}" for key, value in {**peer, "witness.address": config.witness}.items() if value]
        if given:
            raise ConfigError(
                f"{source}: {given[0]} belongs to a pair, but manager.pair is empty; name the pair, or remove it"
            )
        return
    if not NAME.fullmatch(config.pair):
        raise ConfigError(f"{source}: manager.pair = {config.pair!r}: use up to 64 of A-Z a-z 0-9 . _ -")
    for key, value in peer.items():
        if not value:
            raise ConfigError(f"{source}: {key} is missing; pair {config.pair!r} has two members and needs the other's")
    if config.peer_member == config.member:
        raise ConfigError(
            f"{source}: peer.member = {config.peer_member!r} is this member's own name; the members need different ones"
        )
    if config.witness and config.etcd.endpoints:
        raise ConfigError(
            f"{source}: witness.address and etcd.endpoints are both given; one register decides, so name one of them"
        )
    addresses = [*list(peer.items())[1:], *([("witness.address", config.witness)] if config.witness else [])]
    addresses += [("etcd.endpoints", each) for each in config.etcd.endpoints]
    for key, value in addresses:
        parse_address(value, f"{source}: {key}")


def _check_failover(config: ManagerConfig, source: str) -> None:
    failover = config.failover

    def refuse(key: str, value: object, advice: str) -> None:
        raise ConfigError(f"{source}: failover.{key} = {value!r}: {advice}")

    if failover.mode not in MODES:
        refuse("mode", failover.mode, f"choose one of {', '.join(MODES)}")
    if failover.rule not in ("all", "any", "veto") and not re.fullmatch("[0-9]{1,3}", failover.rule):
        refuse("rule", failover.rule, "write all, any, veto, or how many must agree")
    used = [failover.classifier]
    if failover.classifier == "combine":
        used += failover.members
        if len(set(failover.members)) < 2 or "combine" in failover.members:
            refuse("members", list(failover.members), "name at least two different classifiers, none of them combine")
        if failover.rule.isdecimal() and not 0 < int(failover.rule) <= len(failover.members):
            refuse("rule", failover.rule, f"there are {len(failover.members)} members")
    for name in used:
        if name in ("witness", "etcd") and name != config.authority:
            key = "classifier" if name == failover.classifier else "members"
            refuse(key, name, f"the authority here is {config.authority}; configure it, or remove")
    if "command" in used and not failover.command:
        refuse("command", list(failover.command), 'give the command as a list, for example ["/usr/bin/decide"]')
    needed = {"alt-path": "probe_address", "peer-outdate": "outdate_endpoint"}
    for name in (name for name in used if name in needed and not getattr(failover, needed[name])):
        refuse(needed[name], "", f"classifier {name} needs it: an address on another network than the pair's")
    if "alt-path" in used and len(set(failover.probe_targets)) < 2:
        refuse("probe_targets", list(failover.probe_targets), "classifier alt-path needs two: one may be down")
    _check_failover_numbers(config, source)


def _check_failover_numbers(config: ManagerConfig, source: str) -> None:
    failover = config.failover
    for key in ("probe_address", "outdate_endpoint"):
        if getattr(failover, key):
            parse_address(getattr(failover, key), f"{source}: failover.{key}")
    for address in failover.probe_targets:
        parse_address(address, f"{source}: failover.probe_targets")
    for name in ("call_ms", "attempts", "total_ms", "slow_peer_ms", "stall_ms", "cold_start_ms", "hold_ms"):
        if getattr(failover, name) <= 0:
            raise ConfigError(f"{source}: failover.{name} = {getattr(failover, name)!r}: must be positive")
    for name in ("meet_ms", "flap_changes", "flap_window_ms", "verify_hours", "probe_bias_ms"):
        if getattr(failover, name) < 0:
            raise ConfigError(f"{source}: failover.{name} = {getattr(failover, name)!r}: must not be negative")


def _check_listening(config: ManagerConfig, source: str) -> None:
    links = problem_of(config.links, named := (config.pair, config.member, config.peer_member))
    others = problem_of_security(config.security, *named) or problem_of_custom(config.custom)
    others = others or problem_of_tokens(config.tokens, config.listen_bearer, config.security.credentials)
    if problem := links or others or problem_of_local(config):
        raise ConfigError(f"{source}: {problem}")
    seen: dict[Address, str] = {}
    for name in ("listen_client", "listen_peer", "listen_http", "listen_bearer"):
        value, alone = getattr(config, name), config.listen_unix and not config.pair
        if not value and (name == "listen_bearer" or (name == "listen_client" and alone)):
            continue
        address = parse_address(value, f"{source}: manager.{name}")
        if address in seen:
            raise ConfigError(f"{source}: manager.{name} = {value!r} is also {seen[address]}; give each its own port")
        seen[address] = f"manager.{name}"
        may_be_reached = config.insecure_network or bool(config.security.credentials)
        check_exposure(address, f"{source}: manager.{name}", may_be_reached=may_be_reached)
    if config.advertise:
        parse_address(config.advertise, f"{source}: manager.advertise")


def check_exposure(address: Address, where: str, *, may_be_reached: bool) -> None:
    """Refuses to be reachable from other machines where nothing is encrypted, and nobody says who he is."""
    if not address.loopback and not may_be_reached:
        raise ConfigError(
            f"{where} = '{address}' is reachable from other machines, in clear text and by anybody; listen on "
            "127.0.0.1, give credentials, or say --insecure-network if the network itself is trusted"
        )


def parse_address(text: str, where: str) -> Address:
    """`host:port`, IPv6 in brackets. Raises ConfigError that begins with `where`."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not is_port(port):
        raise ConfigError(f"{where} = {text!r}: write host:port, for example 127.0.0.1:{BASE_PORT_DEFAULT}")
    return Address(host, int(port))


def to_toml(config: ManagerConfig) -> str:
    """The file that `load` reads back as the same configuration."""
    lines: list[str] = []
    for section, keys in SECTIONS.items():
        owner = getattr(config, section) if section in NESTED else config
        values = (f"{name} = {toml_value(getattr(owner, key.field))}" for name, key in keys.items())
        lines += [f"[{section}]", *values, ""]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """A TOML literal: JSON's spelling of texts, numbers, booleans and lists is TOML's too."""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # the one character that JSON takes as it is and TOML does not
