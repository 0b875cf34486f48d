"""A process of Tandemq without what is named first: `python -m bench.levers.switched short-commits serve ...`."""

from __future__ import annotations

import os
import sys

from tandemq.grpc_engine import without_event_engine

if __name__ == "__main__":
    with without_event_engine(os.environ):  # as what serves does, before a switch imports it
        import grpc  # noqa: F401

    from bench.levers.table import switch_off
    from tandemq.cli import main

    switch_off(sys.argv.pop(1))
    main()
