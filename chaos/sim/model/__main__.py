"""`python -m chaos.sim.model`; see `chaos.sim.model.cli`."""

import sys

from chaos.sim.model.cli import main

sys.exit(main())
