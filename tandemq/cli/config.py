"""Shows what a manager's configuration is, where it comes from and whether it can start; opens neither a port nor a
directory.

`where.py` is the side of clients: which manager they would use.
"""

from __future__ import annotations

import click

from tandemq.cli.finding import where
from tandemq.cli.output import print_facts, print_file, print_rows
from tandemq.cli.params import output_option
from tandemq.escaping import json_text

_file_option = click.option(
    "--config", "file", metavar="FILE", help="Default: the user's tandemq.toml, then the system's."
)


@click.group()
def config() -> None:
    """See and check a manager's configuration, and see which manager clients find."""


config.add_command(where)


@config.command()
@_file_option
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


@config.command()
@_file_option
@click.option("--origin", is_flag=True, help="Also say which file or variable each value comes from.")
@click.option("--changed", is_flag=True, help="Only what is not a default.")
@output_option()
def show(file: str | None, output: str, *, origin: bool, changed: bool) -> None:
    """Print each key that is in force under its name in the file.

    Options of `serve` win over TANDEMQ_SECTION_KEY variables, and these over the file.

    \b
    Example: tandemq config show --config a.toml --origin
             tandemq config show --changed -o json
    """
    from tandemq.cli.failure import Failure
    from tandemq.config import ConfigError, find_file
    from tandemq.config_origin import DEFAULT, settings

    try:
        found = settings(find_file(file))
    except ConfigError as error:
        raise Failure(error.reason, error.message) from error
    rows = [
        {"key": each.key, "value": each.value} | ({"origin": each.origin} if origin else {})
        for each in found
        if not changed or each.origin != DEFAULT
    ]
    print_rows(rows, "settings", output, ("key", "value", "origin") if origin else ("key", "value"))


@config.command()
def schema() -> None:
    """Print the JSON Schema of tandemq.toml, for editors and for checks before a roll-out.

    Example: tandemq config schema > tandemq.schema.json
    """
    from tandemq.config_origin import schema as schema_of

    print_file(json_text(schema_of(), indent=2) + "\n")
