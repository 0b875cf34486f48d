"""Runs the tests in an order drawn from a seed, `--shuffle SEED`: files, in each its classes, in each its tests.

A test has the same place among others whichever of them run, so a part of a run that failed fails alike. What pytest
puts together for the sake of a parametrised fixture of a wide scope stays together: pytest sorts after this.
In several processes each file goes to whichever is free, in this order; `-n 0` repeats all of it exactly.
"""

from __future__ import annotations

import hashlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run files, and the tests in each, in an order drawn from it")


def pytest_configure(config: pytest.Config) -> None:
    """The order of the files is ours, not that of their sizes (pytest-xdist)."""
    if seed_of(config) is not None and hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = seed_of(config)
    return None if seed is None else f"order: --shuffle {seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = seed_of(config)
    if seed is not None:
        items.sort(key=lambda item: place(seed, item.nodeid))


def seed_of(config: pytest.Config) -> str | None:
    seed: str | None = config.getoption("--shuffle")
    return seed


def place(seed: str, nodeid: str) -> tuple[bytes, ...]:
    """Where a test stands: what is drawn for its file, for each class around it, and for itself."""
    names, bracket, parameters = nodeid.partition("[")
    *around, name = names.split("::")
    ways = [around[: depth + 1] for depth in range(len(around))]
    ways.append([*around, name + bracket + parameters])
    return tuple(hashlib.sha256("::".join([seed, *way]).encode()).digest() for way in ways)
