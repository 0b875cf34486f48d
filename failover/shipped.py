"""Makes the classifier that a configuration names: a shipped one, else one from an entry point; it never calls it.

Each one's module is loaded when it is the one in force: a member needs one of them, at most those of `combine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from failover.classifier import AuthorityClassifier, Classifier, Suspend
from tandemq.config import ConfigError, ManagerConfig


def _command(config: ManagerConfig) -> Classifier:
    from failover.command import Command

    return Command(config.failover.command)


def _alt_path(config: ManagerConfig) -> Classifier:
    from failover.alt_path import AltPath

    failover = config.failover
    return AltPath(
        failover.probe_address,
        failover.probe_targets,
        bias_s=failover.probe_bias_ms / 1000,
        http=failover.probe_http,
    )


def _peer_outdate(config: ManagerConfig) -> Classifier:
    from failover.peer_outdate import PeerOutdate

    endpoint, bias_s = config.failover.outdate_endpoint, config.failover.probe_bias_ms / 1000
    if not config.security.credentials:
        return PeerOutdate(endpoint, bias_s=bias_s)
    from tandemq.channels import expecting
    from tandemq.credentials import names
    from tandemq.credentials.chosen import opener_of

    named = expecting(names.dns(names.member(config.pair, config.peer_member)))
    return PeerOutdate(endpoint, bias_s=bias_s, opener=opener_of(config.security.credentials), named=named)


def _combine(config: ManagerConfig) -> Classifier:
    from failover.combine import Combine

    return Combine([make(config, name) for name in config.failover.members], config.failover.rule)


def _operator(config: ManagerConfig) -> Classifier:
    from failover.operator import OperatorAlert

    return OperatorAlert(config.endpoint)


# What each shipped name makes. Called once for each runner; a builder that needs another classifier calls `make`.
BUILDERS: Mapping[str, Callable[[ManagerConfig], Classifier]] = MappingProxyType(
    {
        "witness": lambda _config: AuthorityClassifier("witness"),
        "etcd": lambda _config: AuthorityClassifier("etcd"),
        "suspend": lambda _config: Suspend(),
        "command": _command,
        "alt-path": _alt_path,
        "peer-outdate": _peer_outdate,
        "combine": _combine,
        "operator": _operator,
    }
)


def name_of(config: ManagerConfig) -> str:
    """The name in force: the one given, else the authority's, else suspend."""
    if config.failover.classifier:
        return config.failover.classifier
    return config.authority if config.authority != "none" else "suspend"


def make(config: ManagerConfig, name: str = "") -> Classifier:
    """The classifier called `name`; without a name the one in force. Raises ConfigError when there is none such."""
    name = name or name_of(config)
    if (builder := BUILDERS.get(name)) is not None:
        return builder(config)
    from failover.entry_points import BadClassifierError, load

    try:
        return load(name)
    except BadClassifierError as error:
        raise ConfigError(
            f"failover.classifier = {name!r}: {error}; shipped ones: {', '.join(sorted(BUILDERS))}"
        ) from error
