"""A name that gets another address is asked for again in time: for witness, etcd, peer, forwarding and clients, however
names are resolved. The tests themselves are in names_inside.py, which needs a network of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.names import run_inside, why_not_inside

INSIDE = Path(__file__).with_name("names_inside.py")
RESOLVERS = {"of gRPC": {}, "of the system": {"GRPC_DNS_RESOLVER": "native"}}
pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(260)]


def run(folder: Path, choice: str, resolver: str) -> None:
    if why := why_not_inside():
        pytest.skip(f"SKIPPED, NOT PASSED: no network of its own on this machine: {why}")
    done = run_inside(folder, str(INSIDE), "-k", choice, **RESOLVERS[resolver])
    print(done.stdout)  # noqa: T201
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_names_move(tmp_path: Path, resolver: str) -> None:
    run(tmp_path, "not pair", resolver)


def test_a_pair_of_names_that_move(tmp_path: Path) -> None:
    run(tmp_path, "pair", "of gRPC")
