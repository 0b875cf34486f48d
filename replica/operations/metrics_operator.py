"""Metrics of what an operator watches: changes of role, verdicts, handoffs, time without redundancy; counted from the
events, read at each scrape.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from failover.classifier import Verdict
from failover.gate import Consequence
from failover.marks import Role
from replica.machine.state.kept_quotas import KeptQuota

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric

    from replica.node.members import Members
    from replica.node.quotas import Quotas
    from replica.operations.certificates import Certificates
    from replica.operations.operator import Operator
    from replica.tokens.believed_keys import BelievedKeys

RULED = MappingProxyType(
    {(verdict, effect.value): 0 for verdict in (*(each.name for each in Verdict), "none") for effect in Consequence}
)
"""Every verdict and what may become of it: there from the start, so that an alert sees the first one."""


class OperatorMetrics:
    """A collector beside `Metrics`."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def collect(self) -> Iterable[Metric]:
        """Called at each scrape."""
        operator = self.operator
        paired = operator.members.node.paired()
        taken = {
            (domain.shared.name, role.name): 0 for domain in paired for role in Role
        } | operator.reports.transitions
        verdicts = RULED | operator.reports.verdicts if paired else operator.reports.verdicts
        yield _counted("tandemq_transitions", "Roles taken since the start.", ["domain", "role"], taken)
        yield _counted("tandemq_verdicts", "What became of verdicts.", ["verdict", "effect"], verdicts)
        yield _counted(
            "tandemq_handoffs", "Handoffs that ended here.", ["domain", "outcome"], operator.reports.handoffs
        )
        alone = CounterMetricFamily(
            "tandemq_without_redundancy_seconds", "Time served with one copy.", labels=["domain"]
        )
        for name, seconds in ({domain.shared.name: 0.0 for domain in paired} | operator.alone_s).items():
            alone.add_metric([name], seconds)
        yield alone
        yield from self._gauges()

    def _gauges(self) -> Iterable[Metric]:
        operator, labels = self.operator, ["domain"]
        diverged = GaugeMetricFamily("tandemq_divergence", "1: two histories, an operator must choose.", labels=labels)
        behind = GaugeMetricFamily("tandemq_peer_backlog", "Operations that the peer lacks.", labels=labels)
        size = GaugeMetricFamily("tandemq_peer_backlog_bytes", "Bytes of log that the peer lacks.", labels=labels)
        lag = GaugeMetricFamily("tandemq_peer_lag_seconds", "Age of the oldest of them.", labels=labels)
        damaged = GaugeMetricFamily("tandemq_damaged_records", "Given to nobody by this master.", labels=labels)
        for name, domain in operator.members.by_name.copy().items():
            damaged.add_metric([name], len(domain.shared.damaged))
            if not domain.shared.peer:
                continue
            diverged.add_metric([name], float(domain.shared.role is Role.DIVERGED))
            found = operator.behind(domain)
            behind.add_metric([name], found.operations)
            size.add_metric([name], found.log_bytes)
            lag.add_metric([name], found.ms / 1000)
        yield from (diverged, behind, size, lag, damaged)
        if operator.config.authority != "none":  # else there is nobody to be reached, which an alert took for a failure
            reachable = float(operator.authority_reachable())
            yield GaugeMetricFamily("tandemq_authority_reachable", "1: the register can be asked.", value=reachable)
        yield GaugeMetricFamily(
            "tandemq_insecure_network",
            "1: in clear text, and for whoever reaches its ports.",
            value=float(operator.config.insecure_network),
        )
        paused = float(operator.judge.paused) if operator.judge is not None else 0.0
        yield GaugeMetricFamily("tandemq_automation_paused", "1: an operator has paused it.", value=paused)
        yield GaugeMetricFamily("tandemq_maintenance", "1: an operator took it out.", value=float(operator.maintenance))
        yield from _credentials(operator.certificates)
        lost = operator.audit.lost if operator.audit is not None else 0
        yield CounterMetricFamily("tandemq_audit_lines_lost", "Lines that could not be written.", value=lost)
        yield from _quotas(operator.quotas, operator.members.node.limits.kept_quotas.refused)
        yield _kept(operator.members)
        yield from _token_keys(operator.token_keys)
        yield CounterMetricFamily(
            "tandemq_events_lost", "Events that could not be written.", value=operator.reports.events.lost
        )


def _credentials(own: Certificates | None) -> Iterable[Metric]:
    """Without a value where connections are plain."""
    ends = GaugeMetricFamily("tandemq_certificate_ends_seconds", "When the own certificate ends, of Unix.", labels=())
    refused = GaugeMetricFamily("tandemq_credentials_refused", "1: unusable files, older ones stay.", labels=())
    exchanged = CounterMetricFamily("tandemq_credentials_exchanged", "Times that others came in force.", labels=())
    if own is not None:
        ends.add_metric([], own.ends_s)
        refused.add_metric([], float(own.refused))
        exchanged.add_metric([], own.exchanged)
    yield from (ends, refused, exchanged)


def _quotas(own: Quotas | None, kept: Mapping[str, int]) -> Iterable[Metric]:
    """Without a value where nobody has one. `kept`: refusals of what is kept, at the master."""
    refused = CounterMetricFamily("tandemq_quota_refusals", "Calls and streams over a quota.", labels=["quota"])
    paced = CounterMetricFamily("tandemq_quota_waits", "Batches that waited for a quota.", labels=["quota"])
    if own is not None:
        for family, counts in ((refused, own.refused), (paced, own.paced)):
            for kind, count in counts.copy().items():
                family.add_metric([kind], count + (kept.get(kind, 0) if family is refused else 0))
    yield from (refused, paced)


def _kept(members: Members) -> Metric:
    """Of principals that have a quota by their names."""
    kept = GaugeMetricFamily(
        "tandemq_quota_kept",
        "What a principal with a quota of its own keeps: queues, bytes in them, clients remembered as senders.",
        labels=["domain", "principal", "quota"],
    )
    for name, domain in members.by_name.items():
        machine = domain.shared.machine
        for who in members.node.limits.kept_quotas.by_owner if machine is not None else ():
            owned = machine.state.owners.by_name.get(who) if machine is not None else None
            counts = (owned.queues, owned.bytes, len(owned.identities)) if owned is not None else (0, 0, 0)
            for kind, count in zip(KeptQuota._fields, counts, strict=True):
                kept.add_metric([name, who, kind], count)
    return kept


def _token_keys(own: BelievedKeys | None) -> Iterable[Metric]:
    """Without a value where no port takes tokens."""
    keys = GaugeMetricFamily("tandemq_token_keys", "Keys by which tokens are believed; 0: none yet.", labels=())
    refused = GaugeMetricFamily("tandemq_token_keys_refused", "1: unusable keys, older ones stay.", labels=())
    if own is not None:
        keys.add_metric([], len(own.keys))
        refused.add_metric([], float(bool(own.refused)))
    yield from (keys, refused)


def _counted(name: str, text: str, labels: list[str], counts: dict[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, count in counts.copy().items():
        family.add_metric([part.lower() for part in key], count)
    return family
