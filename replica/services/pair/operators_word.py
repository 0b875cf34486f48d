"""Decides whether an operator has to name this member at the witness before it is made master against the register.

Where members show certificates, a witness takes an operator's word from an operator's alone: a member that could pass
one on would be above every rule for registers. What the operator has set there, the member claims like anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.node.members import Members


def problem_of_word(members: Members, domain: Domain) -> str:
    """What the operator has to do first; empty: nothing, or the register cannot be read, and is not asked."""
    shared, view = domain.shared, domain.mastership.view
    if not members.words_by_operators or not view.readable or view.register is None:
        return ""
    if view.register.eligible_set == frozenset({shared.member}):
        return ""
    epoch = domain.mastership.claims.epoch_above_all()
    return (
        f"the witness takes an operator's word from an operator alone (PERMISSION_DENIED for members): first, with "
        f"that one's --credentials, `tandemq witness set-epoch --pair {members.pair} --domain {shared.name} "
        f"--epoch {epoch} --holder {shared.member} --reason ...`, then this again"
    )
