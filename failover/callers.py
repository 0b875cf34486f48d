"""Decides who may change a register at a witness, by the certificate of the caller's connection. Pure.

Reading is open to whoever has a certificate of the witness's authority.
"""

from __future__ import annotations

from collections.abc import Collection

from tandemq.credentials import names


class Callers:
    """Of one witness. `operators`: clients, by name, who may put a register right."""

    def __init__(self, operators: Collection[str] = ()) -> None:
        self._operators = frozenset(f"principal/{name}" for name in operators)

    def problem_of_set(self, who: str, pair: str, member: str) -> str:
        """Why that caller may not set a register of the pair as that member; empty: it may."""
        wanted = names.member(pair, member)
        if who == wanted:
            return ""
        return f"only {wanted} may set a register of {pair} as {member}, and the caller is {who or 'nobody known here'}"

    def problem_of_force(self, who: str, pair: str) -> str:
        """The same for an operator's word, which a member of the pair may pass on."""
        if who in self._operators or who.startswith(names.member(pair, "")):
            return ""
        return (
            f"only a member of {pair}, or an operator of this witness, may put a register right, and the caller is "
            f"{who or 'nobody known here'}; start the witness with --operator NAME to let principal/NAME"
        )
