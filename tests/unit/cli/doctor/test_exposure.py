"""What the doctor says of ports that strangers reach in clear text."""

from __future__ import annotations

from typing import Any

from tandemq.cli.doctor.finding import Level
from tandemq.cli.doctor.local import exposure
from tandemq.config import ManagerConfig
from tandemq.config_security import Security

FAR = "10.0.0.1:7600"
CERTIFICATES = Security(credentials="/etc/tandemq/a", administrators=("ops",))


def config(security: Security | None = None, **ports: Any) -> ManagerConfig:
    values = {"insecure_network": True, **ports}
    return ManagerConfig(member="a", data_dir="/d", security=security or Security(), **values)


def test_a_plain_port_beyond_this_machine_is_a_warning() -> None:
    assert exposure(ManagerConfig(member="a", data_dir="/d"), "a").level is Level.OK
    assert exposure(config(), "a").level is Level.WARN  # set, and of no use
    found = exposure(config(listen_client=FAR), "a")
    assert (found.level, found.facts) == (Level.WARN, {"listen_client": FAR})
    secured = config(CERTIFICATES, listen_client=FAR, listen_http=FAR, insecure_network=False)
    assert exposure(secured, "a").level is Level.OK
    assert exposure(config(listen_peer=FAR), "a").facts == {}  # without a peer there is no such port
