"""Keeps gRPC of a test's own process out of the children that tests fork, as for crash images: before the children do
anything, gRPC would start threads in them, which die of SIGSEGV (decision 0092). It reads that when it is imported.
"""

from __future__ import annotations

import os

from tandemq.grpc_engine import without_fork_support

with without_fork_support(os.environ):
    import grpc.aio  # noqa: F401 - here for the first time
