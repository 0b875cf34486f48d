"""Draws a plan from a profile and a seed: which faults strike when, and what the clients do. It carries nothing out.

Each seed draws its own mix of faults (swarm testing): a fault that is always there hides what happens without it. The
biased profiles draw more of what met a bug only rarely: late frames at a fence, restarts while the peer is cut off, two
in which crashes and cuts never end, and one in which directories are put back.
In "letters" and "requests" the clients use what moves, delays, drops and answers messages; in "weights" they publish
tables of routing weights and read them; in "rights" everybody has a name, and rights are granted and asked about;
in "publications" they stage rows and take numbered batches, in "readers" and
"late_readers" they read the journal while it is trimmed; in "rebuilt" they go on in a pair that was formed anew; in
"units" they take and put by one call; in "twins" one at each member acts on what its side gives it; in "links_between"
they send to a second pair, which is struck too; in "reactions" they cancel, move and change what was sent before;
in "gathering" they send the members of groups; in "macro" they use queues that stand for many, and in "proxies" queues
of a second pair by names of the first.
In "lying" a disk loses its last writes in silence, as both members stop.
In "steps" two or three faults fall into each promotion and handoff. In "rot" members keep little of the log in memory,
and bits turn over on their disks while they run. In "resync" an operator has members take everything anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from chaos.sim.clients.rights import draw_rights
from chaos.sim.clients.weights import draw_weights
from chaos.sim.draw.clients import draw_clients, draw_kept, with_changes, with_groups
from chaos.sim.draw.features import draw_gathering, draw_letters, draw_reactions, draw_requests
from chaos.sim.draw.links import draw_links
from chaos.sim.draw.macros import draw_macros
from chaos.sim.draw.pipeline import draw_publications, draw_readers, draw_rebuilt, draw_twins, draw_units
from chaos.sim.draw.proxies import draw_proxies
from chaos.sim.faults.between import BETWEEN
from chaos.sim.faults.kinds import at_other
from chaos.sim.faults.table import KINDS
from chaos.sim.pair.plan import ClientPlan, Fault, Plan, Value

SAFETY_MS = 4_000
CHANGE_MS = 200
"""About as long as one takes, and what follows it."""
HANDOFF_MS = 50
"""About as long as one takes, with room on either side."""
STEPS_MS = (15, 50, 600)
"""After a trigger: its first steps, all of a promotion or handoff, or until the members have met again."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How often each kind strikes, relative to the others; each seed leaves out about half of the kinds."""

    weights: Mapping[str, int]
    faults: tuple[int, int] = (3, 12)
    """How many, at least and at most."""
    is_whole: bool = False
    """No kind is left out: many crashes and cuts in every run."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    handoffs: int = 0
    """How often an administrator orders the mastership over, in every run; 0: now and then."""
    is_struck: bool = False
    """Something strikes soon after each of these orders."""
    changes: int = 0
    """How often an administrator changes the persistence of a queue that others use; something strikes soon after."""
    clients: Callable[[random.Random, int, int], tuple[ClientPlan, ...]] = draw_clients
    """Draws them."""
    beside: tuple[str, ...] = ()
    """Kinds that strike once more in every run, drawn from a stream of their own."""
    groups: float = 0.0
    """In what share of the runs there is a queue that keeps the order of groups, with clients of its own."""
    at_other: float = 0.0
    """What share of the faults strikes the second pair, where there is one."""
    is_apart: bool = False
    """Drawn when it is asked for by its name alone, not in a campaign over all: its points are its own."""
    triggers: int = 0
    """How often a member dies or freezes; two or three things more go wrong after each of these, and of the orders."""


FEATURE_FAULTS = MappingProxyType(
    {
        "kill_in_sync": 4,
        "crash": 5,
        "cut": 3,
        "pause": 2,
        "client_cut": 2,
        "reset": 2,
        "lost_disk": 1,
        "slow_disk": 1,
        "clock": 1,
        "blackout": 1,
    }
)
"""What ends a mastership, and what makes a member read its queues back."""
FEATURE_BESIDE = ("verdict", "cut", "client_cut")
"""What every run of them has: else two profiles without it would thin it out among all."""
FEATURE_SETTINGS: Mapping[str, Value] = MappingProxyType({"checkpoint_bytes": 3_000, "move_max": 2})
"""So that queues are read back from snapshots, and moves take several records."""
PIPELINE_FAULTS = MappingProxyType({kind: weight for kind, weight in FEATURE_FAULTS.items() if kind != "clock"})
TRIMMED: Mapping[str, Value] = MappingProxyType({"checkpoint_bytes": 500, "journal_bytes": 500})
"""So that the log is trimmed at each turn of its upkeep, as far as readers let it."""


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "swarm": Profile({name: 1 for name, each in KINDS.items() if not each.is_apart}, groups=0.15),
        "fence": Profile(
            {"pause": 4, "cut": 7, "crash": 1, "verdict": 8, "register_away": 2, "slow_link": 2, "reset": 2},
            faults=(10, 18),
            is_whole=True,
            beside=("verdict",),
        ),
        "restart": Profile({"crash": 6, "cut": 3, "register_away": 1, "late_set": 1, "fsync": 1}),
        "register": Profile(
            {
                "verdict": 5,
                "late_set": 3,
                "unheard_set": 3,
                "register_away": 3,
                "register_down": 3,
                "register_lost": 2,
                "crash": 2,
                "reset": 2,
            }
        ),
        "classifier": Profile(
            {"classifier": 5, "verdict": 3, "crash": 3, "cut": 6, "pause": 2, "register_away": 1, "late_set": 1},
            faults=(5, 14),
            settings={"judge": "classifier"},
            beside=("classifier", "verdict"),
        ),
        "alone": Profile(
            {"classifier": 5, "verdict": 2, "crash": 3, "cut": 3, "pause": 2, "reset": 2, "slow_disk": 1},
            settings={"judge": "alone"},
        ),
        "disk": Profile(
            {
                "slow_disk": 2,
                "hung_disk": 2,
                "fsync": 3,
                "full_disk": 2,
                "lost_disk": 2,
                "bit_flip": 2,
                "old_image": 3,
                "crash": 3,
            }
        ),
        "image": Profile({"old_image": 8, "crash": 4, "cut": 1, "pause": 2}, faults=(8, 16), is_whole=True),
        "flap": Profile(
            {"flap": 5, "late_set": 2, "unheard_set": 2, "slow_link": 3, "register_away": 1, "kill_in_sync": 1},
            faults=(6, 14),
        ),
        "newborn": Profile({"newborn": 6, "flap": 1, "slow_link": 1, "late_set": 1}, faults=(3, 7), is_whole=True),
        "split": Profile({"split": 6, "crash": 1, "verdict": 1}, faults=(2, 5), is_whole=True),
        "half_added": Profile({"half_added": 4, "crash": 1, "unheard_set": 1}, faults=(2, 5), is_whole=True),
        "half_ceded": Profile({"half_ceded": 6, "crash": 1, "cut": 1}, faults=(2, 4), is_whole=True, handoffs=8),
        "blackout": Profile({"blackout": 4, "kill_in_sync": 2, "crash": 1}, faults=(3, 6), is_whole=True),
        "tail": Profile({"kill_in_sync": 6, "crash": 3, "flap": 1, "cut": 1}, faults=(6, 14), is_whole=True),
        "groups": Profile(
            {"kill_in_sync": 5, "crash": 4, "cut": 2, "pause": 1, "client_cut": 2},
            faults=(4, 10),
            is_whole=True,
            groups=1.0,
        ),
        "handoff": Profile(
            {
                "slow_disk": 6,
                "hung_disk": 3,
                "slow_link": 3,
                "cut": 4,
                "reset": 4,
                "pause": 2,
                "crash": 2,
                "register_away": 3,
                "unheard_set": 2,
                "late_set": 1,
            },
            handoffs=12,
        ),
        "midway": Profile(
            {
                "flap": 2,
                "reset": 2,
                "cut": 2,
                "crash": 2,
                "pause": 1,
                "register_away": 2,
                "unheard_set": 1,
                "slow_link": 2,
            },
            handoffs=8,
            is_struck=True,
        ),
        "changes": Profile(
            {
                "blackout": 3,
                "kill_in_sync": 3,
                "crash": 4,
                "flap": 1,
                "cut": 2,
                "pause": 1,
                "full_disk": 1,
                "slow_disk": 1,
            },
            faults=(1, 4),
            changes=5,
        ),
        "steps": Profile(
            {
                "crash": 3,
                "cut": 3,
                "reset": 3,
                "register_away": 2,
                "unheard_set": 2,
                "late_set": 1,
                "fsync": 2,
                "pause": 2,
            },
            faults=(0, 1),
            handoffs=3,
            triggers=3,
            beside=("verdict",),
        ),
        "storm": Profile(
            {"client_cut": 5, "crash": 8, "cut": 11, "pause": 1, "register_away": 1},
            faults=(24, 36),
            is_whole=True,
            beside=("pause",),
        ),
        "short": Profile(
            {"client_cut": 5, "crash": 8, "cut": 11, "reset": 1, "slow_link": 1},
            faults=(24, 36),
            is_whole=True,
            beside=("verdict",),
        ),
        "letters": Profile(
            FEATURE_FAULTS,
            faults=(1, 8),
            settings=FEATURE_SETTINGS,
            clients=draw_letters,
            beside=FEATURE_BESIDE,
        ),
        "requests": Profile(
            FEATURE_FAULTS,
            faults=(1, 8),
            settings=FEATURE_SETTINGS,
            clients=draw_requests,
            beside=FEATURE_BESIDE,
        ),
        "weights": Profile(
            FEATURE_FAULTS,
            faults=(2, 9),
            settings={"checkpoint_bytes": 3_000},
            clients=draw_weights,
            beside=FEATURE_BESIDE,
        ),
        "rights": Profile(
            {kind: weight for kind, weight in FEATURE_FAULTS.items() if kind != "lost_disk"},
            faults=(3, 10),
            settings={"checkpoint_bytes": 3_000, "secured": True},
            clients=draw_rights,
            beside=FEATURE_BESIDE,
            is_apart=True,
        ),
        "publications": Profile(
            PIPELINE_FAULTS,
            faults=(2, 9),
            settings={"checkpoint_bytes": 3_000},
            clients=draw_publications,
            beside=FEATURE_BESIDE,
        ),
        "units": Profile(
            # Its calls are lost and repeated: what cuts a client off strikes more often.
            {**PIPELINE_FAULTS, "cut": 6, "client_cut": 6},
            faults=(3, 12),
            settings={"checkpoint_bytes": 3_000},
            clients=draw_units,
            beside=(*FEATURE_BESIDE, "client_cut"),
        ),
        "twins": Profile(
            {**PIPELINE_FAULTS, "cut": 6, "client_cut": 4, "kill_in_sync": 6, "resync": 2},
            faults=(3, 10),
            settings={"checkpoint_bytes": 3_000, "side_bytes": 60},
            clients=draw_twins,
            beside=(*FEATURE_BESIDE, "slow_disk"),
            is_apart=True,
        ),
        "reactions": Profile(
            {**FEATURE_FAULTS, "cut": 6, "client_cut": 6},
            faults=(2, 10),
            settings=FEATURE_SETTINGS,
            clients=draw_reactions,
            beside=(*FEATURE_BESIDE, "client_cut"),
        ),
        "links_between": Profile(
            {**PIPELINE_FAULTS, "crash": 6, "cut": 2, "link_cut": 8},
            faults=(3, 12),
            settings={"checkpoint_bytes": 3_000, "links": 1},
            clients=draw_links,
            beside=(*FEATURE_BESIDE, "link_cut", "crash"),
            at_other=0.5,
        ),
        "macro": Profile(
            {**PIPELINE_FAULTS, "cut": 6, "client_cut": 6, "kill_in_sync": 6},
            faults=(2, 10),
            settings={"checkpoint_bytes": 3_000},
            clients=draw_macros,
            beside=(*FEATURE_BESIDE, "client_cut"),
            is_apart=True,
        ),
        "proxies": Profile(
            {**PIPELINE_FAULTS, "crash": 6, "cut": 2, "link_cut": 8, "hang": 4, "impostor": 3},
            faults=(3, 12),
            settings={"checkpoint_bytes": 3_000, "links": 1},
            clients=draw_proxies,
            beside=(*FEATURE_BESIDE, "link_cut", "crash"),
            at_other=0.5,
            is_apart=True,
        ),
        "gathering": Profile(
            {**FEATURE_FAULTS, "cut": 6, "client_cut": 6},
            faults=(1, 8),
            settings=FEATURE_SETTINGS,
            clients=draw_gathering,
            beside=FEATURE_BESIDE,
        ),
        "readers": Profile(
            {kind: weight for kind, weight in PIPELINE_FAULTS.items() if kind != "lost_disk"},
            faults=(1, 6),
            settings=TRIMMED,
            clients=draw_readers,
            beside=FEATURE_BESIDE,
        ),
        "late_readers": Profile(
            PIPELINE_FAULTS,
            faults=(1, 6),
            settings={**TRIMMED, "reader_bytes": 2_000},
            clients=draw_readers,
            beside=FEATURE_BESIDE,
        ),
        "rebuilt": Profile(
            PIPELINE_FAULTS,
            faults=(1, 6),
            settings={"checkpoint_bytes": 3_000, "rebuilt": 1},
            clients=draw_rebuilt,
        ),
        "lying": Profile(
            {"lost_writes": 8, "reset": 2, "slow_disk": 1, "slow_link": 1, "client_cut": 1, "register_away": 1},
            faults=(3, 7),
            is_whole=True,
            settings={"meet_ms": 3_000},
            handoffs=3,
            beside=("lost_writes",),
        ),
        "resync": Profile(
            {
                "resync": 8,
                "half_filled": 4,
                "crash": 3,
                "lost_disk": 2,
                "register_away": 3,
                "register_down": 1,
                "slow_link": 3,
                "cut": 2,
                "reset": 2,
                "pause": 1,
                "slow_disk": 1,
            },
            faults=(4, 10),
            settings={"checkpoint_bytes": 3_000},
            handoffs=1,
            beside=("resync", "resync", "half_filled", "verdict"),
        ),
        "rot": Profile(
            {"bit_rot": 6, "crash": 3, "kill_in_sync": 1, "cut": 2, "reset": 1, "client_cut": 1, "pause": 1},
            faults=(4, 10),
            is_whole=True,
            settings={"checkpoint_bytes": 500, "ring_bytes": 3_000},
            clients=draw_kept,
            handoffs=2,
            beside=("verdict", "bit_rot"),
            groups=0.3,
        ),
    }
)


OF_ALL = tuple(name for name, each in PROFILES.items() if not each.is_apart)
"""Those of a campaign over all profiles."""
_APART = frozenset(kind for each in PROFILES.values() if each.is_apart for kind in (*each.weights, *each.beside))
_NOT_APART = frozenset(kind for name in OF_ALL for kind in (*PROFILES[name].weights, *PROFILES[name].beside))
KINDS_OF_ALL = tuple(kind for kind in KINDS if kind not in _APART - _NOT_APART)
"""Kinds of fault that such a campaign must have met: without those that only a profile of its own draws."""


def draw(profile: str, seed: int) -> Plan:
    """The plan of that seed. Raises KeyError for a profile that there is not."""
    how = PROFILES[profile]
    stream = random.Random(f"{seed}/plan {profile}")
    kinds = [name for name in how.weights if how.is_whole or stream.random() < 0.6] or [
        stream.choice(list(how.weights))
    ]
    weights = [how.weights[name] for name in kinds]
    faults: list[Fault] = []

    def strike(at_ms: int) -> None:
        name = stream.choices(kinds, weights)[0]
        target, args = KINDS[name].kind.draw(stream)
        faults.append(Fault(min(at_ms, SAFETY_MS - 1), name, target, args))  # then everything is healed

    for _ in range(stream.randint(*how.faults)):
        strike(stream.randrange(SAFETY_MS))
    clients = how.clients(stream, SAFETY_MS, how.handoffs)
    if how.changes:
        clients = with_changes(clients, stream, SAFETY_MS, how.changes)
        for at_ms in [call.at_ms for client in clients for call in client.calls if call.kind == "change"]:
            strike(at_ms + stream.randrange(CHANGE_MS))
    apart = random.Random(f"{seed}/groups {profile}")  # else all that is drawn after it would be other
    if apart.random() < how.groups:
        clients = with_groups(clients, apart, SAFETY_MS)
    if how.is_struck:
        for at_ms in [call.at_ms for client in clients for call in client.calls if call.kind == "handoff"]:
            strike(at_ms + stream.randrange(HANDOFF_MS))
    if how.triggers:
        began_ms = [call.at_ms for client in clients for call in client.calls if call.kind == "handoff"]
        for _ in range(how.triggers):
            at_ms = stream.randrange(SAFETY_MS)
            name = stream.choice(("crash", "crash", "pause"))
            faults.append(Fault(at_ms, name, *KINDS[name].kind.draw(stream)))
            began_ms.append(at_ms)
        for at_ms in began_ms:
            for _ in range(stream.choice((2, 3))):
                strike(at_ms + stream.randrange(stream.choice(STEPS_MS)))
    aside = random.Random(f"{seed}/beside {profile}")
    faults += [Fault(aside.randrange(SAFETY_MS), name, *KINDS[name].kind.draw(aside)) for name in how.beside]
    others = random.Random(f"{seed}/other {profile}")
    for number, fault in enumerate(faults) if how.at_other else ():
        if KINDS[fault.kind].targets != BETWEEN and others.random() < how.at_other:
            faults[number] = replace(fault, target=at_other(fault.target))
    faults.sort(key=lambda fault: fault.at_ms)
    return Plan(seed, profile, dict(how.settings), tuple(faults), clients, SAFETY_MS)
