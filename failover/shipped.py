"""Makes the classifier that a configuration names: a shipped one, else one from an entry point; it never calls it."""

from __future__ import annotations

from collections.abc import Callable

from failover.alt_path import AltPath
from failover.classifier import AuthorityClassifier, Classifier, Suspend
from failover.combine import Combine
from failover.command import Command
from failover.entry_points import BadClassifierError, load
from failover.operator import OperatorAlert
from failover.peer_outdate import PeerOutdate
from tandemq.config import ConfigError, ManagerConfig

# What each shipped name makes. Called once for each runner; a builder that needs another classifier calls `make`.
BUILDERS: dict[str, Callable[[ManagerConfig], Classifier]] = {
    "witness": lambda _config: AuthorityClassifier("witness"),
    "etcd": lambda _config: AuthorityClassifier("etcd"),
    "suspend": lambda _config: Suspend(),
    "command": lambda config: Command(config.failover.command),
    "alt-path": lambda config: AltPath(
        config.failover.probe_address,
        config.failover.probe_targets,
        bias_s=config.failover.probe_bias_ms / 1000,
        http=config.failover.probe_http,
    ),
    "peer-outdate": lambda config: PeerOutdate(
        config.failover.outdate_endpoint, bias_s=config.failover.probe_bias_ms / 1000
    ),
    "combine": lambda config: Combine([make(config, name) for name in config.failover.members], config.failover.rule),
    "operator": lambda config: OperatorAlert(config.endpoint),
}


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
    try:
        return load(name)
    except BadClassifierError as error:
        raise ConfigError(
            f"failover.classifier = {name!r}: {error}; shipped ones: {', '.join(sorted(BUILDERS))}"
        ) from error
