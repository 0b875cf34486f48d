"""The JSON of events: nothing is lost on the way there and back, and the published schemas are what is really sent."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import failover
from failover.classifier import DomainFacts, Event, EventKind, Evidence, Verdict
from failover.event_json import (
    SCHEMAS,
    AnswerJson,
    BadEventError,
    DataName,
    EvidenceName,
    KindName,
    RoleName,
    VerdictCode,
    VerdictName,
    decode,
    document,
    encode,
    from_document,
    schema,
    schema_file,
)
from failover.marks import DataMark, Role
from failover.rehearsal import REHEARSED, sample
from tandemq.cli import root
from tests.failover.support import event
from tests.support import script

FOLDER = Path(failover.__file__ or "").parent / "schema"
COUNTS = st.integers(0, 2**63)
TEXTS = st.text(max_size=20)


def fields_of(owner: type[Any], **special: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """A strategy for every field, those with defaults too: one that the JSON forgets makes the round trip fail."""
    by_type = {"int": COUNTS, "str": TEXTS, "bool": st.booleans(), "tuple[str, ...]": st.lists(TEXTS).map(tuple)}
    return {
        field.name: special[field.name] if field.name in special else by_type[str(field.type)]
        for field in dataclasses.fields(owner)
    }


FACTS = st.builds(DomainFacts, **fields_of(DomainFacts, role=st.sampled_from(Role), data=st.sampled_from(DataMark)))
EVENTS = st.builds(
    Event,
    **fields_of(
        Event,
        kind=st.sampled_from(EventKind),
        domains=st.lists(FACTS, max_size=4).map(tuple),
        attempt=st.integers(1, 100),
    ),
)


@settings(deadline=None)  # a busy machine
@given(EVENTS)
def test_an_event_comes_back_as_it_was(asked: Event) -> None:
    text = encode(asked)
    assert b"\n" not in text
    assert decode(text) == asked
    assert from_document(json.loads(text)) == asked


@settings(deadline=None)  # a busy machine
@given(EVENTS)
def test_what_is_sent_is_what_the_schema_says(asked: Event) -> None:
    assert violations(document(asked), json.loads(schema("event"))) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_the_one_in_force(name: str) -> None:
    """To change it: add fields; raise SCHEMA_VERSION when one changes its meaning; write the file anew."""
    file = FOLDER / schema_file(name)
    published = file.read_text(encoding="utf-8")
    if script.is_rewriting() and published != schema(name):
        file.write_text(schema(name), encoding="utf-8")
        pytest.skip("rewritten: read the difference before it is committed")
    assert published == schema(name), "REWRITE=1 pytest tests/failover/test_event_json.py"
    result = CliRunner().invoke(root, ["classifier", "schema", name])
    assert (result.exit_code, result.stdout) == (0, published)


def test_the_schema_knows_every_name() -> None:
    assert set(get_args(RoleName)) == {role.name for role in Role}
    assert set(get_args(DataName)) == {mark.name for mark in DataMark}
    assert set(get_args(KindName)) == {kind.value for kind in EventKind}
    assert set(get_args(EvidenceName)) == {evidence.value for evidence in Evidence}
    assert set(get_args(VerdictName)) == {verdict.name for verdict in Verdict}
    assert set(get_args(VerdictCode)) == {verdict.value for verdict in Verdict}


def test_what_a_command_can_use_is_there() -> None:
    told = document(event(heard_ago_ms=1_500, refused=True))
    assert told["self"]["role"] == "REPLICA"
    assert told["peer"]["refused"] is True
    assert told["domains"][0]["peer"] == {"role": "MASTER", "data": "IN_SYNC", "epoch": 7, "index": 100}
    behind = dataclasses.replace(event().domains[0], last_index=100, peer_index=97)
    assert document(event(domains=(behind,)))["domains"][0]["not_on_peer"] == 3


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"event": "PEER_ASLEEP"}, "$.event"),
        ({"attempt": 0}, "$.attempt"),
        ({"attempt": "1"}, "$.attempt"),
        ({"self": {}}, "$.self"),
        ({"domains": [{"name": "main"}]}, "$.domains"),
        ({"schema_version": 2}, "schema version 2, this program reads 1"),
        ({"decide_by_ms": -1}, "$.decide_by_ms"),
        ({"peer": None}, "$.peer"),
    ],
)
def test_what_is_no_event_is_refused_by_name(change: dict[str, object], where: str) -> None:
    wrong = {**document(event()), **change}
    for read in (lambda: from_document(wrong), lambda: decode(json.dumps(wrong))):
        with pytest.raises(BadEventError) as caught:
            read()
        assert where in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema_version": 1}'])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(BadEventError, match="no event"):
        decode(text)


def test_fields_of_a_later_version_are_passed_over() -> None:
    told = document(event())
    told["of_a_later_version"] = told["domains"][0]["too"] = 1
    assert from_document(told) == event()


@pytest.mark.parametrize(
    ("told", "right"),
    [
        ({"event_id": "e1"}, True),
        ({"event_id": "e1", "verdict": "WAIT", "evidence": "lease", "retry_ms": 5, "more": []}, True),
        ({"event_id": "e1", "verdict": 24}, True),
        ({"event_id": "e1", "verdict": 25}, False),
        ({"event_id": 1}, False),
        ({"verdict": 21}, False),
        ({"event_id": "e1", "retry_ms": -1}, False),
        ({"event_id": "e1", "token": "x" * 1025}, False),
    ],
)
def test_the_answer_schema_says_what_is_taken(told: dict[str, object], right: bool) -> None:
    assert (violations(told, json.loads(schema("answer"))) == []) is right
    try:
        msgspec.convert(told, AnswerJson)
        taken = True
    except msgspec.ValidationError:
        taken = False
    assert taken is right


def test_rehearsed_events_follow_the_schema() -> None:
    for kind, (_, situations) in REHEARSED.items():
        for role, data in situations:
            assert violations(document(sample(kind, role, data)), json.loads(schema("event"))) == []


def violations(value: object, rules: dict[str, Any], root_rules: dict[str, Any] | None = None) -> list[str]:
    """As much of JSON Schema as ours use; a keyword that is not known here fails the test that uses it."""
    known = {"$schema", "$id", "$ref", "$defs", "title", "description", "default", "type", "properties", "required"}
    known |= {"enum", "anyOf", "items", "minimum", "maximum", "maxLength"}
    assert rules.keys() <= known, rules.keys() - known
    top = root_rules or rules
    if "$ref" in rules:
        return violations(value, top["$defs"][rules["$ref"].rpartition("/")[2]], top)
    found: list[str] = []
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "null": type(None)}
    wanted = kinds[rules["type"]] if "type" in rules else object
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        return [f"{value!r} is no {rules['type']}"]
    if "enum" in rules and value not in rules["enum"]:
        found.append(f"{value!r} is not one of {rules['enum']}")
    if "anyOf" in rules and all(violations(value, each, top) for each in rules["anyOf"]):
        found.append(f"{value!r} is none of them")
    if isinstance(value, int) and not rules.get("minimum", value) <= value <= rules.get("maximum", value):
        found.append(f"{value!r} is out of bounds")
    if isinstance(value, str) and len(value) > rules.get("maxLength", len(value)):
        found.append("too long")
    if isinstance(value, list):
        found += [each for item in value for each in violations(item, rules["items"], top)]
    if isinstance(value, dict):
        found += [f"{name} is missing" for name in rules["required"] if name not in value]
        for name, each in rules["properties"].items():
            found += violations(value[name], each, top) if name in value else []
    return found


def test_the_small_validator_finds_what_is_wrong() -> None:
    rules = json.loads(schema("event"))
    for change in ({"event": "X"}, {"attempt": 0}, {"self": {}}, {"domains": [1]}, {"pair": None}, {"recent": [1]}):
        assert violations({**document(event()), **change}, rules) != [], change
