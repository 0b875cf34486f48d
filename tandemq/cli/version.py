"""Prints which versions are in use; asks no server."""

from __future__ import annotations

from collections.abc import Iterable

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

    print_facts({**versions(PACKAGES), "python": platform.python_version(), "platform": platform.platform()}, output)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Of these packages, as they are installed; empty: it is not."""
    from importlib import metadata

    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = ""
    return found
