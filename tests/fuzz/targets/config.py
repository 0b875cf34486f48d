"""Names, sizes, configuration files and classifier JSON: each is read, or refused in words, and soon."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from google.protobuf.message import DecodeError

from failover.classifier import Event, EventKind
from failover.command import answer_of
from failover.event_json import BadEventError, decode, encode
from failover.process import Ended, Ran
from replica.machine import Limits, Refused
from replica.machine.state.config import check_name, resolve, updated
from tandemq.cli.params import DURATION, MOMENT, PROPERTY, SIZE, TYPED_PROPERTY
from tandemq.client.target import NoTarget, parse_endpoints
from tandemq.config import SECTIONS, ConfigError, load, parse_address, to_toml
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.fuzz.cost import assert_within
from tests.fuzz.source import Source

CAP_S = 0.1
"""What one input may take (reliability 8.6). Of this process's own time: others on the machine do not count."""
LIMITS = Limits()
NUMBERS = ("0", "1", "7600", "-1", "65536", "1e9", "9" * 400, "9" * 5000, "٣", "0x10", "1_000", "1.5", "nan", "inf", "")
EVENT = Event("e1", EventKind.PEER_LOST, 1, "pair", "a", "b", ())
_FILE = Path(tempfile.gettempdir()) / f"tandemq-fuzz-{time.time_ns()}.toml"


def one(data: bytes) -> None:
    def read() -> None:
        source = Source(data)
        source.pick(PARTS)(source)

    assert_within(CAP_S, read)


def _word(source: Source) -> str:
    """A value as somebody might type it, or a misprint of it."""
    kind = source.byte() % 6
    if kind == 0:
        return source.pick(NUMBERS)
    if kind == 1:
        return source.pick(NUMBERS) + source.pick(("ms", "s", "m", "h", "d", "KiB", "m", "g", "b", "w", ""))
    if kind == 2:
        return source.text()
    if kind == 3:
        return source.pick(("127.0.0.1", "localhost", "[::1]", "::1", "[", "0.0.0.0", "")) + ":" + source.pick(NUMBERS)
    if kind == 4:
        return source.text() * source.number(1, 50)
    return source.blob(60).decode(errors="surrogateescape")


def options(source: Source) -> None:
    """What stands on a command line."""
    word = _word(source)
    for kind in (DURATION, SIZE, PROPERTY, TYPED_PROPERTY, MOMENT):
        try:
            found = kind.convert(word, None, None)
        except click.UsageError as refused:
            assert str(refused), "refused without a word"
        else:
            assert not isinstance(found, int) or found >= 0


def addresses(source: Source) -> None:
    """host:port, one or a list."""
    word = ",".join(_word(source) for _ in range(source.number(1, 3)))
    try:
        parsed = parse_endpoints(word)
    except NoTarget as refused:
        assert str(refused)
    else:
        assert all(0 < int(endpoint.rpartition(":")[2]) < 65536 for endpoint in parsed)
    try:
        address = parse_address(word, "here")
    except ConfigError as refused:
        assert refused.message.startswith("here")
    else:
        assert parse_address(str(address), "here") == address


def names(source: Source) -> None:
    """Queue names: R019's letters, never a path."""
    name = source.text() if source.flag() else "/".join(_word(source) for _ in range(source.number(1, 4)))
    name = name.encode(errors="replace").decode()  # protobuf lets nothing else through
    try:
        check_name(name, LIMITS)
    except Refused as refused:
        assert refused.message
        return
    assert name.isascii()
    assert name.isprintable()
    assert not {"", ".", ".."} & set(name.split("/"))
    assert len(name) <= 255
    assert not name.startswith("SYSTEM.")


def attributes(source: Source) -> None:
    """A queue's attributes, from an administrator's bytes: what is refused stays as it was, what is taken is whole."""
    try:
        asked = admin_pb2.QueueConfig.FromString(source.blob(60))
        config = resolve(asked, LIMITS)
        assert resolve(config, LIMITS) == config, "resolving is done once"
        mask = [source.pick(tuple(config.DESCRIPTOR.fields_by_name)) for _ in range(source.number(0, 3))]
        change = admin_pb2.QueueConfig.FromString(source.blob(60))
        changed = updated(config, change, mask, LIMITS)
        assert resolve(changed, LIMITS) == changed
    except Refused as refused:
        assert refused.message
    except DecodeError:
        return


def files(source: Source) -> None:
    """A configuration file, and the environment over it."""
    lines = []
    for _ in range(source.number(0, 8)):
        section = source.pick(tuple(SECTIONS))
        lines.append(f"[{section}]" if not source.rarely() else source.text())
        lines += [f"{_key(source, section)} = {_value(source)}" for _ in range(source.number(0, 3))]
    text = "\n".join(lines).encode(errors="surrogateescape")
    if source.rarely():
        text = source.mutated(text)
    environ = {}
    for _ in range(source.number(0, 2)):
        section = source.pick(tuple(SECTIONS))
        environ[f"TANDEMQ_{section.upper()}_{_key(source, section).upper()}"] = _word(source)
    _FILE.write_bytes(text)
    overrides = {"member": "a", "data_dir": "d"} if source.flag() else {}
    try:
        config = load(_FILE, overrides, environ)
    except ConfigError as refused:
        assert refused.message, "refused without a word"
        return
    finally:
        _FILE.unlink(missing_ok=True)
    _FILE.write_text(to_toml(config), encoding="utf-8")
    try:
        assert load(_FILE, {}, {}) == config, "what was written is not what is read"
    finally:
        _FILE.unlink(missing_ok=True)


def _key(source: Source, section: str) -> str:
    keys = tuple(SECTIONS[section])
    return source.pick(keys) if not source.rarely() else source.blob(12).hex() or "x"


def _value(source: Source) -> str:
    kind = source.byte() % 5
    if kind == 0:
        return str(source.u64())
    if kind == 1:
        return source.pick(("true", "false", "1.5", "[]", "{}", "[1]", "1979-05-27", "nan", "''", "[['a']]"))
    words = [json.dumps(_word(source), ensure_ascii=source.flag()) for _ in range(source.number(1, 2))]
    return words[0] if kind < 4 else f"[{', '.join(words)}]"


def events(source: Source) -> None:
    """An event as a classifier reads it, with misprints: an event that can be written again, or words."""
    text = encode(EVENT)
    for _ in range(source.number(0, 2)):
        text = source.mutated(text)
    try:
        event = decode(text)
    except BadEventError as refused:
        assert str(refused)
        return
    assert decode(encode(event)) == event


def answers(source: Source) -> None:
    """What a classifier's command wrote and how it ended: no verdict unless it was said without a doubt."""
    code = source.number(15, 30) if source.flag() else source.number(-20, 300)
    facts = {"event_id": source.pick(("e1", "e2", ""))}
    if source.flag():
        facts["verdict"] = source.pick((20, 21, 22, 23, 24, 25, "WAIT", "ASSUME_MASTERSHIP", "x", None, True))
    if source.flag():
        facts[source.pick(("reason", "token", "evidence", "valid_for_ms", "retry_ms", "more"))] = source.pick(
            (_word(source), 1, -1, 1 << 70, 1.5, [], "lease", "none")
        )
    line = json.dumps(facts).encode(errors="surrogateescape")
    stdout = source.pick((b"", line, line + b"\n", line + b"\n" + line, source.mutated(line), b"[" * 3000))
    ended = source.pick(tuple(Ended))
    ran = Ran(ended, code, "why not", stdout, source.blob(20), stdout_cut=source.rarely())
    answer = answer_of(EVENT, ran, "test", 1)
    assert answer.reason.isprintable()
    assert len(answer.reason) <= 2000
    if answer.verdict is not None:
        assert ended is Ended.EXIT
        assert answer.verdict.value == code


PARTS: tuple[Callable[[Source], None], ...] = (options, addresses, names, attributes, files, events, answers)
