"""What a configuration makes: every shipped name is a classifier of that name, every authority an authority."""

from __future__ import annotations

import msgspec
import pytest

from failover import authorities, shipped
from failover.alt_path import AltPath
from failover.authority import WitnessAuthority
from failover.classifier import SafetyClass
from failover.combine import Combine
from failover.etcd import EtcdAuthority
from failover.local_authority import LocalAuthority
from failover.peer_outdate import PeerOutdate
from tandemq.config import CLASSIFIERS, Etcd, Failover, ManagerConfig, check

FULL = Failover(
    command=("/bin/false",),
    members=("alt-path", "peer-outdate"),
    rule="any",
    probe_address="192.0.2.2:7600",
    probe_targets=("192.0.2.9:22", "192.0.2.8:53"),
    probe_http=True,
    probe_bias_ms=1500,
    outdate_endpoint="192.0.2.2:7600",
)
CONFIG = ManagerConfig(
    member="a",
    data_dir="d",
    pair="orders",
    peer_member="b",
    peer_address="127.0.0.1:7611",
    peer_endpoint="127.0.0.1:7610",
    witness="127.0.0.1:7620",
    failover=FULL,
)
WITH_ETCD = msgspec.structs.replace(CONFIG, witness="", etcd=Etcd(endpoints=("127.0.0.1:2379",), prefix="/x/"))
CLASSES = {"witness": "A", "etcd": "A", "suspend": "A", "peer-outdate": "A", "alt-path": "B", "combine": "B"}


def test_the_configuration_and_the_registry_know_the_same_names() -> None:
    assert set(CLASSIFIERS) == set(shipped.BUILDERS)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_shipped_name_makes_a_classifier_with_its_safety_class(name: str) -> None:
    config = WITH_ETCD if name == "etcd" else CONFIG
    config = msgspec.structs.replace(config, failover=msgspec.structs.replace(FULL, classifier=name))
    check(config)
    made = shipped.make(config)
    assert made.name == name
    assert made.safety is SafetyClass(CLASSES.get(name, "C"))


def test_what_is_configured_arrives() -> None:
    path, outdate, both = (shipped.make(CONFIG, name) for name in ("alt-path", "peer-outdate", "combine"))
    assert isinstance(path, AltPath)
    assert (path.address, path.references, path.bias_s, path.http) == (
        FULL.probe_address,
        FULL.probe_targets,
        1.5,
        True,
    )
    assert isinstance(outdate, PeerOutdate)
    assert (outdate.endpoint, outdate.bias_s) == (FULL.outdate_endpoint, 1.5)
    assert isinstance(both, Combine)
    assert ([each.name for each in both.members], both.rule) == (["alt-path", "peer-outdate"], "any")


def test_the_authority_that_is_named_is_made() -> None:
    etcd, witness = authorities.make(WITH_ETCD), authorities.make(CONFIG)
    assert isinstance(etcd, EtcdAuthority)
    assert (etcd.endpoints, etcd.prefix, etcd.pair, etcd.member) == (("127.0.0.1:2379",), "/x/", "orders", "a")
    assert isinstance(witness, WitnessAuthority)
    assert isinstance(authorities.make(msgspec.structs.replace(CONFIG, witness="")), LocalAuthority)


@pytest.mark.parametrize(
    ("config", "given", "name"),
    [
        (CONFIG, "", "witness"),
        (WITH_ETCD, "", "etcd"),
        (msgspec.structs.replace(CONFIG, witness=""), "", "suspend"),
        (CONFIG, "command", "command"),
        (msgspec.structs.replace(CONFIG, witness=""), "command", "command"),
    ],
)
def test_the_name_in_force_is_the_one_given_else_the_authoritys_else_suspend(
    config: ManagerConfig, given: str, name: str
) -> None:
    config = msgspec.structs.replace(config, failover=msgspec.structs.replace(FULL, classifier=given))
    assert shipped.name_of(config) == name
    assert shipped.make(config).name == name
