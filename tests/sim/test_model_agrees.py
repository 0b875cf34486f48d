"""The exhaustive model does what the step-by-step pair does: the same steps, taken in both, lead to the same place.

The model stands in for queues, disk, session and register calls; `tests/support/pair.py` has the product's machine,
recovery and stores. Where one of them stops repeating the shell's rules, a walk tells.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from chaos.sim.model.member import MEMBERS, Run
from chaos.sim.model.pair import Pair as ModelPair
from chaos.sim.model.starts import first_state
from chaos.sim.model.state import CALLS, LINK, LINKED, REGISTER, WIRE_A, Bound, Label, State
from failover.marks import Role
from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tests.support.pair import Member, Pair, RegisterCall

BOUND = Bound(crash=4, reset=4, operations=0, lone_epoch=60, epoch=60)
STEPS = 80
LONG_MS = 3_300
"""Over every pause and every young claim, under every deadline."""
NEVER_MS = 1_000_000_000
"""A slow peer is not in the model."""
DISK = ("is durable", "is rebuilt", "is stored")


def kind(frame: Any) -> tuple[Any, ...]:
    assert isinstance(frame, PeerFrame)
    if frame.HasField("hello"):
        said = frame.hello.domains[0]
        return "hello", said.role, said.epoch, said.promised_epoch, said.data_state, said.last_index, said.solo_since
    return frame.WhichOneof("frame"), frame.epoch


def about(core: Any) -> dict[str, Any]:
    """What both must agree on of one member."""
    shared, mastership = core.shared, core.mastership
    state, log = shared.state, shared.log
    return {
        "role": shared.role.name,
        "link": shared.link.name,
        "epochs": (state.epoch, state.promised_epoch, state.owner),
        "mark": (state.data.name, tuple(state.in_sync_set), state.solo_since),
        "log": (log.base_index, log.last_index, log.last_epoch, tuple(log.history)),
        "indexes": (shared.progress.durable_index, shared.progress.commit_index),
        "serving": (
            mastership.shared.serving,
            tuple(sorted(mastership.commit.required)),
            mastership.commit.publishing,
        ),
        "claim": mastership.role.claim
        and (mastership.role.claim.step.name, mastership.role.claim.epoch, mastership.role.claim.members),
        "source": (core.source.phase.name, core.source.peer_durable),
        "target": (core.target.active, core.target.opened),
        "lost": mastership.peer.lost_at_ms is not None,
        "register": mastership.view.register and (mastership.view.register.version, mastership.view.register.epoch),
    }


class Both:
    """One walk, in the model and in the pair."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.model = ModelPair(BOUND)
        self.state: State = first_state(self.model)
        self.pair = Pair(slow_peer_ms=NEVER_MS).start()
        self.trace: list[Label] = []
        self.rest()
        self.compare()

    def step(self) -> None:
        steps = [(label, after) for label, _, after in self.model.steps(self.state) if len(after) > 1]
        steps = [step for step in steps if step[0][0] not in DISK]
        if not steps:
            return  # the budget is spent and the pair at rest
        label, after = self.random.choice(steps)
        self.trace.append(label)
        self.state = after
        self.do(label)
        if label[0] == "time passes":
            other = ("time passes", 1 - int(str(label[1])))
            self.state = next((s for name, _, s in self.model.steps(self.state) if name == other), self.state)
        self.rest()
        self.compare()

    def rest(self) -> None:
        """Disks have written everything, and every read of the register is answered."""
        while True:
            steps = self.model.steps(self.state)
            after = next((after for label, _, after in steps if label[0] in DISK), None)
            if after is None:
                break
            self.state = after
        self.settle_pair()

    def settle_pair(self) -> None:
        moved = True
        while moved:
            moved = False
            for call in [call for call in self.pair.calls if call.name == "read"]:
                self.pair.answer(call)
                moved = True
            for member in self.pair.up:
                self.pump(member)
                if not member.steps.at_rest:
                    member.commit()
                    moved = True
                if member.rebuilds:
                    member.rebuilt()
                    moved = True

    def pump(self, member: Member) -> None:
        """Also into a connection that has broken, as long as its member has not noticed: nothing of it arrives."""
        pair, wire = self.pair, self.pair.wires[member.name]
        linked, arrives = pair.linked, len(wire)
        pair.linked = True
        member.pump()
        pair.linked = linked
        while not linked and len(wire) > arrives:
            wire.pop()

    def member(self, label: Label) -> Member:
        return self.pair.members[MEMBERS[int(str(label[1]))]]

    def has_caller(self, call: RegisterCall) -> bool:
        member = self.pair.members[call.member]
        return member.up and member.incarnation == call.incarnation

    def call(self, label: Label, *, landed: bool) -> RegisterCall:
        mine = [call for call in self.pair.calls if self.has_caller(call) and (call.landed is not None) is landed]
        return next(call for call in mine if (call.member, call.name) == (self.member(label).name, label[2]))

    def do(self, label: Label) -> None:
        name, pair = label[0], self.pair
        if name == "connects":
            pair.connect()
        elif name == "breaks":
            pair.cut()
        elif name == "starts":
            self.member(label).start()
        elif name == "crashes":
            pair.crash(self.member(label), noticed=False)
        elif name == "notices":
            self.member(label).notice()
        elif name == "arrives":
            assert pair.deliver(self.member(label).peer)
        elif name == "is lost":
            self.member(label).lost(refused=True)
        elif name == "time passes":
            pair.now_ms += LONG_MS
            first = self.member(label)
            for member in (first, first.peer):
                if member.up and (member.serving or member.role in (Role.PROBE, Role.MASTER_SUSPENDED)):
                    member.tick()  # in the model a replica has nothing to do then
        elif name == "lands":
            pair.land(self.call(label, landed=False))
        elif name == "lands late":
            dead = [call for call in pair.calls if not self.has_caller(call) and call.landed is None]
            late = [call for call in dead if (call.member, call.name) == (self.member(label).name, label[2])]
            landed = self.model.registers.things[self.state[REGISTER]]
            pair.land(next(call for call in late if getattr(call.effect, "desired", None) == landed))
        elif name == "is answered":
            pair.answer(self.call(label, landed=True))
        else:
            raise AssertionError(f"no such step here: {label}")

    def compare(self) -> None:
        model, pair = self.model, self.pair
        told = "; ".join(str(label) for label in self.trace)
        assert model.registers.things[self.state[REGISTER]] == pair.register, told
        assert bool(self.state[LINK] & LINKED) == pair.linked, told
        for who, name in enumerate(MEMBERS):
            local = model.members.locals[self.state[who]]
            member = pair.members[name]
            assert (local.core is not None) == member.up, told
            if local.core is not None:
                assert about(model.members.woken(local)) == about(member.core), (name, told)
            bundles = model.wires.things[self.state[WIRE_A + who]]
            frames = [kind(model.members.frames[number]) for bundle in bundles for number in bundle]
            assert frames == [kind(frame) for frame in pair.wires[name]], (name, told)
        calls = [model.pending.things[number] for number in model.calls.things[self.state[CALLS]]]
        names = sorted((MEMBERS[call.member], str(call.call.purpose), bool(call.outcome)) for call in calls)
        alive = [call for call in pair.calls if self.has_caller(call)]
        assert names == sorted((call.member, call.name, call.landed is not None) for call in alive), told


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_same_steps_lead_to_the_same_place(seed: int) -> None:
    both = Both(seed)
    for _ in range(STEPS):
        both.step()


@pytest.mark.slow
def test_a_model_whose_shell_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "_notice", lambda self: setattr(self, "in_session", False))
    with pytest.raises(AssertionError, match="notices"):
        test_the_same_steps_lead_to_the_same_place(0)
