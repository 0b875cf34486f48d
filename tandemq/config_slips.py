"""Decides which variable of the environment is a slip of the pen for a setting; it reads no value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

ALIKE = 0.88  # two names, before one counts as the other mistyped


def near_miss(
    variables: Iterable[str], prefix: str, sections: Sequence[str], settings: Sequence[str]
) -> tuple[str, str] | None:
    """The first of these variables that is nearly a setting of a section that there is not, and that setting.

    It would be passed over in silence. Others that begin with the prefix are somebody else's: service managers and
    orchestrators make some. Those of a section that there is are not looked at here.
    """
    for variable in variables:
        if not variable.startswith(prefix) or variable.startswith(tuple(sections)):
            continue
        near = difflib.get_close_matches(variable, settings, n=1, cutoff=ALIKE)
        if near:
            return variable, near[0]
    return None
