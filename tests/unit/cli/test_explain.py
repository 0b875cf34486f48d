"""What `tandemq pair why` says: one situation, one text, word for word."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tandemq.cli.explain import BEFORE_MS, Happening, ago, explain
from tandemq.cli.view import DomainView, MemberView, PairView

NOW = 1_000_000_000
FACTS = {"data_state": "IN_SYNC", "link_state": "PAIRED", "epoch": 2, "log_index": 9}
ZERO = {"durable_index": 9, "commit_index": 9, "applied_index": 9, "digest": "", "state_digest": ""}


def member(name: str, role: str = "", *, in_sync: str = "a,b", **fields: Any) -> MemberView:
    own = {key: fields.pop(key) for key in ("maintenance", "waiting_event_id", "automation_paused") if key in fields}
    if not role:
        return MemberView(name=name, endpoint=f"{name}:1")
    domain = DomainView(name="main", role=role, in_sync_set=tuple(in_sync.split(",")), **FACTS, **ZERO, **fields)
    return MemberView(name=name, endpoint=f"{name}:1", reachable=True, domains=(domain,), **own)


def view(*members: MemberView) -> PairView:
    return PairView(pair="pair", members=members)


class Log:
    """Events of one or two members, a second apart, the last one five seconds before now."""

    def __init__(self) -> None:
        self.events: list[Happening] = []

    def add(self, name: str, kind: str, text: str = "", domain: str = "main", epoch: int = 2, **facts: str) -> Log:
        number = sum(event.member == name for event in self.events) + 1
        time_ms = NOW - 60_000 + 1_000 * len(self.events)
        self.events.append(
            Happening(
                number=number,
                time_ms=time_ms,
                member=name,
                kind=kind,
                domain=domain,
                epoch=epoch,
                text=text,
                facts=facts,
            )
        )
        return self

    def role(self, name: str, before: str, to: str, reason: str, epoch: int = 2) -> Log:
        return self.add(name, "ROLE", epoch=epoch, **{"from": before, "to": to, "reason": reason})

    def lost(self, name: str, text: str) -> Log:
        return self.add(name, "LINK", text, domain="")

    def committed(self, name: str, epoch: int = 2) -> Log:
        return self.add(name, "AUTHORITY", epoch=epoch, step="commit", outcome="done")


def text_of(log: Log, seen: PairView) -> str:
    """Without the time, which depends on where the test runs."""
    text = explain(log.events, seen, "main", NOW).text
    return text.split(") ", 1)[1] if text.startswith("At ") else text


REFUSED = "a counts as lost: its port refuses connections"
B_ALONE = view(member("a"), member("b", "MASTER", in_sync="b"))
BOTH = view(member("a", "MASTER"), member("b", "REPLICA"))
B_FIRST = view(member("a", "REPLICA"), member("b", "MASTER"))
AWAY = "a is lost and the witness cannot be reached: bring a back, or make sure that it is down and run X"


def takeover() -> Log:
    log = Log().role("b", "PROBE", "REPLICA", "follows epoch 1", 1)
    log.role("b", "REPLICA", "PROBE", "the connection to the master was lost", 1).lost("b", REFUSED)
    log.add("b", "VERDICT", verdict="ASSUME_MASTERSHIP", by="authority", effect="claim", why="the register decides")
    return log.committed("b").role("b", "PROBE", "MASTER", "the peer is lost and this member holds everything")


def suspended_replica() -> Log:
    log = Log().role("b", "REPLICA", "PROBE", "the connection to the master was lost", 1).lost("b", REFUSED)
    why = "the peer is lost and the authority cannot be asked: nobody may go on alone. Bring one of them back"
    return log.add("b", "VERDICT", verdict="ASSUME_MASTERSHIP", by="authority", effect="wait", why=why)


def decided() -> Log:
    log = suspended_replica()
    log.add("b", "VERDICT", verdict="ASSUME_MASTERSHIP", by="operator", effect="claim", why="I saw it burn")
    return log.role("b", "PROBE", "MASTER", "operator: I saw it burn", 2)


def handed_over() -> Log:
    log = Log().add("b", "HANDOFF", "handoff: ceded to us", reason="kernel update", state="TAKING")
    log.committed("b").role("b", "REPLICA", "MASTER", "a handoff")
    return log.add("a", "OPERATOR", order="handoff", by="ipv4:10.0.0.9:5", outcome="b is master")


@pytest.mark.parametrize(
    ("log", "seen", "text"),
    [
        (Log(), BOTH, "Nothing has changed in main as far as is known. Now a serves with two copies. Nothing to do."),
        (
            takeover(),
            B_ALONE,
            (
                "b became master in epoch 2, because a counts as lost: its port refuses connections. The register "
                "agreed and holds epoch 2. Now b serves alone, with one copy. To do: start a."
            ),
        ),
        (
            takeover(),
            B_FIRST,
            (
                "b became master in epoch 2, because a counts as lost: its port refuses connections. The register "
                "agreed and holds epoch 2. Now b serves with two copies. Nothing to do."
            ),
        ),
        (
            suspended_replica(),
            view(member("a"), member("b", "PROBE", advice=AWAY)),
            (
                "b stopped serving main, because a counts as lost: its port refuses connections. No decision was "
                "taken: the peer is lost and the authority cannot be asked: nobody may go on alone. Now nobody serves "
                f"(b is PROBE). To do: {AWAY}."
            ),
        ),
        (
            decided(),
            B_ALONE,
            (
                "b became master in epoch 2, because a counts as lost: its port refuses connections. An operator "
                "decided it: I saw it burn. Now b serves alone, with one copy. To do: start a."
            ),
        ),
        (
            handed_over(),
            B_FIRST,
            (
                "b became master in epoch 2, by a handoff (kernel update). An operator at ipv4:10.0.0.9:5 asked for "
                "it. The register agreed and holds epoch 2. Now b serves with two copies. Nothing to do."
            ),
        ),
        (
            Log().role("b", "PROBE", "MASTER", "forced: a burnt down", 3),
            B_ALONE,
            (
                "b became master in epoch 3, by an operator's force. An operator forced it: a burnt down. Now b serves "
                "alone, with one copy. To do: start a."
            ),
        ),
        (
            Log().role("b", "REPLICA", "DIVERGED", "both members owned epoch 2"),
            view(member("a", "MASTER", in_sync="a"), member("b", "DIVERGED", advice="resolve it")),
            (
                "b found that it and a have different histories: both members owned epoch 2. Now a serves alone, with "
                "one copy. To do: resolve it."
            ),
        ),
        (
            Log()
            .add("a", "OPERATOR", "an operator at x ordered maintenance on", domain="")
            .role("b", "REPLICA", "MAINTENANCE", "in maintenance: disk"),
            view(member("a", "MASTER", in_sync="a"), member("b", "MAINTENANCE", maintenance=True)),
            (
                "b was taken out of the pair: in maintenance: disk. Now a serves alone, with one copy. To do: `tandemq "
                "pair maintenance off --member b` when the work is done."
            ),
        ),
        (
            takeover(),
            view(member("a", "MASTER"), member("b", "MASTER")),
            (
                "b became master in epoch 2, because a counts as lost: its port refuses connections. The register "
                "agreed and holds epoch 2. Now a and b both say that they are master. To do: look at both now."
            ),
        ),
        (
            takeover(),
            view(member("a", "REPLICA", in_sync="b"), member("b", "MASTER", in_sync="b", peer_backlog=1_234)),
            (
                "b became master in epoch 2, because a counts as lost: its port refuses connections. The register "
                "agreed and holds epoch 2. Now b serves with one copy, a is catching up (1,234 behind). Nothing to do."
            ),
        ),
    ],
)
def test_the_last_change_in_words(log: Log, seen: PairView, text: str) -> None:
    assert text_of(log, seen) == text


@pytest.mark.parametrize(
    ("authority", "said"),
    [
        ("witness", "The witness agreed and holds epoch 2."),
        ("etcd", "The etcd agreed and holds epoch 2."),
        ("none", ""),
    ],
)
def test_who_keeps_the_register_is_named_and_the_members_own_is_not(authority: str, said: str) -> None:
    seen = view(*(structs.replace(each, authority=authority) for each in B_FIRST.members))
    assert explain(takeover().events, seen, "main", NOW).who == said


def test_a_classifier_is_named_with_what_it_said() -> None:
    log = Log().role("a", "REPLICA", "MASTER", "formed", 1).lost("a", "b counts as lost: a stream was closed")
    log.add("a", "VERDICT", verdict="CONTINUE_AS_MASTER", by="alt-path", effect="claim", why="no target sees b")
    log.role("a", "MASTER", "MASTER_SUSPENDED", "the peer is lost").committed("a")
    log.role("a", "MASTER_SUSPENDED", "MASTER", "the peer is lost")
    assert text_of(log, view(member("a", "MASTER", in_sync="a"), member("b"))) == (
        "a went on alone as master in epoch 2, because b counts as lost: a stream was closed. Classifier alt-path said "
        "continue as master: no target sees b. The register agreed and holds epoch 2. Now a serves alone, with one "
        "copy. To do: start b."
    )


def test_what_happened_long_before_is_no_cause() -> None:
    log = takeover()
    late = log.events[-1].time_ms + 10 * BEFORE_MS
    last = Happening(
        number=99, time_ms=late, member="b", kind="ROLE", domain="main", epoch=5,
        facts={"from": "PROBE", "to": "MASTER", "reason": "the register named it"},
    )  # fmt: skip
    story = explain([*log.events, last], B_FIRST, "main", late + 1)
    assert story.what == "b became master in epoch 5, because the register named it"


def test_events_of_another_domain_do_not_count() -> None:
    log = takeover()
    other = [Happening(**{**{f: getattr(e, f) for f in e.__struct_fields__}, "domain": "audit"}) for e in log.events]
    assert text_of(log, BOTH) != "" and explain(other, BOTH, "main", NOW).event is None  # noqa: PT018


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s ago"), (119_000, "119 s ago"), (120_000, "2 min ago"), (7_200_000, "2 h ago"), (10**9, "11 d ago")],
)
def test_how_long_ago(ms: int, text: str) -> None:
    assert ago(ms) == text


def test_a_verdict_about_another_loss_did_not_decide_this_change() -> None:
    log = decided()
    log.add("b", "OPERATOR", "an operator ordered decide", domain="", order="decide ASSUME_MASTERSHIP", reason="burnt")
    log.lost("b", "connected to a").role("b", "MASTER", "CEDING", "handoff: ceded", 2).role(
        "b", "CEDING", "REPLICA", "", 2
    )
    log.add("b", "HANDOFF", "handoff: ceded to us", reason="handoff: ceded to us", state="TAKING")
    log.role("b", "PROBE", "MASTER", "a handed over", 4)
    assert text_of(log, B_FIRST) == (
        "b became master in epoch 4, by a handoff (ceded to us). Now b serves with two copies. Nothing to do."
    )
    again = decided().lost("b", "connected to a").lost("b", REFUSED)
    again.role("b", "REPLICA", "MASTER", "the peer is lost", 5)
    assert "I saw it burn" not in text_of(again, B_ALONE)


def test_a_verdict_that_let_nobody_claim_did_not_decide_who_became_master() -> None:
    log = suspended_replica().role("b", "PROBE", "MASTER", "the peer is lost and this member holds everything")
    assert explain(log.events, B_ALONE, "main", NOW).who == ""
    log = suspended_replica()
    log.add("b", "VERDICT", verdict="ASSUME_MASTERSHIP", by="operator", effect="refuse", why="mixed up")
    log.role("b", "PROBE", "MASTER", "the peer is lost")
    assert "mixed up" not in explain(log.events, B_ALONE, "main", NOW).text


def test_an_epoch_that_is_recorded_later_is_no_new_decision() -> None:
    log = decided().committed("b", 3)
    log.role("b", "MASTER", "MASTER", "recorded what was decided without the register", 3)
    seen = view(*(structs.replace(each, authority="witness") for each in B_FIRST.members))
    assert text_of(log, seen) == (
        "b recorded epoch 3 in the register; it was master already, without the register's word. The witness holds "
        "epoch 3. Now b serves with two copies. Nothing to do."
    )


def test_a_pause_is_something_to_do() -> None:
    seen = view(member("a", "MASTER", automation_paused=True), member("b", "REPLICA", automation_paused=True))
    assert explain([], seen, "main", NOW).do == (
        "automation is paused at a and b: `tandemq pair resume` when that is over"
    )
