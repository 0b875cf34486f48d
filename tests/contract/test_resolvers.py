"""R012, R144, R148: resolvers against real servers, and one suite that every place to export to passes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandemq.errors import NotFound, Refused, Unavailable
from tandemq.finding.directory import Directory
from tandemq.finding.dns import DnsResolver
from tandemq.finding.file_registry import FileRegistry
from tandemq.finding.ldap import ANSWER_S, LdapRegistry
from tandemq.finding.ldap import make as make_ldap
from tandemq.finding.resolver import BadEntry, Exported, Manager, Registry, ResolverAway
from tests.support.directories import ADMIN, BASE, Nsd, Slapd

ORDERS = Manager("orders", ("a.example.test:7600", "b.example.test:7610"))
BILLING = Manager("billing", ("c.example.test:7600",))

pytestmark = [pytest.mark.slow, pytest.mark.process]


# -- what every registry does ------------------------------------------------------------------------------------------


@pytest.fixture(params=["file", "ldap"])
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Registry]:
    if request.param == "file":
        yield FileRegistry(tmp_path / "managers.toml")
        return
    slapd = Slapd(tmp_path / "slapd")
    await slapd.start()
    options = {"url": slapd.url, "base": BASE, "bind_dn": ADMIN, "password_file": str(slapd.password_file)}
    try:
        yield make_ldap(options)
    finally:
        await slapd.kill()


@pytest.mark.requirement("R012", "R148")
async def test_an_exported_queue_is_found_and_a_withdrawn_one_is_not(registry: Registry) -> None:
    assert await registry.resolve_queue("cf/hotline") is None
    assert await registry.resolve("orders") is None
    assert await registry.export(Exported("cf/hotline", "orders"), ORDERS)
    assert await registry.export(Exported("cf/Hotline.2", "orders"), ORDERS)
    assert await registry.export(Exported("q", "billing"), BILLING)
    assert await registry.resolve_queue("cf/hotline") == Exported("cf/hotline", "orders")
    answer = await registry.resolve("orders")
    assert answer is not None
    assert set(answer.managers[0].endpoints) == set(ORDERS.endpoints)
    asked = Directory(lambda: [registry])
    exported, source = await asked.find_queue("cf/hotline")
    assert (exported.manager, source) == ("orders", registry.source)
    assert (await asked.find(exported.manager)).answer.managers[0].name == "orders"
    assert await registry.withdraw("cf/hotline", "orders")
    assert await registry.resolve_queue("cf/hotline") is None
    assert await registry.resolve_queue("cf/Hotline.2") == Exported("cf/Hotline.2", "orders")
    assert not await registry.withdraw("cf/hotline", "orders")


async def test_exporting_again_changes_nothing(registry: Registry) -> None:
    assert await registry.export(Exported("q", "orders"), ORDERS)
    assert not await registry.export(Exported("q", "orders"), ORDERS)
    turned = Manager("orders", ORDERS.endpoints[::-1])
    assert not await registry.export(Exported("q", "orders"), turned)


async def test_what_belongs_to_another_manager_is_left_alone(registry: Registry) -> None:
    await registry.export(Exported("q", "orders"), ORDERS)
    with pytest.raises(Refused, match="queue 'q' is exported for manager 'orders', not 'billing'") as caught:
        await registry.export(Exported("q", "billing"), BILLING)
    assert caught.value.reason == "CONFIG_MISMATCH"
    with pytest.raises(Refused, match="queue 'q' is exported for manager 'orders', not 'billing'"):
        await registry.withdraw("q", "billing")
    with pytest.raises(Refused, match=r"manager 'orders' stands there at .*c\.example\.test:7600"):
        await registry.export(Exported("r", "orders"), Manager("orders", BILLING.endpoints))
    assert await registry.resolve_queue("q") == Exported("q", "orders")
    assert await registry.resolve_queue("r") is None
    assert await registry.resolve("billing") is None


@pytest.mark.requirement("R011")
async def test_a_queue_may_have_an_address_of_its_own(registry: Registry) -> None:
    await registry.export(Exported("q", "orders"), ORDERS)
    assert await registry.export(Exported("q", "orders", ("gate.example.test:9000",)), ORDERS)
    found = await registry.resolve_queue("q")
    assert found is not None
    assert found.endpoints == ("gate.example.test:9000",)
    assert await registry.export(Exported("q", "orders"), ORDERS)
    assert await registry.resolve_queue("q") == Exported("q", "orders")


async def test_many_export_at_the_same_time(registry: Registry) -> None:
    names = [f"q{place}" for place in range(8)]
    await registry.export(Exported("first", "orders"), ORDERS)
    await asyncio.gather(*(registry.export(Exported(name, "orders"), ORDERS) for name in names))
    found = await asyncio.gather(*(registry.resolve_queue(name) for name in names))
    assert [entry.queue for entry in found if entry is not None] == names


# -- LDAP --------------------------------------------------------------------------------------------------------------

ENTRIES = f"""\
dn: ou=managers,{BASE}
objectClass: organizationalUnit

dn: cn=orders,ou=managers,{BASE}
objectClass: applicationProcess
objectClass: labeledURIObject
cn: orders
cn: my_qmgr
labeledURI: tandemq://a.example.test,b.example.test:7610 priority=5 the pair in the cellar
labeledURI: tandemq://far.example.test:1 priority=9

dn: cn=broken,ou=managers,{BASE}
objectClass: applicationProcess
objectClass: labeledURIObject
cn: broken
labeledURI: http://a.example.test

dn: cn=bare,ou=managers,{BASE}
objectClass: applicationProcess
cn: bare

dn: ou=queues,{BASE}
objectClass: organizationalUnit

dn: cn=lost,ou=queues,{BASE}
objectClass: applicationProcess
cn: lost
"""


@pytest.mark.requirement("R012", "R144")
async def test_a_directory_that_people_keep(tmp_path: Path) -> None:
    slapd = Slapd(tmp_path / "slapd")
    slapd.add(ENTRIES)
    await slapd.start()
    try:
        ldap = make_ldap({"url": slapd.url, "base": BASE, "ttl_s": 20})
        answer = await ldap.resolve("orders")
        assert answer is not None
        assert answer.managers == (
            Manager("orders", ("a.example.test:7600", "b.example.test:7610"), 5),
            Manager("orders", ("far.example.test:1",), 9),
        )
        assert answer.ttl_s == 20.0
        link = await ldap.resolve("my_qmgr")
        assert link is not None
        assert link.alias_of == "orders"
        assert await ldap.resolve("ORDERS") is None
        assert await ldap.resolve("*") is None
        assert await ldap.resolve("o*") is None
        assert await ldap.resolve_queue("nothing") is None
        with pytest.raises(BadEntry, match=r"labeledURI 'http://a\.example\.test': begin it with tandemq://"):
            await ldap.resolve("broken")
        with pytest.raises(BadEntry, match="has no labeledURI; give it tandemq://"):
            await ldap.resolve("bare")
        with pytest.raises(BadEntry, match="has no seeAlso; let it name the manager's entry"):
            await ldap.resolve_queue("lost")
        with pytest.raises(Refused, match=r"CONFIG_ERROR: the directory refuses: .*ask as who may"):
            await ldap.export(Exported("q", "orders"), Manager("orders", ("a.example.test:7600",)))
        assert await ldap.resolve_queue("q") is None
        wrong = tmp_path / "wrong"
        wrong.write_text("wrong")
        stranger = make_ldap({"url": slapd.url, "base": BASE, "bind_dn": ADMIN, "password_file": str(wrong)})
        with pytest.raises(ResolverAway, match=r"does not let cn=admin,.* in: invalidCredentials"):
            await stranger.resolve("orders")
        lost = make_ldap({"url": slapd.url, "base": BASE, "bind_dn": ADMIN, "password_file": str(tmp_path / "none")})
        with pytest.raises(BadEntry, match=r"password_file = .*cannot be read"):
            await lost.resolve("orders")
        empty = make_ldap({"url": slapd.url, "base": f"ou=none,{BASE}"})
        assert await empty.resolve("orders") is None
    finally:
        await slapd.kill()


async def test_the_last_known_answer_of_a_directory_that_died(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slapd = Slapd(tmp_path / "slapd")
    slapd.add(ENTRIES)
    await slapd.start()
    now = 0.0
    ldap = make_ldap({"url": slapd.url, "base": BASE})
    asked = Directory(lambda: [ldap], now_s=lambda: now)
    try:
        before = await asked.find("orders")
    finally:
        await slapd.kill()
    now = 1000.0
    assert (await asked.find("orders")).answer == before.answer
    assert f"{slapd.url}/{BASE} is away" in caplog.text
    with pytest.raises(Unavailable, match="MANAGER_UNREACHABLE: 'billing' was not found: ldap://"):
        await asked.find("billing")
    await slapd.start()
    try:
        with pytest.raises(NotFound, match="MANAGER_NOT_FOUND"):
            await asked.find("billing")
    finally:
        await slapd.kill()


def certificate(folder: Path, name: str, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """One that vouches for itself."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={address}"),
            *("-addext", f"subjectAltName=IP:{address}", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


# Up to Python 3.11, ldap3 compares names by a function of the standard library that is going.
@pytest.mark.filterwarnings("ignore:ssl.match_hostname:DeprecationWarning")
async def test_a_directory_is_asked_in_secret_and_has_to_show_who_it_is(tmp_path: Path) -> None:
    tls = certificate(tmp_path, "server")
    slapd = Slapd(tmp_path / "slapd", tls=tls)
    await slapd.start()
    try:
        options = {"url": slapd.url, "base": BASE, "bind_dn": ADMIN, "password_file": str(slapd.password_file)}
        ldap = make_ldap({**options, "ca_file": str(tls[0])})
        assert await ldap.export(Exported("q", "orders"), ORDERS)
        assert await ldap.resolve_queue("q") == Exported("q", "orders")
        stranger = make_ldap({**options, "ca_file": str(certificate(tmp_path, "other")[0])})
        with pytest.raises(ResolverAway, match=r"(?i)certificate"):
            await stranger.resolve_queue("q")
    finally:
        await slapd.kill()
    tls = certificate(tmp_path, "elsewhere", "127.0.0.2")
    slapd = Slapd(tmp_path / "elsewhere", tls=tls)
    await slapd.start()
    try:
        with pytest.raises(ResolverAway, match=r"127\.0\.0\.2"):
            await make_ldap({"url": slapd.url, "base": BASE, "ca_file": str(tls[0])}).resolve("orders")
    finally:
        await slapd.kill()


# -- DNS ---------------------------------------------------------------------------------------------------------------

RECORDS = """\
_tandemq._tcp.orders 30 SRV 10 1 7610 b
_tandemq._tcp.orders 30 SRV 10 9 7600 a
_tandemq._tcp.orders 30 SRV 20 0 7600 far
_tandemq._tcp.my_qmgr 20 CNAME _tandemq._tcp.orders
_tandemq._tcp.gone SRV 0 0 0 .
_tandemq._tcp.text TXT "no service"
_tandemq._tcp.nowhere CNAME _tandemq._tcp.nobody
"""


@pytest.fixture
async def nsd(tmp_path: Path) -> AsyncIterator[Nsd]:
    server = Nsd(tmp_path / "nsd", RECORDS)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


@pytest.mark.requirement("R012", "R144")
async def test_managers_in_dns(nsd: Nsd) -> None:
    dns = DnsResolver("example.test", (nsd.address,))
    answer = await dns.resolve("orders")
    assert answer is not None
    assert answer.managers == (
        Manager("orders", ("a.example.test:7600", "b.example.test:7610"), 10),
        Manager("orders", ("far.example.test:7600",), 20),
    )
    assert answer.ttl_s == 30.0
    link = await dns.resolve("my_qmgr")
    assert link is not None
    assert (link.alias_of, link.ttl_s) == ("orders", 20.0)
    for name in ("gone", "text", "nowhere", "nobody", "a..b", "m" * 64):
        assert await dns.resolve(name) is None
    assert await dns.resolve_queue("cf/hotline") is None
    assert (await Directory(lambda: [dns]).find("my_qmgr")).answer.managers == answer.managers


async def test_a_zone_that_is_not_served_and_a_server_that_died(nsd: Nsd) -> None:
    with pytest.raises(ResolverAway, match="REFUSED"):
        await DnsResolver("other.test", (nsd.address,)).resolve("orders")
    await nsd.kill()
    with pytest.raises(Unavailable, match=f"'orders' was not found: dns example.test at {nsd.address}"):
        await Directory(lambda: [DnsResolver("example.test", (nsd.address,), lifetime_s=0.2)]).find("orders")


async def test_an_export_waits_for_a_directory_that_takes_its_time_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It syncs what it is given before it answers: on a busy disk that is longer than anybody waits for a question."""
    slapd = Slapd(tmp_path / "slapd")
    await slapd.start()
    make_folder, stopped = LdapRegistry._folder, threading.Event()

    def behind_a_slow_disk(registry: LdapRegistry, connection: Any, folder: str) -> None:
        if not stopped.is_set():
            stopped.set()
            os.kill(slapd.pid, signal.SIGSTOP)
            threading.Timer(ANSWER_S + 1, os.kill, (slapd.pid, signal.SIGCONT)).start()
        make_folder(registry, connection, folder)

    monkeypatch.setattr(LdapRegistry, "_folder", behind_a_slow_disk)
    options = {"url": slapd.url, "base": BASE, "bind_dn": ADMIN, "password_file": str(slapd.password_file)}
    try:
        registry = make_ldap(options)
        assert await registry.export(Exported("q", "orders"), ORDERS)
        assert await registry.resolve_queue("q") == Exported("q", "orders")
    finally:
        await slapd.kill()
