"""Every system that can be measured, by name, in the order of the tables."""

from __future__ import annotations

from bench.peers.adapters.artemis import Artemis
from bench.peers.adapters.beanstalkd import Beanstalkd
from bench.peers.adapters.floor import Floor
from bench.peers.adapters.nats import Nats, NatsAtomic, NatsDebian, NatsFast
from bench.peers.adapters.postgres import Postgres
from bench.peers.adapters.rabbitmq import Quorum, Single
from bench.peers.adapters.redis import Redis
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.contract import Peer

KINDS = (Tandemq, Floor, Redis, Quorum, Single, Nats, NatsAtomic, NatsFast, NatsDebian, Postgres, Artemis, Beanstalkd)
PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in KINDS}
