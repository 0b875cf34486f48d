"""Who calls this member, and what that one may do by the rights that are committed here. Refuses nothing itself.

A certificate says who somebody is. What the peer carries is its client's call, and the peer says whose it is; nobody
else is believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from replica.machine.state.rights import OBSERVE, OF_QUEUES, InForce
from tandemq.credentials import names
from tandemq.credentials.caller import caller_of, principal_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed
    from tandemq.config import ManagerConfig

PRINCIPAL = "x-tandemq-principal"
"""On a call that one member carries to the other: who makes it."""
HERE = "host"
"""Who calls without a network: this process, or whoever may open the socket file, as its mode says."""
SAID_BY_PEERS = frozenset(("x-tandemq-hop", "x-tandemq-own", PRINCIPAL))
"""Metadata that only the other member of the pair may send."""


def access_of(config: ManagerConfig, home: Callable[[], Domain]) -> Access:
    """Of a manager with this configuration."""
    own = names.member(config.pair or config.member, config.member)
    peer = names.member(config.pair, config.peer_member) if config.security.credentials and config.pair else ""
    return Access(own, peer, [names.principal(each) for each in config.security.administrators], home)


def called_by(access: Access | None, context: Any) -> str:
    """For people: whose call it is, and from where it came; also of one that the other member carries."""
    who = access.caller(context) if access is not None else ""
    return f"{who} at {context.peer()}" if who not in ("", HERE) else caller_of(context)


class Pacer(Protocol):
    """Counts what comes after a call was let in, against the quota of whoever made it."""

    async def batch(self, context: Any, messages: int, size: int) -> None:
        """Returns when a batch of a stream may be taken."""

    def problem_of_unit(self, who: str, units: Callable[[], Iterable[str]]) -> Failed | None:
        """Why a principal begins no further unit of work. `units`: whose those are that are open here."""


class Asker(Protocol):
    """Asks whether a caller may do what comes after its call was let in: a later frame, the commit of a unit."""

    @property
    def quoted(self) -> Pacer | None:
        """Counts what clients ask for; None: nobody has a quota."""

    async def problem_of(self, context: Any, method: str, right: int, queue: str) -> Failed | None:
        """None: it may. `method`: which call wants it."""

    def wanted_of(self, method: str, request: bytes) -> list[tuple[int, str]]:
        """The rights that a call needs, with the queues."""


class Access:
    """Of one manager. `own`, `peer`: whose certificate it has, and the other member; empty: there is no other."""

    def __init__(self, own: str, peer: str, administrators: Collection[str], home: Callable[[], Domain]) -> None:
        self.own, self.peer = own, peer
        self.administrators = frozenset(administrators)
        self._home = home
        self.asker: Asker | None = None

    @property
    def home(self) -> Domain:
        """The domain whose records are the rights of all."""
        return self._home()

    @property
    def in_force(self) -> InForce:
        """As committed here."""
        machine = self._home().shared.machine
        return machine.state.rights.in_force if machine is not None else InForce()

    def caller(self, context: Any) -> str:
        """Who makes the call: `principal/NAME`, `member/PAIR/NAME`, HERE; empty: nobody known here."""
        if not hasattr(context, "auth_context") or str(context.peer()).startswith("unix:"):
            return HERE
        who = principal_of(context)
        if who == self.peer and who:
            for key, value in context.invocation_metadata() or ():
                if key == PRINCIPAL:
                    return str(value)
        return who

    def asked_about(self, context: Any) -> str:
        """Who makes the call, where his rights count; empty: he is of this host, or a member."""
        who = self.caller(context)
        return "" if who in (HERE, self.own, self.peer) else who

    def claims_of(self, context: Any) -> list[str]:
        """What in the call's metadata only the peer may say, and is said by somebody else."""
        said = [key for key, _ in context.invocation_metadata() or () if key in SAID_BY_PEERS]
        return said if said and (not self.peer or principal_of(context) != self.peer) else []

    def stands_above(self, who: str) -> bool:
        """Whether it needs no grant: an administrator of the configuration, this host, either member for itself."""
        return bool(who) and (who in self.administrators or who in (HERE, self.own, self.peer))

    def may(self, who: str, right: int, *names: str) -> bool:
        """By any of a queue's names; with an empty one, on the pair or on some queue."""
        if self.stands_above(who):
            return True
        in_force = self.in_force
        if right in OF_QUEUES and names == ("",):
            return in_force.has_some(who, right)
        return any(in_force.deciding(who, right, name) is not None for name in names)

    def may_observe(self, who: str) -> bool:
        """Whether it may look at the pair; a few look-ups, from any thread."""
        return self.may(who, OBSERVE, "")

    def sees(self, who: str, *names: str) -> bool:
        """Whether a queue is there for it."""
        return self.stands_above(who) or any(self.in_force.sees(who, name) for name in names)
