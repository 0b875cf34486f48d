"""Runs the simulator's command line as `python -m chaos.sim`, on the product; decides nothing."""

from chaos.sim.tools.cli import root
from chaos.sim.tools.product import of_product

if __name__ == "__main__":
    root(prog_name="python -m chaos.sim", obj=of_product())
