"""Every kind of fault by the name that plans and reports use, and what it can strike; strikes those of a plan, and
heals everything. `machines`, `between`, `disks`, `moments`, `stops` and `transfers` have the kinds.

A new kind is a class and a line here: profile "swarm" draws it (unless it is apart), plans are checked for it, the
report counts it by its name, and a campaign is invalid in which it never struck.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from chaos.sim.faults import between
from chaos.sim.faults.between import BETWEEN, Hang, Impostor, LinkCut
from chaos.sim.faults.disks import (
    BitFlip,
    BitRot,
    FailingSync,
    FullDisk,
    HungDisk,
    LostDisk,
    LostWrites,
    OldImage,
    SlowDisk,
)
from chaos.sim.faults.kinds import DIRECTIONS, MEMBERS
from chaos.sim.faults.machines import (
    ENDS,
    Classifier,
    ClientCut,
    Clock,
    Crash,
    Cut,
    LateSet,
    Pause,
    RegisterAway,
    RegisterDown,
    RegisterLost,
    Reset,
    SlowLink,
    UnheardSet,
    WrongVerdict,
)
from chaos.sim.faults.moments import Blackout, Flap, HalfAdded, HalfCeded, KillInSync, Newborn, Split
from chaos.sim.faults.stops import Stop
from chaos.sim.faults.transfers import HalfFilled, Resync

if TYPE_CHECKING:
    from chaos.sim.faults.kinds import Kind
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault


class Entry(NamedTuple):
    """One kind."""

    kind: type[Kind]
    targets: tuple[str, ...] = MEMBERS
    """Whom it can strike."""
    is_apart: bool = False
    """Profile "swarm" does not draw it: it needs what only a profile of its own has."""


KINDS: Mapping[str, Entry] = MappingProxyType(
    {
        "crash": Entry(Crash),
        "pause": Entry(Pause),
        "clock": Entry(Clock),
        "verdict": Entry(WrongVerdict),
        "classifier": Entry(Classifier),
        "cut": Entry(Cut, DIRECTIONS),
        "client_cut": Entry(ClientCut),
        "reset": Entry(Reset, ENDS),
        "link_cut": Entry(LinkCut, BETWEEN, is_apart=True),
        "hang": Entry(Hang, BETWEEN, is_apart=True),
        "impostor": Entry(Impostor, BETWEEN, is_apart=True),
        "slow_link": Entry(SlowLink, DIRECTIONS),
        "register_away": Entry(RegisterAway, ("a", "b", "ab")),
        "register_down": Entry(RegisterDown, ("register",)),
        "late_set": Entry(LateSet),
        "unheard_set": Entry(UnheardSet),
        "register_lost": Entry(RegisterLost, ("register",)),
        "slow_disk": Entry(SlowDisk),
        "hung_disk": Entry(HungDisk),
        "fsync": Entry(FailingSync),
        "full_disk": Entry(FullDisk),
        "lost_disk": Entry(LostDisk),
        "bit_flip": Entry(BitFlip),
        "bit_rot": Entry(BitRot, ("ab",), is_apart=True),
        "old_image": Entry(OldImage),
        "lost_writes": Entry(LostWrites, is_apart=True),
        "flap": Entry(Flap),
        "kill_in_sync": Entry(KillInSync),
        "half_added": Entry(HalfAdded),
        "half_ceded": Entry(HalfCeded, ("ab",)),
        "blackout": Entry(Blackout),
        "split": Entry(Split),
        "newborn": Entry(Newborn),
        "stop": Entry(Stop),
        "resync": Entry(Resync, is_apart=True),
        "half_filled": Entry(HalfFilled, is_apart=True),
    }
)
ARMED = ("late_set", "unheard_set", "fsync", "half_ceded", "bit_rot")
"""Kinds that wait for what they strike, and are counted then; the register's route and the disk report by
`on_struck`.
"""


def strike(pair: Pair, fault: Fault) -> None:
    """A fault of the plan is due: before everything is healed, else the plan would not have been taken."""
    if KINDS[fault.kind].kind.strike(pair, fault):
        if fault.kind not in ARMED:
            pair.run.count(f"fault.{fault.kind}")
        args = (f"{name} {value}" for name, value in fault.args.items())
        pair.run.note(fault.target, "fault", " ".join([fault.kind, *args]))


def heal_all(pair: Pair) -> None:
    """Nothing is wrong any more, but for what is lost, and for sets of the register that are still under way."""
    for source, target in list(pair.run.network.directions):
        pair.run.network.heal(source, target)
        pair.run.network.direction(source, target).hostile_s = 0.0
    between.heal(pair)
    pair.run.registers.up()
    for member in pair.members.values():
        member.machine.disk.heal()
        member.route.heal()
        member.judging.heal()
        member.resume()
