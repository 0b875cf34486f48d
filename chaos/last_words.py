"""Which lines of a process's log say why it ended; decides nothing about whether it may."""

from __future__ import annotations

from collections.abc import Sequence

FATAL = "Fatal Python error: "
"""What Python writes first, behind all records, when a signal such as SIGSEGV kills it."""
NATIVE = (
    "in a thread of native code, of which Python knows nothing: not in ours (docs/OPERATIONS.md, 'died of a signal')"
)
_RECORD = "{"
_WHERE = "Current thread "
_MODULES = "Extension modules: "


def last_words(lines: Sequence[str], count_max: int) -> list[str]:
    """So many of a log's lines at most: the last ones; of a death by a signal those with which Python begins, as the
    frames at its end are those of whoever started the process.
    """
    began = [at for at, line in enumerate(lines) if line.startswith(FATAL)]
    if not began or any(line.startswith(_RECORD) for line in lines[began[-1] :]):  # of an earlier process
        return list(lines[-count_max:])
    said = [line for line in lines[began[-1] :] if line]
    if any(line.startswith(_WHERE) for line in said):
        return said[:count_max]
    modules = [line for line in said if line.startswith(_MODULES)]
    return [*lines[: began[-1]][-(count_max - 3) :], said[0], NATIVE, *modules]
