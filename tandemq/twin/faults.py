"""Why a twin stops. Each says what happened, where, and what to do; none of them decides anything."""
# ruff: noqa: N818 - the names are what a caller reads in an except clause

from __future__ import annotations

from tandemq.errors import TandemqError
from tandemq.twin.digests import Compared, shown


class TwinFault(TandemqError):
    """Base of what a twin stops with, besides errors of the manager. Repeating it as it is does not help."""

    def __init__(self, reason: str, message: str, **facts: str) -> None:
        super().__init__(reason, message, facts, definite=True)


class TwinsDiffer(TwinFault):
    """DIVERGENCE: the two went two ways. `number`: the input up to which their outputs were compared; `equal`: the one
    up to which they are known to be the same, 0 where none is (K8, K9).
    """

    def __init__(self, name: str, compared: Compared, where: str = "") -> None:
        number, own, other, equal = compared
        same = f"up to input {equal} they are the same" if equal else "up to where they are the same is not known"
        text = (
            f"up to input {number} this process made outputs with digest {shown(own)}, and its twin, which came first, "
            f"with {shown(other)}; {same}{where}; see docs/TWINS.md, What differs"
        )
        facts = {"number": str(number), "own": shown(own), "other": shown(other), "equal": str(equal)}
        super().__init__("DIVERGENCE", f"twins {name}: {text}", **facts)
        self.number, self.own, self.other, self.equal = compared


class TwinVersion(TwinFault):
    """TWIN_MISMATCH: a snapshot or the other twin is of a version that is not allowed (K7)."""

    def __init__(self, name: str, own: str, other: str, whose: str) -> None:
        text = f"twins {name}: this process is version {own!r}, and {whose} is of {other!r}; "
        super().__init__("TWIN_MISMATCH", text + "allow it by name, if both do the same", own=own, other=other)


class StateMissing(TwinFault):
    """TWIN_STATE_LOST: inputs are gone that no snapshot here has seen (K10)."""


class InputMissing(TwinFault):
    """TWIN_SKIPPED: an input that should have come did not."""


class OutputsMissing(TwinFault):
    """TWIN_OUTPUTS: the pair does not know of outputs that were acknowledged."""


class OutputsOfOthers(TwinFault):
    """WRITER_TAKEN: outputs under this name were made of another queue, perhaps one of the same name."""


class StateInUse(TwinFault):
    """TWIN_TAKEN: another process has the directory of snapshots."""


class DirectoryFault(TwinFault):
    """TWIN_DIRECTORY: snapshots cannot be read or written."""
