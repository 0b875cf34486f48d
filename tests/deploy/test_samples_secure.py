"""What deploy/ ships is secure throughout: no port can be reached from elsewhere without TLS, and everybody has a
certificate with the names that members, witness and clients look for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tandemq.config import ManagerConfig, check, load, parse, parse_address
from tandemq.config_security import Security
from tandemq.credentials import names
from tandemq.credentials.files import read
from tandemq.credentials.own import of_member
from tandemq.credentials.sound import problems
from tests.deploy.samples import DEPLOY, unit

PLAIN = re.compile(r"(?i)insecure")
LISTENING = ("listen_client", "listen_peer", "listen_http", "listen_bearer")


def plain_ports(text: str, name: str) -> Iterator[str]:
    """What of a sample can be reached from elsewhere without TLS. `name`: that of its file."""
    yield from PLAIN.findall(text)
    for body in _configurations(text, name):
        config = parse(tomllib.loads(body), name)
        settings = config.get("security", {})
        for each in LISTENING:
            if (value := config.get(each)) and not parse_address(value, each).loopback and not settings:
                yield f"{each} = {value}"
    for command in re.findall(r"(?m)^.*\bwitness\b.*--listen.*$", text):
        if "--credentials" not in command:
            yield command.strip()
    for probe in re.findall(r"(?m)^ +httpGet:\n((?: {14}.*\n)+)", text):
        if "scheme: HTTPS" not in probe:
            yield f"httpGet {probe.split()}"
    for published in re.findall(r"ports: (\[.*\])", text):
        yield from (each for each in re.findall(r'"([^"]+)"', published) if not each.startswith("127."))
    for bound in re.findall(r"(?m)^ *bind (\S+)", text):
        if not parse_address(bound, "bind").loopback:
            yield f"bind {bound}"
    if "scrape_configs:" in text and "scheme: https" not in text:
        yield "metrics in clear text"


def _configurations(text: str, name: str) -> Iterator[str]:
    if name.endswith(".toml"):
        yield text
    for body in re.findall(r"(?m)^  [\w-]+\.toml: \|\n((?:    .*\n|\n)+)", text):
        yield textwrap.dedent(body)


SAMPLES = sorted(
    each
    for each in DEPLOY.rglob("*")
    if each.is_file() and each.suffix not in (".json", ".md", ".pyc") and each.parent.name != "reactions"
)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_no_sample_opens_a_port_beyond_this_host_without_tls(path: Path) -> None:
    assert list(plain_ports(path.read_text(encoding="utf-8"), path.name)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.toml", '[manager]\nmember = "a"\nlisten_client = "10.0.0.1:7600"\n'),
        ("x.toml", '[manager]\nmember = "a"\ninsecure_network = true\n'),
        ("x.yaml", 'data:\n  a.toml: |\n    [manager]\n    member = "a"\n    listen_http = "0.0.0.0:7602"\n'),
        ("x.yaml", 'command: [witness, --listen, "0.0.0.0:7620", --data-dir, /x]\n'),
        ("x.service", "ExecStart=tandemq witness --listen ${WITNESS_LISTEN} --data-dir /x\n"),
        ("x.yaml", "            httpGet:\n              path: /readyz\n              port: http\n"),
        ("x.yaml", '    ports: ["127.0.0.1:7600:7600", "7602:7602"]\n'),
        ("haproxy.cfg", "    bind 0.0.0.0:7650\n"),
        ("x.yml", "scrape_configs:\n  - job_name: tandemq\n"),
    ],
)
def test_one_that_does_is_found(name: str, text: str) -> None:
    assert len(list(plain_ports(text, name))) == 1


def made(tmp_path: Path, times: int = 1) -> Path:
    """What the script of compose.yaml makes, so many starts later."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = ["/bin/sh", str(DEPLOY / "container" / "certificates.sh"), str(tmp_path / "credentials")]
    for _ in range(times):
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PATH": path})
    return tmp_path / "credentials"


@pytest.mark.process
def test_the_certificates_of_compose_are_those_that_its_containers_need(tmp_path: Path) -> None:
    place = made(tmp_path, 2)  # a second start renews them
    known = {each.name for each in place.iterdir()} - {"authority"}
    assert known == {"a", "b", "witness", "ops", "prometheus"}
    for name in known:
        assert [text for _, text in problems(read(place / name), place / name) if text] == []
    for name in ("a", "b"):
        config = _config(DEPLOY / "container" / f"{name}.toml")
        assert config.security.credentials == f"/var/lib/tandemq/credentials/{name}"
        of_member(msgspec.structs.replace(config, security=_at(config.security, place / name)))
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    shown = set(re.findall(r"credentials, /var/lib/tandemq/credentials/(\w+)", text))
    assert shown == {"witness", "ops"}
    assert "./container/certificates.sh:/certificates.sh:ro" in text


def _config(path: Path) -> ManagerConfig:
    return load(path, {"data_dir": "/data"}, {})


def _at(security: Security, directory: Path) -> Security:
    return msgspec.structs.replace(security, credentials=str(directory))


def test_certificates_of_cert_manager_have_the_names_that_are_looked_for() -> None:
    text = (DEPLOY / "kubernetes" / "certificates.yaml").read_text(encoding="utf-8")
    found = {}
    for document in text.split("\n---\n"):
        if uris := re.search(r'uris: \["tandemq:([^"]+)"\]', document):
            secret = re.search(r"secretName: (\S+)", document)
            assert secret is not None
            found[secret[1]] = uris[1], set(re.findall(r"(?m)^    - (\S+)$", document)), document
    assert {secret: who for secret, (who, _, _) in found.items()} == {
        "tandemq-0": "member/orders/tandemq-0",
        "tandemq-1": "member/orders/tandemq-1",
        "tandemq-witness": "witness/witness",
        "tandemq-ops": "principal/ops",
        "tandemq-prometheus": "principal/prometheus",
    }
    pods = "".join((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8") for name in ("pair.yaml", "witness.yaml"))
    configuration = (DEPLOY / "kubernetes" / "configuration.yaml").read_text(encoding="utf-8")
    for secret, (who, hosts, document) in found.items():
        assert names.problem_of(who) == ""
        if not (expected := names.dns(who)):
            assert "usages: [digital signature, client auth]" in document
            continue
        assert expected in hosts
        assert "usages: [digital signature, client auth, server auth]" in document
        mounted = re.search(rf"secretName: {secret}\n((?: {{12}}.*\n)+)", pods)
        assert mounted is not None
        assert {f"path: {each}.pem" for each in ("ca", "cert", "key")} <= set(re.findall(r"path: \S+\.pem", mounted[1]))
        if who.startswith("member/"):
            assert {f"{secret}.tandemq-members.tandemq.svc", "tandemq", "tandemq.tandemq"} <= hosts
            assert f'credentials = "/credentials/{secret}"' in configuration
            assert f"mountPath: /credentials/{secret}\n" in pods


def test_a_load_balancer_knows_members_by_the_names_in_their_certificates() -> None:
    text = (DEPLOY / "haproxy" / "haproxy.cfg").read_text(encoding="utf-8")
    assert "check-ssl verify required ca-file" in text
    for name in ("a", "b"):
        lines = re.findall(rf"(?m)^ +server {name} .*$", text)
        assert len(lines) == 2
        assert all(line.endswith(f" verifyhost {names.dns(names.member('orders', name))}") for line in lines)
    assert "\n    mode tcp\n" in text
    assert not re.search(r"(?m)^ +(bind|server) .* ssl\b", text)  # TLS is between client and member


def test_the_units_name_the_certificates_of_whom_they_start(tmp_path: Path) -> None:
    (tmp_path / "tandemq").mkdir()
    (tmp_path / "tandemq" / "witness.env").write_bytes((DEPLOY / "systemd" / "witness.env").read_bytes())
    command = unit("tandemq-witness.service", instance="", configuration=tmp_path, state=tmp_path).command
    assert command[command.index("--credentials") + 1] == f"{tmp_path}/tandemq/credentials/witness"
    assert command[command.index("--operator") + 1] == "ops"
    for name in ("a", "b"):
        config = _config(DEPLOY / "config" / f"{name}.toml")
        check(config)
        assert config.security == Security(credentials=f"/etc/tandemq/credentials/{name}", administrators=("ops",))
