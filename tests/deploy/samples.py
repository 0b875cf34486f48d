"""Reads what deploy/ ships, as far as plain text goes; the schemas are `make deploy-check`'s."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEPLOY, RUNBOOKS = ROOT / "deploy", ROOT / "docs" / "runbooks"
RULES = DEPLOY / "prometheus" / "tandemq.rules.yml"
DASHBOARD = DEPLOY / "grafana" / "tandemq.json"


def expressions_of_rules() -> dict[str, str]:
    """By alert."""
    text = RULES.read_text(encoding="utf-8")
    found = re.findall(r"- alert: (\w+)\n +expr: '(.*)'\n", text)
    assert len(found) == text.count("- alert:") > 0
    return {name: expression.replace("''", "'") for name, expression in found}


def expressions_of_dashboard() -> list[str]:
    """With a value for each variable: of a single pair `orders`, and the domain `main`."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    return [each.replace("$pair", "orders").replace("$domain", "main") for each in found]


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\btandemq_\w+", expression))


@dataclass(frozen=True, slots=True)
class Unit:
    """What of a systemd unit a process sees."""

    command: list[str]
    watchdog_s: float
    environment: dict[str, str]
    settings: dict[str, list[str]] = field(repr=False)


def unit(name: str, *, instance: str, configuration: Path, state: Path) -> Unit:
    """As systemd reads it for one instance: %E and %S are folders of the test instead of /etc and /var/lib."""
    settings: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            for specifier, meaning in (("%i", instance), ("%E", str(configuration)), ("%S", str(state))):
                value = value.replace(specifier, meaning)
            settings.setdefault(key, []).append(value)
    environment = dict(each.split("=", 1) for each in settings.get("Environment", []))
    for path in settings.get("EnvironmentFile", []):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        environment |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return Unit(
        command=list(_words(settings["ExecStart"][0], environment)),
        watchdog_s=float(settings["WatchdogSec"][0]),
        environment=environment,
        settings=settings,
    )


def _words(command: str, environment: dict[str, str]) -> Iterator[str]:
    """systemd's own rules: ${NAME} stands within a word, $NAME alone becomes as many words as it holds."""
    for word in shlex.split(command):
        if re.fullmatch(r"\$\w+", word):
            yield from shlex.split(environment[word[1:]])
        else:
            yield re.sub(r"\$\{(\w+)\}", lambda found: environment[found[1]], word)
