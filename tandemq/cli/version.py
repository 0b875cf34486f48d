"""Prints which versions are in use; asks no server."""

from __future__ import annotations

import click

from tandemq.cli.output import print_facts
from tandemq.cli.params import output_option

PACKAGES = ("tandemq", "grpcio", "protobuf", "lmdb", "msgspec")


@click.command()
@output_option()
def version(output: str) -> None:
    """Print the versions of Tandemq, Python and the libraries that matter.

    Example: tandemq version -o json
    """
    import platform
    from importlib import metadata

    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = ""
    print_facts({**found, "python": platform.python_version(), "platform": platform.platform()}, output)
