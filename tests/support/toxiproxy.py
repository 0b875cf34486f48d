"""Where the real Toxiproxy is; tests that need it are skipped loudly without it, and fail where it must be there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.toxiproxy import find_server, package_is_there

REQUIRED = "TANDEMQ_CHAOS_REQUIRED"


def toxiproxy_program() -> Path:
    """The server's program."""
    program = find_server()
    if program is not None and package_is_there():
        return program
    missing = "toxiproxy-server (`make chaos-deps`)" if program is None else "toxiproxy-python (`make venv`)"
    if os.environ.get(REQUIRED, "") not in ("", "0"):
        pytest.fail(f"{missing} is missing, and {REQUIRED} is set")
    pytest.skip(f"CHAOS NOT TESTED: {missing} is missing")
