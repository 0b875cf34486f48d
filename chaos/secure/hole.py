"""The product's command line with holes in its rights: what the demo and the hostile inputs must find.

`python -m chaos.secure.hole serve --config FILE`. The product's own command has no such way.
"""

from __future__ import annotations

import os

from tandemq.cli import main
from tandemq.cli.output import say
from tandemq.grpc_engine import as_server


def run() -> None:
    """With gRPC as the product's own command has it: which TLS it takes is read when it is imported."""
    with as_server(os.environ):
        from chaos.sim.bugs.planting import Planter
        from chaos.sim.bugs.rights import HOLES
    planter = Planter()
    for hole in HOLES:
        say(f"PLANTED HOLE: {hole.__doc__}", err=True)
        hole(planter)
    main()


if __name__ == "__main__":
    run()
