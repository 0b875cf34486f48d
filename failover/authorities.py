"""Makes the keeper of the register that a configuration names; it never calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.authority import Authority, WitnessAuthority
from failover.local_authority import LocalAuthority
from tandemq.channels import Open, open_channel

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig


def make(config: ManagerConfig, opener: Open = open_channel) -> Authority:
    """The authority of a paired manager; `opener` connects to a witness. A further kind is one more case here and an
    `Authority` of its own.
    """
    if config.authority == "none":
        return LocalAuthority(config.member)
    if config.authority == "etcd":
        from failover.etcd import EtcdAuthority  # with the classes of its protocol, which most pairs never use

        to_etcd = _opener_to_etcd(config.etcd.credentials)
        return EtcdAuthority(config.etcd.endpoints, config.etcd.prefix, config.pair, config.member, opener=to_etcd)
    witness = config.security.witness
    return WitnessAuthority(config.witness, config.pair, config.member, opener=opener, name=witness)


def _opener_to_etcd(directory: str) -> Open:
    """With the credentials for etcd, whose authority need not be that of the pair. Raises ConfigError."""
    if not directory:
        return open_channel
    from tandemq.config import ConfigError
    from tandemq.credentials.bad import BadCredentials
    from tandemq.credentials.chosen import opener_of

    try:
        return opener_of(directory)
    except BadCredentials as error:
        raise ConfigError(f"etcd.credentials = {directory!r}: {error}") from error
