"""Decides which ports of a manager other machines reach in clear text; `config.check_exposure` refuses them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tandemq.config import parse_address

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig

log = logging.getLogger("tandemq.exposed")


def plain_ports(config: ManagerConfig) -> dict[str, str]:
    """host:port by setting, of those that talk in clear text to whoever reaches them, and ask nobody who he is. Empty:
    there is none, or everybody shows a certificate.
    """
    if config.security.credentials:
        return {}
    ports = {
        "listen_client": config.listen_client,
        "listen_peer": config.listen_peer if config.pair else "",
        "listen_http": config.listen_http,
    }
    return {name: value for name, value in ports.items() if value and is_exposed(value)}


def is_exposed(address: str) -> bool:
    """Whether other machines reach what listens there."""
    return not parse_address(address, "address").loopback


def warn(address: str) -> None:
    """Of one such port, at the start of whoever listens there."""
    log.warning(
        "INSECURE: %s talks in clear text, and whoever reaches it may do everything (insecure_network, which goes away "
        "with the next release); give certificates, see docs/SECURITY.md",
        address,
    )
