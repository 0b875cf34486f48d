"""Prints what a process is in, as JSON, so that two ways to start one can be compared."""

from __future__ import annotations

import json
import locale
import os
import resource
import signal
import sys
import threading
from pathlib import Path


def reflection() -> dict[str, object]:
    """All that whoever started this process decides, without what differs from one process to the next."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the listing's own descriptor is gone when it is read
        try:
            descriptors[name] = str(Path(f"/proc/self/fd/{name}").readlink()).partition(":")[0]
        except OSError:
            continue
    return {
        "argv": sys.argv,
        "path": sys.path,
        "safe_path": sys.flags.safe_path,
        "directory": str(Path.cwd()),
        "environment": dict(os.environ),
        "leads_its_group": os.getpgid(0) == os.getpid(),
        "descriptors": descriptors,
        "signals": {name: status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")},
        "handlers": {number.name: str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)},
        "threads": [status["Threads"].strip(), threading.active_count()],
        "limits": [resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
        "streams": [each.encoding for each in (sys.stdin, sys.stdout, sys.stderr)],
        "errors": [each.errors for each in (sys.stdin, sys.stdout, sys.stderr)],
        "locale": [locale.setlocale(each) for each in (locale.LC_CTYPE, locale.LC_TIME, locale.LC_NUMERIC)],
        "umask": status["Umask"].strip(),
        "recursion": sys.getrecursionlimit(),
        "warnings": sys.warnoptions,
        "main": sys.modules["__main__"].__file__,
        "hooks": [str(sys.excepthook), str(threading.excepthook)],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(reflection()))
