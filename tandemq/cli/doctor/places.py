"""Which configurations and which members the doctor looks at; it asks nobody and judges nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tandemq.config import ConfigError, ManagerConfig, find_file, load, variable_of
from tandemq.config_origin import Setting, settings

LOGS, LOG_ENDING = "logs", ".log"  # where `tandemq dev` keeps what its processes say


class Local(NamedTuple):
    """The configuration of a member of this machine."""

    source: str  # its file, or "environment"
    config: ManagerConfig | None
    settings: tuple[Setting, ...] = ()
    problem: str = ""  # why it cannot be used; then there is no `config`

    @property
    def about(self) -> str:
        """For findings."""
        return f"member {self.config.member}" if self.config is not None else self.source


class Places(NamedTuple):
    """Everything that is looked at."""

    locals: tuple[Local, ...]
    endpoints: tuple[str, ...]  # of members, for clients
    named_by: str  # what named the endpoints; empty when nothing did
    witnesses: tuple[str, ...] = ()
    logs: tuple[Path, ...] = ()
    problem: str = ""  # why nobody could be found to ask
    credentials: str = ""  # of who asks, where the current context has some for these members


def find(
    files: Sequence[str], target: str | None, logs: Sequence[Path] = (), environ: Mapping[str, str] = os.environ
) -> Places:
    """What was named, else what a command or a manager of this user would find by itself."""
    context = _context()
    paths = [Path(file) for file in files] or _usual_files(context, environ)
    found = tuple(read(path, environ) for path in paths)
    if not paths and any(variable_of("manager", name) in environ for name in ("member", "data_dir")):
        found = (read(None, environ),)
    if not logs and not files and (data_dir := context.get("data_dir")):
        logs = sorted((Path(data_dir) / LOGS).glob(f"*{LOG_ENDING}"))
    configs = [each.config for each in found if each.config is not None]
    endpoints, named_by, problem, credentials = _endpoints(target, configs)
    witnesses = dict.fromkeys(config.witness for config in configs if config.witness)
    if not witnesses and not configs and (named := context.get("witness")):
        witnesses = {named: None}
    return Places(found, endpoints, named_by, tuple(witnesses), tuple(logs), problem, credentials)


def read(path: Path | None, environ: Mapping[str, str] = os.environ) -> Local:
    """A configuration as `serve` would take it, or what is wrong with it."""
    source = str(path) if path is not None else "environment"
    try:
        if path is not None:
            find_file(str(path), environ)
        return Local(source, load(path, environ=environ), tuple(settings(path, environ)))
    except ConfigError as error:
        return Local(source, None, problem=error.message)


def _usual_files(context: Mapping[str, Any], environ: Mapping[str, str]) -> list[Path]:
    """The user's or the system's, and those of the pair that `tandemq dev` runs."""
    usual = find_file(None, environ)
    found = [usual] if usual is not None else []
    if data_dir := context.get("data_dir"):
        names = context.get("pids", {})
        found += [path for name in sorted(names) if (path := Path(data_dir) / f"{name}.toml").is_file()]
    return found


def _context() -> dict[str, Any]:
    """The current context; empty when there is none that can be read."""
    from tandemq.cli import context

    try:
        return context.read(context.current_path())
    except (OSError, ValueError):
        return {}


def _endpoints(target: str | None, configs: Sequence[ManagerConfig]) -> tuple[tuple[str, ...], str, str, str]:
    """Endpoints, what named them, why there are none, and the context's credentials for them."""
    from tandemq.client.target import NoTarget
    from tandemq.finding.default import resolve_target

    named = dict.fromkeys(each for config in configs for each in (config.endpoint, config.peer_endpoint) if each)
    by_config = target is None and bool(configs)
    if by_config and not named:
        return (), "the configuration", "", ""
    try:
        found = resolve_target(",".join(named) if by_config else target)
    except NoTarget as error:
        return (), "", str(error), ""
    if by_config:
        return tuple(named), "the configuration", "", found.credentials
    if found.endpoints:
        return found.endpoints, found.source, "", found.credentials
    if found.candidates:
        return found.candidates[0].endpoints, found.source, "", found.credentials
    problem = f"{found} is a name that has to be looked up: see `tandemq config where {found}`, then give --target"
    return (), "", problem, ""
