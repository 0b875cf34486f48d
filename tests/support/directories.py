"""A real slapd and a real nsd, each with configuration, data and ports of its own, on loopback, as any user."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.until import OUTER_S

SYSTEM = Path(__file__).resolve().parents[2] / "tools/install_packages.sh"
BASE = "ou=tandemq,dc=example,dc=test"
ADMIN, PASSWORD = f"cn=admin,{BASE}", "secret of the test"


def program(name: str) -> str:
    """Where it is, installed if that is possible here; else the test is skipped and says why."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run([SYSTEM, "directories"], check=True)
        found = shutil.which(name, path=path)
        assert found is not None, f"{SYSTEM.name} did not install {name}"
    if found is None:
        pytest.skip(f"{name} is not here, and only root on Debian can install it: `make directories`")
    return found


class Server:
    """One process, started and killed by the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    def argv(self) -> list[str]:
        raise NotImplementedError

    async def answers(self) -> bool:
        raise NotImplementedError

    async def start(self) -> None:
        """Until it answers."""
        with (self.folder / "log").open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self.argv(),
                stdout=output,
                stderr=output,
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        async with asyncio.timeout(OUTER_S):
            while not await self.answers():
                assert self._process.returncode is None, (self.folder / "log").read_text()[-2000:]
                await asyncio.sleep(0)

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    async def kill(self) -> None:
        """As kill -9, with the processes that it has started: one of those might answer a little longer."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        self._process = None


class Slapd(Server):
    """OpenLDAP with an empty base; anybody reads, `ADMIN` writes; with `open_to_all` anybody writes too."""

    def __init__(self, folder: Path, *, open_to_all: bool = False, tls: tuple[Path, Path] | None = None) -> None:
        super().__init__(folder)
        self._program = program("slapd")
        self.url = f"{'ldaps' if tls else 'ldap'}://127.0.0.1:{self.port}"
        self.password_file = folder / "password"
        self.password_file.write_text(PASSWORD + "\n")
        (folder / "data").mkdir()
        modules = next(path for path in (Path("/usr/lib/ldap"), Path("/usr/lib/openldap")) if path.is_dir())
        secure = f"TLSCertificateFile {tls[0]}\nTLSCertificateKeyFile {tls[1]}\n" if tls else ""
        (folder / "slapd.conf").write_text(
            "include /etc/ldap/schema/core.schema\n"
            f"modulepath {modules}\nmoduleload back_mdb\npidfile {folder}/pid\n{secure}"
            f'database mdb\nsuffix "{BASE}"\nrootdn "{ADMIN}"\nrootpw "{PASSWORD}"\ndirectory {folder}/data\n'
            f"access to * by * {'write' if open_to_all else 'read'}\n"
        )
        ldif = f"dn: {BASE}\nobjectClass: organizationalUnit\nou: tandemq\n"
        self.add(ldif)

    def add(self, ldif: str) -> None:
        """Entries as an operator loads them; only while it does not run."""
        command = [self._program, "-T", "add", "-f", str(self.folder / "slapd.conf")]
        subprocess.run(command, input=ldif, text=True, check=True, capture_output=True)

    def argv(self) -> list[str]:
        return [self._program, "-d", "0", "-h", f"{self.url}/", "-f", str(self.folder / "slapd.conf")]

    async def answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True


class Nsd(Server):
    """NLnet Labs' authoritative server with one zone, `example.test`."""

    def __init__(self, folder: Path, records: str) -> None:
        super().__init__(folder)
        self._program = program("nsd")
        head = "$ORIGIN example.test.\n$TTL 40\n@ SOA ns hostmaster 1 3600 600 86400 40\n@ NS ns\nns A 127.0.0.1\n"
        (folder / "zone").write_text(head + records)
        (folder / "nsd.conf").write_text(
            f'server:\n ip-address: 127.0.0.1@{self.port}\n username: ""\n zonesdir: "{folder}"\n server-count: 1\n'
            f' database: ""\n pidfile: "{folder}/pid"\n xfrdfile: "{folder}/xfrd"\n zonelistfile: "{folder}/list"\n'
            f' xfrdir: "{folder}"\n do-ip6: no\nremote-control:\n control-enable: no\n'
            "zone:\n name: example.test\n zonefile: zone\n"
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def argv(self) -> list[str]:
        return [self._program, "-d", "-c", str(self.folder / "nsd.conf")]

    async def answers(self) -> bool:
        import dns.asyncquery
        import dns.exception
        import dns.message

        query = dns.message.make_query("example.test.", "SOA")
        try:
            reply = await dns.asyncquery.udp(query, "127.0.0.1", port=self.port, timeout=0.2)
        except (dns.exception.DNSException, OSError):
            return False
        return bool(reply.answer)
