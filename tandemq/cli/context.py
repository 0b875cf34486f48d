"""Decides where a development pair is remembered, and which one clients of this user find; it starts nothing.

`<data-dir>/context.toml` describes one pair; the copy beside the user's configuration is the current one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import socket
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CONTEXT_FILE = "context.toml"
STARTING_FILE = "dev-starting.lock"
# A socket's path is limited to 107 bytes on Linux and 103 on macOS.
SOCKET_PATH_BYTES_MAX = 100


def control_path(data_dir: Path) -> Path:
    """Where the supervisor of this data directory listens; elsewhere when the directory's own path is too long."""
    path = data_dir.resolve() / "control.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    name = hashlib.blake2b(os.fsencode(data_dir.resolve()), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"tandemq-{os.getuid()}-{name}.sock"


def command_in(data_dir: Path, *words: str) -> str:
    """As it is typed in a shell: a directory may have a space in its name."""
    return shlex.join(["tandemq", "dev", "--data-dir", str(data_dir), *words])


def runs(data_dir: Path) -> bool:
    """A supervisor answers in this directory."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(control_path(data_dir))) == 0


def write(
    data_dir: Path,
    target: str,
    pair: str,
    pids: Mapping[str, int],
    *,
    witness: str = "",
    toxiproxy: str = "",
    credentials: str = "",
) -> None:
    """Describes the pair in its data directory. `credentials`: of this user there; empty: it is plain."""
    from tandemq.config import toml_value

    facts = {"target": target, "pair": pair, "data_dir": str(data_dir.resolve()), "witness": witness}
    if toxiproxy:
        facts["toxiproxy"] = toxiproxy
    if credentials:
        facts["credentials"] = credentials
    lines = [f"{name} = {toml_value(value)}" for name, value in facts.items()]
    lines += ["", "[pids]", *(f"{name} = {pid}" for name, pid in pids.items()), ""]
    _replace(data_dir / CONTEXT_FILE, "\n".join(lines))


def make_current(data_dir: Path) -> Path:
    """Lets clients without --target and TANDEMQ_TARGET find this pair."""
    path = current_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, (data_dir / CONTEXT_FILE).read_text(encoding="utf-8"))
    return path


def forget(data_dir: Path) -> None:
    """Takes the pair back as the current one, unless another has become it."""
    with contextlib.suppress(FileNotFoundError):
        if read(current_path()).get("data_dir") == str(data_dir.resolve()):
            current_path().unlink()


@contextlib.contextmanager
def starting_in(data_dir: Path) -> Iterator[None]:
    """Lets commands of this user know that a pair is being started, until the block ends or the process does."""
    from tandemq.cli.holding import held

    path = current_path().with_name(STARTING_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path, str(data_dir)) as is_ours:  # of two that start at a time one is refused
        try:
            yield
        finally:
            if is_ours:
                path.unlink(missing_ok=True)


def starting() -> str | None:
    """The data directory of the pair that is being started; None: there is none."""
    from tandemq.cli.holding import holder

    return holder(current_path().with_name(STARTING_FILE))


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def current_path() -> Path:
    from tandemq.config import client_directory

    return client_directory(os.environ) / CONTEXT_FILE


def _replace(path: Path, text: str) -> None:
    """All or nothing: a client may read at any moment."""
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
