"""Opens a manager inside the caller's process, and clients that call it directly; no client imports it.

It is the only door to the server's code.

The server's folders have short names (`replica`, `storage`, ...). In a checkout they are importable as they are; in an
installed wheel they live under `tandemq/_server`, which `server_path` puts first on `sys.path`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tandemq.config import ConfigError, ManagerConfig, check

if TYPE_CHECKING:
    from replica.manager import Manager
    from tandemq.client.aio import Client as AioClient
    from tandemq.client.blocking import Client as BlockingClient

SERVER_FOLDERS = ("replica", "storage", "failover", "chaos", "pipeline")


def server_path() -> Path:
    """Makes the server's folders importable and returns the folder they are in; may be repeated.

    Raises ConfigError when modules of those names are loaded that are not ours: ours would then not be found.
    """
    package = Path(__file__).resolve().parent
    installed = package / "_server"
    home = installed if installed.is_dir() else package.parent
    for name in SERVER_FOLDERS:
        _check_ours(name, home)
    if home == installed and str(installed) not in sys.path:
        sys.path.insert(0, str(installed))
        importlib.invalidate_caches()
    return home


def _check_ours(name: str, home: Path) -> None:
    module = sys.modules.get(name)
    if module is None:
        return
    places = [Path(place).resolve() for place in getattr(module, "__path__", [])]
    if (home / name).resolve() not in places:
        raise ConfigError(
            f"a module named {name} is loaded that is not Tandemq's ({module!r}); run the manager in a process of its "
            "own with `tandemq serve`, or open it before that module is imported"
        )


@contextlib.asynccontextmanager
async def open_manager(config: ManagerConfig) -> AsyncIterator[Manager]:
    """A running manager until the block ends. It has its ports and its data directory to itself.

    Raises ConfigError for a configuration that cannot work, and what `Manager.start` raises.
    """
    check(config)
    server_path()
    from replica.manager import Manager

    manager = Manager(config)
    await manager.start()
    try:
        yield manager
    finally:
        await manager.stop()


@contextlib.contextmanager
def open_client(config: ManagerConfig, *, timeout: float = 30.0) -> Iterator[BlockingClient]:
    """A manager on a thread of its own until the block ends, and the blocking client of it: nothing else is needed.

    Raises what `open_manager` raises.
    """
    from tandemq.client.blocking import Client
    from tandemq.client.loop_thread import LoopThread

    thread = LoopThread(f"tandemq {config.member}")
    stack = contextlib.AsyncExitStack()

    async def start() -> AioClient:
        return connect(await stack.enter_async_context(open_manager(config)), timeout=timeout)

    try:
        try:
            with Client(thread.run(start()), thread) as client:
                yield client
        finally:
            thread.run(stack.aclose())
    finally:
        thread.close()


def connect(manager: Manager, *, timeout: float = 30.0, attempt_timeout: float = 5.0) -> AioClient:
    """A client of a manager of this process: its calls open no connection and leave no trace on any network.

    Everything else is as with `tandemq.aio.connect`. It belongs to the event loop that runs the manager. When the
    manager is half of a pair, the other member is asked when this one does not answer. The manager must be started.
    """
    from tandemq import retry
    from tandemq.client.aio import Client
    from tandemq.client.target import INSIDE
    from tandemq.finding.target import Target
    from tandemq.inside import inside_opener

    inside = f"{INSIDE}{manager.config.member}"
    outside = manager.access.opener()  # with the manager's credentials, where it has some
    direct = manager.channel()  # refuses a manager that is not there, now and not at the first call

    opened = inside_opener(inside, direct, outside)  # type: ignore[arg-type]  # in the shape of a channel
    others = (manager.config.peer_endpoint,) if manager.config.paired else ()
    named = manager.config.pair or manager.config.member
    target = Target((inside, *others), "a manager in this process", pair=named)
    return Client(target, retry.Policy(total_s=timeout, attempt_s=attempt_timeout), open_channel=opened)
