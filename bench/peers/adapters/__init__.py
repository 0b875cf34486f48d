"""Every system that can be measured, by name, in the order of the tables."""

from __future__ import annotations

from bench.peers.adapters.artemis import Artemis
from bench.peers.adapters.beanstalkd import Beanstalkd
from bench.peers.adapters.floor import Floor
from bench.peers.adapters.nats import Nats, NatsAtomic, NatsDebian, NatsFast
from bench.peers.adapters.postgres import Postgres, PostgresOlder
from bench.peers.adapters.rabbitmq import Quorum, QuorumOlder, Single, SingleOlder
from bench.peers.adapters.redis import Redis, RedisOlder, Valkey
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.contract import Peer

KINDS = (
    Tandemq, Floor, Redis, RedisOlder, Valkey, Quorum, QuorumOlder, Single, SingleOlder, Nats, NatsAtomic, NatsFast,
    NatsDebian, Postgres, PostgresOlder, Artemis, Beanstalkd,
)  # fmt: skip
PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in KINDS}
