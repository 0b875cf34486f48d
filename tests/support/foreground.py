"""Gives the suite the signals of a terminal, wherever it is started.

Under nohup SIGHUP is ignored, in the background of a script SIGINT too, and what is ignored stays so over exec: a
process that a test starts, and sends such a signal, would not notice, as is right for whoever asked for nohup. A signal
with a handler is reset over exec instead.
"""

from __future__ import annotations

import signal


def as_in_the_foreground() -> None:
    """From here on processes start with SIGINT and SIGHUP as a terminal's; this one goes on ignoring the hang-up."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
