"""Asks what a replica would do next with an image: whether it would claim the mastership, and whether a transfer that
was interrupted is made good by the next one. Judges nothing else of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chaos.sim.images.driver import PAIR
from chaos.sim.images.member import NAME, NUMBER, Connection, Member, limits_of
from failover.authority import MemoryRegisters
from failover.classifier import Answer, Evidence, Verdict
from failover.marks import DataMark
from failover.register import Register, RegisterState, add_member, claim, commit
from replica.core.domain import Domain
from replica.core.ports import Settings, ports_of
from replica.core.state.effects import AskVerdict, SetRegister
from replica.machine import Machine
from replica.node.recovery import open_shared
from replica.peer.session import held_call
from storage.memory import MemoryStore
from storage.records import verify_stored

if TYPE_CHECKING:
    from chaos.sim.images.story import Story
    from replica.core.state.durable import DomainState
    from storage.disk import DiskStore

WHOLE = (DataMark.IN_SYNC, DataMark.SOLE)
"""Said once more here: what the product takes for good is what is being checked."""


def _registered(epoch: int) -> Register:
    """The peer's, in force, with both members in step: as far as the register goes, either may claim."""
    return Register(
        version=9, epoch=epoch, holder="a", in_sync_set=frozenset("ab"), committed_set=frozenset("ab"),
        state=RegisterState.COMMITTED, nonce=b"n",
    )  # fmt: skip


def find_vote(store: DiskStore, mark: DataMark, last: DomainState) -> str:
    """Its peer is gone and everybody lets it be master: only a copy that is whole may claim. What is wrong, or ""."""
    shared = open_shared(store, NUMBER, NAME, "b", "a", 1, limits_of("a"))
    shared.machine = Machine(NUMBER, ["a", "b"], limits_of("a"))
    domain = Domain(shared, ports_of(store, shared, partial(held_call, member="a")), Settings(bias_ms=0))
    claims = 0
    now = 10_000
    domain.start(now, now)
    domain.on_lost(now, refused=True)
    for _ in range(20):
        for effect in domain.take():
            if isinstance(effect, AskVerdict):
                answer = Answer(
                    "e", effect.link_generation, Verdict.ASSUME_MASTERSHIP, "", evidence=Evidence.OPERATOR, by="judge"
                )
                domain.on_verdict(answer, effect.kind, now)
            claims += isinstance(effect, SetRegister)
        now += 100
        domain.on_register(_registered(last.epoch), now)
        domain.on_tick(now, now)
    if mark in WHOLE and not claims:
        return f"a copy that is {mark.name} does not claim although it may: this check shows nothing"
    if mark not in WHOLE and claims:
        return f"a copy that is {mark.name} claims the mastership"
    return ""


async def find_resumed(store: DiskStore, story: Story) -> str:
    """A restart on this image takes a transfer from a master that has everything. What is wrong then, or ""."""
    whole = MemoryStore(pair=PAIR, member="a")
    for batch in story.steps:
        whole.commit(batch)
    registers = MemoryRegisters()
    first = claim(Register(), member="a", epoch=50, members=frozenset("a"), nonce=b"1")
    second = commit(first, nonce=b"2")
    third = add_member(second, member_added="b", nonce=b"3")
    for before, after in ((Register(), first), (first, second), (second, third)):
        registers.set(NAME, before, after)
    a, b = Member(whole, "a", "b", registers), Member(store, "b", "a", registers)
    await a.start()
    a.lose(Verdict.ASSUME_MASTERSHIP)
    await a.until_serving()
    await b.start()
    if b.domain.shared.state.data is not DataMark.SYNCING:
        return f"its transfer was interrupted, and a restart says that it is {b.domain.shared.state.data.name}"
    connection = Connection(a, b)
    try:
        await a.until(lambda: a.domain.shared.link.name == "PAIRED", "the pair")
        await a.enqueue([100])
        await b.until(lambda: b.domain.shared.log.digest == a.domain.shared.log.digest, "the same log")
        machine = b.domain.shared.machine
        assert machine is not None
        for _, log_index in machine.live_log_indexes():
            record = store.read(NUMBER, log_index)
            if record is None:
                return f"after the next transfer record {log_index} is missing"
            verify_stored(record)
    except TimeoutError as late:
        return f"the next transfer does not succeed: {late}"
    finally:
        await connection.close()
        await a.stop()
        await b.stop()
    return ""
