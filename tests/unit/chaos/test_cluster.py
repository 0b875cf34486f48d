"""How a cluster lays out its members, and which views count as whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from chaos.cluster import WITNESS, Cluster
from tandemq.cli.view import DomainView, MemberView, PairView
from tandemq.config import load


def test_the_members_configurations_belong_together(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, base_port=23000, pair="orders")
    a, b = cluster.config("a"), cluster.config("b")
    assert (a.peer_member, a.peer_address, a.peer_endpoint) == ("b", b.listen_peer, b.listen_client)
    assert (b.peer_member, b.peer_address, b.peer_endpoint) == ("a", a.listen_peer, a.listen_client)
    assert a.pair == b.pair == "orders"
    assert a.witness == b.witness == "127.0.0.1:23020"
    assert cluster.target == "127.0.0.1:23000,127.0.0.1:23010"


def test_a_pair_may_be_where_other_machines_reach_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, base_port=23000, host="10.1.2.3")
    config = cluster.config("a")
    assert cluster.target == "10.1.2.3:23000,10.1.2.3:23010"
    assert (config.witness, config.peer_endpoint) == ("10.1.2.3:23020", "10.1.2.3:23010")
    assert config.insecure_network  # else a member refuses to listen there, and so does a witness
    assert "--insecure-network" in cluster.children[WITNESS].arguments
    assert "--insecure-network" not in Cluster(tmp_path, base_port=23000).children[WITNESS].arguments


def test_a_single_member_has_neither_pair_nor_witness(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, members=("solo",))
    assert list(cluster.children) == ["solo"]
    assert not cluster.config("solo").paired
    assert load(None, {"member": "solo", "data_dir": cluster.config("solo").data_dir}, {}).member == "solo"


def test_a_clusters_range_is_its_own_as_long_as_it_is_there(tmp_path: Path) -> None:
    """Whether it runs or not: it may be started again. At once, and at no collector's convenience, it is another's."""
    one = Cluster(tmp_path / "one", relayed=True)
    base_port = one.base_port
    assert Cluster(tmp_path / "other").base_port != base_port
    del one
    assert Cluster(tmp_path / "again").base_port == base_port


def member(name: str, role: str, data_state: str = "IN_SYNC", **facts: object) -> MemberView:
    state = DomainView(
        name="main",
        role=role,
        data_state=data_state,
        link_state="PAIRED",
        epoch=1,
        log_index=5,
        durable_index=5,
        commit_index=5,
        applied_index=5,
        digest="d",
        state_digest="s",
        in_sync_set=("a", "b"),
    )
    state = msgspec.structs.replace(state, **facts)
    return MemberView(name=name, endpoint=f"{name}:1", reachable=True, domains=(state,))


def view(*members: MemberView) -> PairView:
    return PairView(pair="p", members=members)


def test_whole_means_one_master_and_a_replica_in_sync() -> None:
    assert view(member("a", "MASTER"), member("b", "REPLICA")).whole()
    assert not view(member("a", "MASTER"), member("b", "REPLICA", "SYNCING")).whole()
    assert not view(member("a", "MASTER"), member("b", "MASTER")).whole()
    assert not view(member("a", "MASTER"), MemberView(name="b", endpoint="b:1")).whole()
    assert view(member("a", "MASTER"), MemberView(name="b", endpoint="b:1")).masters() == ["a"]


def test_equal_means_the_same_log_and_the_same_queues() -> None:
    assert view(member("a", "MASTER"), member("b", "REPLICA")).equal()
    for facts in ({"digest": "x"}, {"state_digest": "x"}, {"log_index": 4}, {"applied_index": 4}):
        assert not view(member("a", "MASTER"), member("b", "REPLICA", **facts)).equal()
    later: dict[str, Any] = {"state_digest": "", "state_digest_later": True}
    assert not view(member("a", "MASTER", **later), member("b", "REPLICA", **later)).equal(), "nobody has looked"
