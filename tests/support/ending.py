"""Ends itself with a signal, so that two ways to start a process can be compared by how they say it."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.kill(os.getpid(), int(sys.argv[1]))
