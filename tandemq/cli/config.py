"""Shows whether a manager could start with its configuration; opens neither a port nor a directory."""

from __future__ import annotations

import click

from tandemq.cli.output import print_facts
from tandemq.cli.params import output_option


@click.group()
def config() -> None:
    """Check a manager's configuration."""


@config.command()
@click.option("--config", "file", metavar="FILE", help="Default: the user's tandemq.toml, then the system's.")
@output_option()
def check(file: str | None, output: str) -> None:
    """Read the configuration as `serve` would and print what is in force, or what is wrong with it.

    Example: tandemq config check --config a.toml
    """
    import msgspec

    from tandemq.cli.serve import load_config

    facts = msgspec.to_builtins(load_config(file, {}))
    nested = {f"{section}.{name}": facts[section][name] for section in ("timers", "limits") for name in facts[section]}
    flat = {name: value for name, value in facts.items() if name not in ("timers", "limits")} | nested
    print_facts(flat if output == "table" else facts, output)
