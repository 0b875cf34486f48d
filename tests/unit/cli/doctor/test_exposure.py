"""What the doctor says of ports that strangers reach in clear text."""

from __future__ import annotations

from tandemq.cli.doctor.finding import Level
from tandemq.cli.doctor.local import exposure
from tandemq.config import ManagerConfig
from tandemq.config_security import Security

FAR = "10.0.0.1:7600"
CERTIFICATES = Security(credentials="/etc/tandemq/a", administrators=("ops",))


def config(security: Security | None = None, **ports: str) -> ManagerConfig:
    return ManagerConfig(member="a", data_dir="/d", security=security or Security(), insecure_network=True, **ports)


def test_a_plain_port_beyond_this_machine_is_a_warning() -> None:
    assert exposure(config(), "a").level is Level.OK
    found = exposure(config(listen_client=FAR), "a")
    assert (found.level, found.facts) == (Level.WARN, {"listen_client": FAR})
    assert exposure(config(CERTIFICATES, listen_client=FAR), "a").level is Level.OK
    assert exposure(config(CERTIFICATES, listen_http=FAR), "a").facts == {"listen_http": FAR}
    assert exposure(config(listen_peer=FAR), "a").level is Level.OK  # without a peer there is no such port
