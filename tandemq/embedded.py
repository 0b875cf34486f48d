"""Opens a manager inside the caller's process; the only door to the server's code, and never imported by a client.

The server's folders have short names (`replica`, `storage`, ...). In a checkout they are importable as they are; in an
installed wheel they live under `tandemq/_server`, which `server_path` puts first on `sys.path`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from tandemq.config import ConfigError, ManagerConfig, check

if TYPE_CHECKING:
    from replica.manager import Manager

SERVER_FOLDERS = ("replica", "storage", "failover", "chaos")


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
