"""The socket file of a manager: who may, whose it is, and what a killed manager left behind."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replica.listen.unix_socket import UnixSocket
from tandemq.errors import TandemqError


class Bound:
    """Binds as gRPC does, with an open mask."""

    def __init__(self) -> None:
        self.made: list[socket.socket] = []

    def __call__(self, address: str) -> int:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.made.append(made)
        before = os.umask(0)
        made.bind(address.removeprefix("unix:"))
        os.umask(before)
        made.listen()
        return 1


@pytest.fixture
def listen() -> Iterator[Bound]:
    bound = Bound()
    yield bound
    for made in bound.made:
        made.close()


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may be longer than a socket's name
        yield Path(folder) / "s"


def connects(path: Path) -> bool:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_only_whom_its_mode_allows_may_connect(path: Path, listen: Bound, mode: int) -> None:
    place = UnixSocket(str(path), mode)
    place.bind(listen)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert connects(path)
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(".tq-")] == []
    place.close()
    assert not path.exists()
    place.close()


def test_what_a_killed_manager_left_is_cleared(path: Path, listen: Bound) -> None:
    killed = UnixSocket(str(path), 0o600)
    killed.bind(listen)
    listen.made.pop().close()
    assert killed._lock is not None
    os.close(killed._lock)  # the system does both when a process ends
    assert path.is_socket()
    UnixSocket(str(path), 0o600).bind(listen)
    assert connects(path)


def refusal(path: Path, listen: Callable[[str], int]) -> str:
    with pytest.raises(TandemqError) as caught:
        UnixSocket(str(path), 0o600).bind(listen)
    assert caught.value.reason == "PORT_IN_USE"
    assert str(path) in caught.value.message
    return caught.value.message


def test_a_living_manager_keeps_its_socket(path: Path, listen: Bound) -> None:
    place = UnixSocket(str(path), 0o600)
    place.bind(listen)
    assert "another manager serves there" in refusal(path, listen)
    assert connects(path)
    place.close()
    UnixSocket(str(path), 0o600).bind(listen)


def test_a_living_process_that_knows_no_locks_keeps_its_socket(path: Path, listen: Bound) -> None:
    listen(f"unix:{path}")
    assert "another process serves there" in refusal(path, listen)
    assert connects(path)


def test_a_file_that_is_no_socket_stays(path: Path, listen: Bound) -> None:
    path.write_text("precious")
    assert "no socket" in refusal(path, listen)
    assert path.read_text() == "precious"


def test_a_directory_that_is_missing_is_named(path: Path, listen: Bound) -> None:
    assert "No such file" in refusal(path / "deeper", listen)


def test_closing_takes_nothing_that_came_later(path: Path, listen: Bound) -> None:
    place = UnixSocket(str(path), 0o600)
    place.bind(listen)
    path.unlink()
    path.write_text("somebody else's")
    place.close()
    assert path.read_text() == "somebody else's"


def test_a_refused_binding_leaves_the_place_free(path: Path, listen: Bound) -> None:
    assert "cannot be bound" in refusal(path, lambda _address: 0)
    UnixSocket(str(path), 0o600).bind(listen)
