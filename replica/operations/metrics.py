"""Names, labels and help of every metric, read from the cores when somebody asks; nothing is counted twice for it.

What an alert watches for its first event is there with 0 from the start: a counter born with 1 has not increased.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from failover.marks import Role
from failover.runner import SAID
from replica.operations.metrics_queues import queue_metrics
from tandemq.ambient import monotonic_ms
from tandemq.v1.macro_service_pb2 import FarState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric

    from replica.node.members import Members
    from replica.peer.judge import Judge
    from replica.peer.verify import Verifier

ROLES = tuple(Role)


class Metrics:
    """A collector over one member. Reads plain attributes: safe from another thread, exact to the moment."""

    def __init__(
        self,
        members: Members,
        judge: Judge | None = None,
        verifier: Verifier | None = None,
        custom_reactions: Mapping[tuple[str, str], int] = MappingProxyType({}),
    ) -> None:
        """`custom_reactions`: by name and by what was said, answers about messages."""
        self.members, self.judge, self.verifier = members, judge, verifier
        self.custom_reactions = custom_reactions

    def collect(self) -> Iterable[Metric]:
        """Called at each scrape."""
        yield from self._domains()
        yield from queue_metrics(self.members)
        if self.judge is not None:
            yield from _classifier(self.judge)
        if self.verifier is not None:
            yield from _comparisons(self.verifier)
        if self.custom_reactions:
            yield _customs(dict(self.custom_reactions))  # a copy in one step: the loop may be counting
        node = self.members.node
        usage = node.store.usage()
        yield GaugeMetricFamily("tandemq_store_used_bytes", "Live bytes in the store.", value=usage.used_bytes)
        yield GaugeMetricFamily("tandemq_store_map_bytes", "Bytes that the store may have.", value=usage.map_bytes)
        yield CounterMetricFamily("tandemq_commits", "Group commits.", value=node.commits)
        yield CounterMetricFamily("tandemq_commit_seconds", "Time spent in group commits.", value=node.commit_seconds)
        began = node.write_began_ms
        stall = (monotonic_ms() - began) / 1000 if began else 0
        yield GaugeMetricFamily("tandemq_commit_under_way_seconds", "Age of the commit that is under way.", value=stall)

    def _domains(self) -> Iterable[Metric]:
        labels = ["domain"]
        epoch = GaugeMetricFamily("tandemq_epoch", "Epoch in force.", labels=labels)
        role = GaugeMetricFamily("tandemq_role", "1 for the role that the member has.", labels=["domain", "role"])
        last = GaugeMetricFamily("tandemq_log_index", "Last ordered log index.", labels=labels)
        commit = GaugeMetricFamily("tandemq_commit_index", "Committed log index.", labels=labels)
        copies = GaugeMetricFamily("tandemq_copies", "Members that hold what is acknowledged.", labels=labels)
        parked = GaugeMetricFamily("tandemq_parked_calls", "Calls that are parked or held.", labels=labels)
        denied = CounterMetricFamily(
            "tandemq_reactions_denied", "Messages that kept reactions had no right to act on.", labels=labels
        )
        chosen = CounterMetricFamily(
            "tandemq_macro_choices",
            "Batches to macro queues, by why their members were chosen.",
            labels=["domain", "policy", "reason"],
        )
        differed = CounterMetricFamily(
            "tandemq_divergences",
            "What one of two who do the same sent second, and not as the other one: units of outputs, or answers.",
            labels=["domain", "between"],
        )
        for name, domain in self.members.by_name.items():
            for between, count in domain.orders.divergences.counts.items():
                differed.add_metric([name, between.value], count)
            for (policy, reason), count in dict(domain.orders.steering.by_policy).items():
                chosen.add_metric([name, policy, reason], count)
            denied.add_metric([name], domain.kept.rights.denied)
            shared = domain.shared
            epoch.add_metric([name], shared.state.epoch)
            for each in ROLES:
                role.add_metric([name, each.name.lower()], float(shared.role is each))
            last.add_metric([name], shared.log.last_index)
            commit.add_metric([name], shared.progress.commit_index)
            copies.add_metric([name], domain.mastership.commit.copies)
            parked.add_metric([name], len(domain.holding))
        return [epoch, role, last, commit, copies, parked, denied, chosen, differed, *_far_members(self.members)]


def _far_members(members: Members) -> list[Metric]:
    far = CounterMetricFamily(
        "tandemq_macro_far_messages",
        "Messages of queues of other managers that macro queues here took, by what became of them.",
        labels=["domain", "outcome"],
    )
    standing = GaugeMetricFamily(
        "tandemq_macro_far_members",
        "Members of macro queues at other managers, by how they stand at their serving master.",
        labels=["domain", "state"],
    )
    for name, domain in members.by_name.items():
        heads = domain.consumers.fan_in.far
        for outcome, count in dict(heads.totals).items():
            far.add_metric([name, outcome], count)
        for state, count in heads.states().items():
            shown = FarState.Name(state).removeprefix("FAR_STATE_") if state else "IDLE"
            standing.add_metric([name, shown], count)
    return [far, standing]


def _classifier(judge: Judge) -> list[Metric]:
    calls = CounterMetricFamily(
        "tandemq_classifier_calls", "Calls of the classifier, by what they gave.", labels=["classifier", "verdict"]
    )
    last_s = GaugeMetricFamily(
        "tandemq_classifier_last_call_seconds", "How long the last call took.", labels=["classifier"]
    )
    counts: Counter[str] = Counter(dict.fromkeys(SAID, 0))
    for runner in judge.runners.values():
        counts.update(dict(runner.calls))  # a copy in one step: the loop may be counting
    for verdict, count in counts.items():
        calls.add_metric([judge.name, verdict], count)
    last_s.add_metric([judge.name], max(runner.last_ms for runner in judge.runners.values()) / 1000)
    journals = {runner.journal for runner in judge.runners.values() if runner.journal is not None}
    lost = CounterMetricFamily(
        "tandemq_classifier_journal_lost",
        "Lines of the classifier journal that could not be written.",
        value=sum(journal.lost_count for journal in journals),
    )
    return [calls, last_s, lost]


def _customs(counts: Mapping[tuple[str, str], int]) -> Metric:
    said = CounterMetricFamily(
        "tandemq_custom_reactions",
        "Messages that custom reactions were asked about, by what they said.",
        labels=["name", "answer"],
    )
    for labels, count in counts.items():
        said.add_metric(labels, count)
    return said


def _comparisons(verifier: Verifier) -> Iterable[Metric]:
    counts = verifier.counts
    yield CounterMetricFamily("tandemq_verify_ranges", "Ranges compared as master.", value=counts.ranges)
    runs = CounterMetricFamily("tandemq_verify_runs", "Comparisons of both copies that ended.", labels=["domain"])
    wrong = CounterMetricFamily("tandemq_verify_differences", "Comparisons that found one.", labels=["domain"])
    for name in [domain.shared.name for domain in verifier.node.paired()]:
        runs.add_metric([name], counts.runs.get(name, 0))
        wrong.add_metric([name], counts.differences.get(name, 0))
    yield from (runs, wrong)
