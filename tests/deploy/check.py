"""What deploy/ ships, looked at by the tools that will read it: `make deploy-check`; names of checks run only these.

It needs a network the first time, and on Debian no rights: what is not on PATH is unpacked below build/deploy/. A tool
that cannot be had fails the check; only HAProxy, on which nothing else depends, is skipped and said so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import tandemq
from chaos.cluster import CLIENT, WITNESS, Cluster
from chaos.ports import port_is_free
from tandemq.config import member_ports
from tandemq.credentials.development import prepare
from tandemq.credentials.names import member
from tests.deploy.samples import DEPLOY, ROOT, expressions_of_dashboard, expressions_of_rules

PLACE = ROOT / "build" / "deploy"
# Kubernetes' own schemas, in a wheel; those of cert-manager and of the Compose specification, in the modules that
# implement them.
KUBERNETES_VALIDATE, KUBERNETES = "kubernetes-validate==1.37.0", "1.33"
CERT_MANAGER_MODULE = "github.com/cert-manager/cert-manager@v1.19.1"
COMPOSE_MODULE = "github.com/compose-spec/compose-go/v2@v2.16.2"
EXPOSURE_MAX = 1.5  # of systemd-analyze security, from 0 (safest) to 10; below 4 it says OK
PROMETHEUS_PORT = 9199
LIVE_S, POLL_S = 60.0, 0.5
PEOPLE = {
    **{name: member("orders", name) for name in ("a", "b")},
    WITNESS: "witness/witness",
    CLIENT: "principal/ops",
    "prometheus": "principal/prometheus",
}
OF_CERT_MANAGER = """
import sys, pathlib, jsonschema, yaml
kinds = {}
for path in pathlib.Path(sys.argv[1]).glob("cert-manager.io_*.yaml"):
    for found in yaml.safe_load_all(path.read_text()):
        kinds[found["spec"]["names"]["kind"]] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
def closed(schema):  # a property that nobody knows is a mistake
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        for each in schema.values():
            closed(each)
for kind in kinds.values():
    kind["properties"]["metadata"] = {}
    closed(kind)
documents = [each for each in yaml.safe_load_all(open(sys.argv[2])) if each]
for each in documents:
    jsonschema.validate(each, kinds[each["kind"]])
print(len(documents))
"""


class Skipped(Exception):  # noqa: N818 - an answer, not a fault
    """The tool is not here, and cannot be had."""


class Failed(Exception):  # noqa: N818 - as above
    """What was looked at is wrong, or could not be looked at."""


def run(*command: str | Path, where: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=where,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def unpacked(package: str, program: str, *libraries: str) -> Path:
    """A program of a Debian package: of PATH, else unpacked and not installed, so that nothing is started."""
    if found := shutil.which(program):
        return Path(found)
    place = PLACE / package
    for each in [place / folder / program for folder in ("usr/bin", "usr/sbin")]:
        if each.exists():
            return each
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Skipped(f"{program} is not on PATH, and only Debian's package {package} is known here")
    downloads = place / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    run("apt-get", "download", package, *libraries, where=downloads)
    for archive in downloads.glob("*.deb"):
        run("dpkg-deb", "-x", archive, place)
    return unpacked(package, program)


def with_schemas() -> Path:
    """A Python that has Kubernetes' schemas, YAML and JSON Schema."""
    python = PLACE / "venv" / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", "--without-pip", PLACE / "venv")
    try:
        run(python, "-c", "import kubernetes_validate")
    except Failed:
        # Not under the project's own constraints: this environment is not the project's.
        run(sys.executable, "-m", "pip", "--python", python, "install", "-q", KUBERNETES_VALIDATE, PIP_CONSTRAINT="")
    return python


def systemd() -> str:
    if not shutil.which("systemd-analyze"):
        raise Failed("systemd-analyze is not on PATH")
    with tempfile.TemporaryDirectory() as folder:
        # `verify` wants the programs to exist where systemd looks: for it alone they are /bin/true.
        copies = []
        for path in sorted((DEPLOY / "systemd").glob("*.service")):
            copy = Path(folder) / path.name.replace("@", "@a")
            copy.write_text(path.read_text(encoding="utf-8").replace("ExecStart=tandemq ", "ExecStart=/bin/true "))
            copies.append(copy)
        if said := run("systemd-analyze", "verify", "--man=no", *copies).strip():
            raise Failed(said)
        exposures = []
        for copy in copies:
            text = run("systemd-analyze", "security", "--offline=true", "--no-pager", copy)
            found = re.search(r"Overall exposure level .*: ([0-9.]+)", text)
            if found is None or float(found[1]) > EXPOSURE_MAX:
                raise Failed(f"{copy.name}: exposure above {EXPOSURE_MAX}\n{text}")
            exposures.append(f"{copy.name} {found[1]}")
    return f"verified; exposure {', '.join(exposures)}"


def kubernetes() -> str:
    python = with_schemas()
    files = [path for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if path.stem != "kustomization"]
    ours = [path for path in files if path.stem != "certificates"]
    run(python.parent / "kubernetes-validate", "--strict", "-k", KUBERNETES, *ours)
    schemas = Path(_module(CERT_MANAGER_MODULE)) / "deploy" / "crds"
    certificates = run(python, "-c", OF_CERT_MANAGER, schemas, DEPLOY / "kubernetes" / "certificates.yaml").strip()
    wanted = r"(?m)^  - ([a-z-]+\.yaml)$"
    named = set(re.findall(wanted, (DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8")))
    if named != {path.name for path in files}:
        raise Failed(f"kustomization.yaml names {sorted(named)}")
    return f"{len(ours)} files, strictly, against the schemas of {KUBERNETES}; {certificates} of cert-manager"


def _module(name: str) -> str:
    """Its directory."""
    if not shutil.which("go"):
        raise Failed(f"go is not on PATH: the schema comes as a Go module, {name}")
    folder: str = json.loads(run("go", "mod", "download", "-json", name, where=Path(tempfile.gettempdir())))["Dir"]
    return folder


def compose() -> str:
    folder = _module(COMPOSE_MODULE)
    program = (
        "import json, sys, jsonschema, yaml; schema = json.load(open(sys.argv[1])); "
        "jsonschema.validate(yaml.safe_load(open(sys.argv[2])), schema)"
    )
    run(with_schemas(), "-c", program, Path(folder) / "schema" / "compose-spec.json", DEPLOY / "compose.yaml")
    return f"against the schema in {COMPOSE_MODULE}"


def prometheus() -> str:
    promtool = unpacked("prometheus", "promtool")
    folder = DEPLOY / "prometheus"
    said = run(promtool, "check", "rules", folder / "tandemq.rules.yml")
    with _certificates() as credentials:
        shutil.copytree(folder, credentials.parent, dirs_exist_ok=True)  # the configuration names them beside itself
        run(promtool, "check", "config", credentials.parent / "prometheus.yml")
    run(promtool, "test", "rules", folder / "tandemq.test.yml", where=folder)
    return " ".join(said.split()[-3:])


def haproxy() -> str:
    program = unpacked("haproxy", "haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
    libraries = PLACE / "haproxy" / "usr" / "lib"
    path = ":".join(str(each) for each in [libraries, *libraries.glob("*-linux-gnu")])
    with _certificates() as credentials:
        text = (DEPLOY / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")
        text = text.replace("/etc/haproxy/tandemq", str(credentials / "prometheus"))
        (configuration := credentials.parent / "haproxy.cfg").write_text(text, encoding="utf-8")
        run(program, "-c", "-f", configuration, LD_LIBRARY_PATH=path)
    return "configuration is valid"


@contextlib.contextmanager
def _certificates() -> Iterator[Path]:
    """A directory `credentials` with everybody's, in a folder that is ours."""
    with tempfile.TemporaryDirectory(prefix="tandemq-deploy-") as name:
        prepare(Path(name) / "credentials", Path(name) / "authority", PEOPLE)
        yield Path(name) / "credentials"


@contextlib.contextmanager
def _scraping(cluster: Cluster, folder: Path) -> Iterator[str]:
    """A Prometheus with our rules that scrapes this pair; its address."""
    if not port_is_free(PROMETHEUS_PORT):
        raise Failed(f"port {PROMETHEUS_PORT} is in use")
    configuration = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    for ordinal, name in enumerate(cluster.members):
        port = member_ports(cluster.base_port, ordinal).http
        configuration = configuration.replace(f'"{name}:7602"', f'"127.0.0.1:{port}"')
    configuration = configuration.replace("interval: 5s", "interval: 1s")
    (folder / "prometheus.yml").write_text(configuration, encoding="utf-8")
    shutil.copy(DEPLOY / "prometheus" / "tandemq.rules.yml", folder)
    address = f"127.0.0.1:{PROMETHEUS_PORT}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                unpacked("prometheus", "prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait()


def _ask(url: str) -> dict[str, list[object]]:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        data: dict[str, list[object]] = json.load(answer)["data"]
        return data
    return {}


async def _until(what: str, missing: Callable[[], list[str]]) -> None:
    end = time.monotonic() + LIVE_S
    while left := await asyncio.to_thread(missing):
        if time.monotonic() > end:
            raise Failed(f"{what}, not within {LIVE_S:g} s:\n" + "\n".join(left))
        await asyncio.sleep(POLL_S)


async def _live() -> str:
    with tempfile.TemporaryDirectory(prefix="tandemq-deploy-") as name:
        folder = Path(name)
        prepare(folder / "credentials", folder / "authority", PEOPLE)
        cluster = Cluster(folder / "pair", pair="orders", secured=folder / "credentials", operators=["ops"])
        # Beyond loopback: the port for metrics has TLS.
        ports = {each: member_ports(cluster.base_port, at).http for at, each in enumerate(cluster.members)}
        cluster.settings = {each: {"listen_http": f"0.0.0.0:{port}"} for each, port in ports.items()}
        async with cluster.running():
            async with tandemq.aio.connect(cluster.target, credentials=folder / "credentials" / CLIENT) as client:
                await client.grant_right("prometheus", "observe")
                await client.create_queue("orders")
                await client.enqueue("orders", [b"one", b"two"])
                await client.register_reader("lake")
            with _scraping(cluster, folder) as url:

                def empty() -> list[str]:
                    query = f"{url}/api/v1/query?query="
                    every = expressions_of_dashboard()
                    return [each for each in every if not _ask(query + urllib.parse.quote(each)).get("result")]

                def silent() -> list[str]:
                    firing = {alert["labels"]["alertname"] for alert in _ask(f"{url}/api/v1/alerts").get("alerts", [])}  # type: ignore[index]
                    return sorted({"TandemqMemberDown", "TandemqOneCopy"} - firing)

                await _until("a panel of the dashboard has no data", empty)
                if alerts := _ask(f"{url}/api/v1/alerts")["alerts"]:
                    raise Failed(f"a whole pair gives alarm: {alerts}")
                cluster.kill(next(iter(cluster.members)))
                await _until("no alert is pending after a kill", silent)
    queries, alerts = len(expressions_of_dashboard()), len(expressions_of_rules())
    return f"{queries} queries have data, {alerts} alerts are silent; a kill raises two"


def live() -> str:
    return asyncio.run(_live())


CHECKS = {each.__name__: each for each in (systemd, kubernetes, compose, prometheus, haproxy, live)}


def main(names: list[str]) -> int:
    failed = False
    for name in names or CHECKS:
        try:
            print(f"{name}: {CHECKS[name]()}", flush=True)  # noqa: T201
        except Skipped as skipped:
            print(f"{name}: SKIPPED, NOT LOOKED AT: {skipped}", flush=True)  # noqa: T201
            failed = failed or name != "haproxy"
        except Failed as error:
            print(f"{name}: FAILED: {error}", flush=True)  # noqa: T201
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
