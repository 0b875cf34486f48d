"""Checks of a member of this machine: its configuration, directory, lock and ports; it starts and changes nothing."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tandemq.cli.doctor import machine
from tandemq.cli.doctor.finding import Check, Finding
from tandemq.cli.doctor.places import Local
from tandemq.cli.view import MemberView
from tandemq.config import ConfigError, ManagerConfig, parse_address
from tandemq.config_origin import DEFAULT
from tandemq.exposed import plain_ports

CONFIG = Check("config", "a member with a configuration that cannot work does not start")
STORE = Check("store", "everything that was acknowledged is in there; one process at a time may have it")
PORTS = Check("ports", "clients, the peer and health checks come in there")
EXPOSURE = Check("exposure", "whoever reaches a plain port reads everything, and may do everything")
LOCK_FILE, DATA_FILE = "LOCK", "data.mdb"
CONNECT_S = 1.0


def check(local: Local, members: Mapping[str, MemberView]) -> list[Finding]:
    """All that can be said of one member from here. `members`: those that answered, by endpoint."""
    found = [configuration(local)]
    if local.config is None:
        return found
    config, about = local.config, local.about
    found.append(exposure(config, about))
    found += machine.disk(Path(config.data_dir), config.limits.map_bytes, about)
    holder, finding = store(config, about)
    found.append(finding)
    running = members.get(config.endpoint)
    own = running is not None and running.name == config.member
    found.append(ports(config, about, runs=holder is not None, answers=own))
    if holder:
        found.append(_limits(holder, about))
    return found


def configuration(local: Local) -> Finding:
    """Whether it can be used, and where it comes from."""
    if local.config is None:
        return CONFIG.fail(local.source, local.problem, "correct it, and see `tandemq config check`")
    origins = [each.origin for each in local.settings if each.origin != DEFAULT]
    summary = ", ".join(f"{origins.count(origin)} of {origin}" for origin in dict.fromkeys(origins))
    by_key = {each.key: each.origin for each in local.settings if each.origin != DEFAULT}
    return CONFIG.ok(local.about, f"valid; values: {summary or 'defaults alone'}, the rest defaults", origins=by_key)


def exposure(config: ManagerConfig, about: str) -> Finding:
    """Whether it lets strangers in because its configuration says that they may come."""
    far = plain_ports(config)
    if not far:
        how = "with certificates" if config.security.credentials else "on this machine alone"
        if config.insecure_network:
            text = f"served {how}, and insecure_network is set, which would let it be otherwise"
            return EXPOSURE.warn(about, text, "take insecure_network away")
        return EXPOSURE.ok(about, f"served {how}")
    text = f"insecure_network: {', '.join(f'{name} = {value}' for name, value in far.items())} in clear text"
    step = "give it certificates ([security] credentials), see docs/SECURITY.md"
    return EXPOSURE.warn(about, text, f"{step}; then take insecure_network away", **far)


# -- store -------------------------------------------------------------------------------------------------------------


def store(config: ManagerConfig, about: str) -> tuple[int | None, Finding]:
    """Who has the directory (0: somebody unknown, None: nobody), and whether it can be opened."""
    directory = Path(config.data_dir)
    if not (directory / DATA_FILE).exists():
        text = f"{directory} holds no store; a member that starts there is new and empty"
        return None, STORE.warn(about, text, "if it had data before, find out where that is before you start it")
    try:
        holder = holder_of(directory)
    except OSError as error:
        return None, STORE.fail(about, f"{directory}: {error.strerror}", "run this as the user of the member")
    if holder is not None:
        process = f"process {holder}" if holder else "a process"
        return holder, STORE.ok(about, f"{directory}: {process} has it", pid=holder)
    return None, _opened(directory, config, about)


def holder_of(directory: Path) -> int | None:
    """The process that has the lock of this directory, 0 when it did not say who it is; None: nobody has it."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else 0
    finally:
        os.close(descriptor)
    return None


def _opened(directory: Path, config: ManagerConfig, about: str) -> Finding:
    from tandemq.embedded import server_path

    server_path()
    from storage.disk import open_to_read
    from storage.doubt import said
    from storage.errors import DirectoryInUse, StorageError
    from storage.store import META_MEMBER, META_PAIR

    try:
        with closing(open_to_read(directory)) as opened:
            pair, member = ((opened.get_meta(key) or b"").decode() for key in (META_PAIR, META_MEMBER))
            used = opened.usage().used_bytes
            doubts = said(opened.doubts)
    except DirectoryInUse as error:
        return STORE.ok(about, str(error))
    except (StorageError, OSError) as error:
        step = "keep it as it is, and take everything from the peer or a backup; see `tandemq backup verify`"
        return STORE.fail(about, str(error), step)
    if (pair, member) != (config.pair, config.member):
        text = f"{directory} is of member {member} of pair {pair!r}, this is {config.member} of {config.pair!r}"
        return STORE.fail(about, text, "correct manager.data_dir, or manager.pair and manager.member")
    if doubts:
        step = "start it while its peer is there: what is missing here it takes from it"
        return STORE.warn(about, f"the last writes in {directory} are in doubt: {doubts}", step)
    step = f"start it: `tandemq serve`, with the configuration of {config.member}"
    return STORE.warn(about, f"{directory} can be opened ({used:,} bytes), and nobody runs on it", step)


# -- ports -------------------------------------------------------------------------------------------------------------


def ports(config: ManagerConfig, about: str, *, runs: bool, answers: bool) -> Finding:
    """Whether the member's own ports are open while it runs, and free while it does not."""
    listening = {
        name: address
        for name in ("listen_client", "listen_peer", "listen_http", "listen_bearer")
        if (address := getattr(config, name)) and not (name == "listen_peer" and not config.pair)
    }
    taken = {name: address for name, address in listening.items() if accepts(address)}
    summary = ", ".join(f"{name} {address}" for name, address in listening.items())
    if not config.server_required:
        return PORTS.ok(about, "it has no ports, by manager.server_required = false")
    if not runs and not answers:
        if taken:
            busy = ", ".join(f"{name} {address}" for name, address in taken.items())
            return PORTS.fail(about, f"it does not run, and another has {busy}", "stop that, or choose other ports")
        return PORTS.ok(about, f"free for it: {summary}")
    closed = [f"{name} {address}" for name, address in listening.items() if name not in taken]
    if closed:
        return PORTS.fail(about, f"it runs, and nobody listens at {', '.join(closed)}", "look at its log")
    if not answers:
        text = f"it runs and listens at {summary}, and does not say how it does"
        return PORTS.fail(about, text, "look at its log; it may hang on its disk")
    return PORTS.ok(about, f"open: {summary}")


def accepts(address: str) -> bool:
    """Somebody takes connections there."""
    try:
        where = parse_address(address, "address")
        with socket.create_connection((reachable_host(where.host), where.port), CONNECT_S):
            return True
    except (OSError, ConfigError):
        return False


def reachable_host(host: str) -> str:
    """What is bound to every address is reached by loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a name to compare with, not to bind


def _limits(pid: int, about: str) -> Finding:
    try:
        return machine.open_files(machine.open_files_of(pid), about)
    except (OSError, ValueError) as error:
        return machine.FILES.skipped(about, str(error), "run this as the user of the member")
