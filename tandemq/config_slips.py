"""Decides which name of a file or variable of the environment is a slip of the pen for a setting; it reads no value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
        import difflib

        near = difflib.get_close_matches(variable, settings, n=1, cutoff=ALIKE)
        if near:
            return variable, near[0]
    return None


def suggestion(wrong: str, known: Mapping[str, object]) -> str:
    """What to say behind a name that there is not."""
    import difflib

    near = difflib.get_close_matches(wrong, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(known)}"
