"""Decides who may change a register at a witness, by the certificate of the caller's connection. Pure.

Reading is open to whoever has a certificate of the witness's authority.
"""

from __future__ import annotations

from collections.abc import Collection

from failover.register import STARTS
from tandemq.credentials import names


class Callers:
    """Of one witness. `operators`: clients, by name, who may put a register right."""

    def __init__(self, operators: Collection[str] = ()) -> None:
        self._operators = frozenset(f"principal/{name}" for name in operators)

    def problem_of_set(self, who: str, pair: str, member: str, domain: str) -> str:
        """Why that caller may not set that register of the pair as that member; empty: it may."""
        wanted = names.member(pair, member)
        if who == wanted:
            if not domain.startswith(STARTS) or domain.removeprefix(STARTS) == member:
                return ""
            return f"{domain} counts the starts of another member than {member}: only that one may set it"
        return f"only {wanted} may set a register of {pair} as {member}, and the caller is {who or 'nobody known here'}"

    def problem_of_force(self, who: str, pair: str) -> str:
        """The same for an operator's word: never a member's, which would be above every rule for registers then."""
        if who in self._operators:
            return ""
        who = who or "nobody known here"
        if not self._operators:
            text = "this witness has no operators: start it with --operator NAME, and let principal/NAME use"
        else:
            text = "only an operator of this witness may put a register right: let one that it names use"
        return f"{text} `tandemq witness set-epoch --pair {pair}`; the caller is {who}"
