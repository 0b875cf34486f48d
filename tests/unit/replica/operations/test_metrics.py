"""What an alert watches for its first event is there with 0 before it: a counter born with 1 has not increased."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from failover.classifier import Answer, Verdict
from failover.command import Command
from failover.gate import Consequence
from failover.marks import Role
from replica.listen.machine_access import MachineAccess
from replica.node.members import Members
from replica.operations.events import EventLog
from replica.operations.metrics import Metrics
from replica.operations.metrics_operator import OperatorMetrics
from replica.operations.metrics_queues import sides_behind
from replica.operations.operator import FIRST_ANSWER_MS, Operator
from replica.operations.reports import Reports
from replica.peer.judge import Judge
from tandemq.ambient import monotonic_ms
from tandemq.config import ManagerConfig
from tandemq.peer.v1.record_pb2 import PassedOp, RecordHeader
from tandemq.v1.queue_admin_service_pb2 import REPLICATION_PRODUCER
from tests.deploy.samples import expressions_of_rules
from tests.unit.replica.machine.driver import Driver
from tests.unit.replica.peer.test_verify import verifier

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = frozenset[tuple[str, str]]


def samples(families: Iterable[Metric]) -> dict[tuple[str, Labels], float]:
    """By name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


async def member(folder: Path, witness: str = "") -> tuple[Operator, Judge, list[Any]]:
    """A member of two paired domains, `d7` and `d8`, that nothing has happened to."""
    comparing, one, other = verifier()
    config = ManagerConfig(member="a", data_dir=str(folder), pair="p", peer_member="b", witness=witness)
    names = {"pair": "p", "member": "a", "endpoint": "a:1", "peer": "b", "peer_endpoint": "b:1"}
    members = Members(comparing.node, MachineAccess(), park_ms=5000, streams_max=100, is_late=lambda: False, **names)
    members.by_name |= {domain.shared.name: domain for domain in (one, other)}
    judge = Judge(comparing.node, config, None, dict, 1, lambda _config: Command(("true",)))
    reports = Reports(EventLog(folder, "a"))
    authority = SimpleNamespace(connected=False)
    operator = Operator(reports, members, config, authority=authority, judge=judge, beats=None, link=None)
    return operator, judge, [Metrics(members, judge, comparing), OperatorMetrics(operator)]


async def test_every_counter_whose_increase_is_an_alert_is_there_with_0(tmp_path: Path) -> None:
    _, judge, collectors = await member(tmp_path)
    found = samples(family for collector in collectors for family in collector.collect())
    for domain in ("d7", "d8"):
        assert found["tandemq_verify_differences_total", frozenset({("domain", domain)})] == 0
    assert found["tandemq_without_redundancy_seconds_total", frozenset({("domain", "d8")})] == 0
    for said in (*(verdict.name for verdict in Verdict), "NO_ANSWER"):
        labels = frozenset({("classifier", judge.name), ("verdict", said)})
        assert found["tandemq_classifier_calls_total", labels] == 0
    for said in (*(verdict.name.lower() for verdict in Verdict), "none"):
        for effect in Consequence:
            labels = frozenset({("verdict", said), ("effect", effect.value)})
            assert found["tandemq_verdicts_total", labels] == 0
    for role in Role:
        assert found["tandemq_transitions_total", frozenset({("domain", "d8"), ("role", role.name.lower())})] == 0
    named = {name for name, _ in found}
    watched = {name for each in expressions_of_rules().values() for name in re.findall(r"increase\((\w+)", each)}
    assert len(watched) > 4
    # Of a machine, all of its kinds, or its count, at once; these members have none.
    assert watched - named == {"tandemq_message_events_total", "tandemq_journal_readers_lost_total"}


async def test_what_happens_is_counted_on_from_there(tmp_path: Path) -> None:
    operator, judge, collectors = await member(tmp_path)
    judge.runners[True].calls["NO_ANSWER"] += 1
    judge.runners[False].calls["NO_ANSWER"] += 2
    judge.runners[False].calls[Verdict.WAIT.name] += 1
    [domain, _] = operator.members.by_name.values()
    verdicts = domain.mastership.verdicts
    answer = Answer("", verdicts.generation, None, "the command ended with 1")
    domain.mastership.view.readable = True
    ruling = verdicts.take(answer, verdicts.kind, 0)
    verdicts.report(ruling, None)
    [note] = [effect for effect in domain.shared.outbox.take() if type(effect).__name__ == "Note"]
    operator.reports.on_note(domain, note)  # type: ignore[arg-type]  # of the union of effects it is the note
    found = samples(family for collector in collectors for family in collector.collect())
    calls = {dict(labels)["verdict"]: value for (name, labels), value in found.items() if "classifier_calls" in name}
    assert {said: count for said, count in calls.items() if count} == {"NO_ANSWER": 3, "WAIT": 1}
    told = {key: value for key, value in found.items() if key[0] == "tandemq_verdicts_total" and value}
    assert told == {("tandemq_verdicts_total", frozenset({("verdict", "none"), ("effect", "wait")})): 1}


async def test_an_authority_that_does_not_answer_is_told_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    """TandemqAuthorityUnreachable would fire for ever in a pair that decides by verdicts alone."""
    for witness, told in (("127.0.0.1:1", [0.0]), ("", [])):
        _, _, collectors = await member(tmp_path / f"witness-{witness}", witness)
        found = samples(family for collector in collectors for family in collector.collect())
        assert [value for (name, _), value in found.items() if name == "tandemq_authority_reachable"] == told


async def test_a_healthy_start_tells_nothing_of_the_authority_and_one_without_it_does(tmp_path: Path) -> None:
    """The history of every start began with a witness that cannot be reached: it was asked before it could answer."""
    began = monotonic_ms()
    for answers_after_ms, told in ((300, []), (60_000, ["the witness cannot be reached", "the witness answers again"])):
        operator, _, _ = await member(tmp_path / str(answers_after_ms), "127.0.0.1:1")
        for passed_ms in (100, 200, 300, 400, 4_000, FIRST_ANSWER_MS + 1_000, 59_000, 60_000, 61_000):
            operator.authority = SimpleNamespace(connected=passed_ms >= answers_after_ms)  # type: ignore[assignment]
            operator.look(began + passed_ms)
        await operator.reports.events.close()  # written, and shown
        assert [event.text for event in operator.reports.events.last(10)] == told


def test_how_far_each_side_is_behind_is_said_by_queue_and_side() -> None:
    driver = Driver()
    driver.create("plain")
    driver.create("q", replication=REPLICATION_PRODUCER)
    driver.send(3)
    driver.commits = False
    driver.send(1)
    mark = PassedOp(queue_id=driver.master.state.named("q").queue_id, marks=[{"member": "a", "index": 2}])
    driver.order(RecordHeader(time_ms=driver.now_ms, passed=mark))
    loss = PassedOp(queue_id=driver.master.state.named("q").queue_id, lost=[{"member": "b"}])
    expected = {("tandemq_side_lag", "a"): 1.0, ("tandemq_side_lag", "b"): 3.0}
    expected |= {("tandemq_side_lost", "a"): 0.0, ("tandemq_side_lost", "b"): 0.0}

    def found() -> dict[tuple[str, str], float]:
        values = samples(sides_behind([("main", driver.master.state)]))
        return {(name, dict(labels)["side"]): value for (name, labels), value in values.items()}

    assert found() == expected
    driver.order(RecordHeader(time_ms=driver.now_ms, passed=loss))
    del expected["tandemq_side_lag", "b"]
    assert found() == {**expected, ("tandemq_side_lost", "b"): 1.0}
