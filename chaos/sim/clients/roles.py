"""Every role that a plan may give a client, by its name; a new one is a class and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from chaos.sim.clients.admins import Admin, Changer, Owner, Setup
from chaos.sim.clients.batches import Batcher
from chaos.sim.clients.journal import Reader
from chaos.sim.clients.linkers import Forwarder, Linker, Streamer
from chaos.sim.clients.macros import Shuffler
from chaos.sim.clients.open_units import Opener
from chaos.sim.clients.posters import Poster, Sweeper
from chaos.sim.clients.reactors import Reactor
from chaos.sim.clients.requests import Answerer, Requester, Responder
from chaos.sim.clients.rights import Forger, Granter
from chaos.sim.clients.senders import Caller, Producer
from chaos.sim.clients.stages import Stager, Watcher
from chaos.sim.clients.takers import Browser, Consumer, Dequeuer
from chaos.sim.clients.twins import Twin
from chaos.sim.clients.units import Worker
from chaos.sim.clients.weights import Weigher

if TYPE_CHECKING:
    from chaos.sim.clients.base import SimClient
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import ClientPlan

SETUP = "setup"
ROLES: Mapping[str, type[SimClient]] = MappingProxyType(
    {
        SETUP: Setup,
        "admin": Admin,
        "changer": Changer,
        "owner": Owner,
        "batcher": Batcher,
        "reader": Reader,
        "poster": Poster,
        "sweeper": Sweeper,
        "requester": Requester,
        "responder": Responder,
        "answerer": Answerer,
        "producer": Producer,
        "caller": Caller,
        "stager": Stager,
        "watcher": Watcher,
        "consumer": Consumer,
        "taker": Dequeuer,
        "browser": Browser,
        "weigher": Weigher,
        "granter": Granter,
        "forger": Forger,
        "worker": Worker,
        "opener": Opener,
        "linker": Linker,
        "streamer": Streamer,
        "forwarder": Forwarder,
        "reactor": Reactor,
        "twin": Twin,
        "shuffler": Shuffler,
    }
)


def make(pair: Pair, memory: Memory, plan: ClientPlan) -> SimClient:
    """The client of a plan."""
    return ROLES[plan.role](pair, memory, plan)
