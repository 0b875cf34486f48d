"""Credentials on disk: what is refused at the start, and what happens to those that are exchanged in use."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest

from tandemq.channels import Kept, Options
from tandemq.config import ManagerConfig
from tandemq.config_security import Security
from tandemq.credentials import authority as developers
from tandemq.credentials import files
from tandemq.credentials.authority import AUTHORITY_KEY, LASTS, create, issue
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.channels import SecureOpen
from tandemq.credentials.files import LOOK_S, Credentials, read
from tandemq.credentials.own import of_member
from tandemq.credentials.sound import problems
from tandemq.inside import inside_opener

NOBODY = 65_534
LOAD = """
import os
import sys
from pathlib import Path
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import read
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    read(Path(sys.argv[1]))
except BadCredentials as error:
    print(error)
else:
    print("good")
"""


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return create(tmp_path / "authority").parent


@pytest.fixture
def directory(authority: Path, tmp_path: Path) -> Path:
    issue(authority, "principal/billing", tmp_path / "billing")
    return tmp_path / "billing"


def test_what_is_issued_can_be_read_by_its_owner_alone(authority: Path, directory: Path) -> None:
    assert {text for _, text in problems(read(directory), directory)} == {""}
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == {
        "ca.pem": 0o600,
        "cert.pem": 0o600,
        "key.pem": 0o600,
    }
    assert (authority / AUTHORITY_KEY).stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadCredentials, match=r"is there already"):
        create(authority)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_key_that_others_may_read_or_change_is_refused(directory: Path, mode: int) -> None:
    (directory / "key.pem").chmod(mode)
    with pytest.raises(BadCredentials, match=rf"key\.pem: others may read or change it \(mode {mode:04o}\).*chmod 600"):
        read(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of root, for somebody else")
@pytest.mark.parametrize(
    ("owner", "mode", "wrong"), [(0, 0o440, ""), (0, 0o444, "0444"), (0, 0o460, "0460"), (NOBODY, 0o440, "0440")]
)
def test_a_key_of_root_may_be_given_to_a_process_by_its_group(
    directory: Path, owner: int, mode: int, wrong: str
) -> None:
    """As Kubernetes mounts a secret with `fsGroup`: links into a directory that is sticky."""
    mounted = Path(tempfile.mkdtemp())  # tmp_path is root's alone
    try:
        shutil.copytree(directory, mounted / "..data")
        for name in ("ca.pem", "cert.pem", "key.pem"):
            os.chown(mounted / "..data" / name, owner, NOBODY)
            (mounted / "..data" / name).chmod(mode if name == "key.pem" else 0o440)
            (mounted / name).symlink_to(f"..data/{name}")
        os.chown(mounted, 0, NOBODY)
        mounted.chmod(0o3777)
        (mounted / "..data").chmod(0o755)
        words = [sys.executable, "-c", LOAD, str(mounted), str(NOBODY)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (f"(mode {wrong})" in done.stdout) if wrong else done.stdout == "good\n"
    finally:
        shutil.rmtree(mounted)


@pytest.mark.parametrize("name", ["ca.pem", "cert.pem", "key.pem"])
def test_a_missing_or_broken_file_is_named(directory: Path, name: str) -> None:
    path = directory / name
    path.write_text("no certificate")
    path.chmod(0o600)
    with pytest.raises(BadCredentials, match=name.replace(".", r"\.")):
        read(directory)
    path.unlink()
    with pytest.raises(BadCredentials, match=rf"{name}: no such file"):
        read(directory)


def test_a_key_of_another_certificate_is_refused(authority: Path, directory: Path, tmp_path: Path) -> None:
    issue(authority, "principal/other", tmp_path / "other")
    shutil.copy(tmp_path / "other" / "key.pem", directory / "key.pem")
    with pytest.raises(BadCredentials, match="do not go together"):
        read(directory)


def test_a_certificate_of_another_authority_is_seen(directory: Path, tmp_path: Path) -> None:
    shutil.copy(create(tmp_path / "second"), directory / "ca.pem")
    assert "not in ca.pem" in dict(problems(read(directory), directory))["authority"]


@pytest.mark.parametrize("name", ["", "ca.pem", "cert.pem"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_exchange_is_refused(directory: Path, name: str, mode: int) -> None:
    """Whoever writes ca.pem says who is believed."""
    path = directory / name
    path.chmod(path.stat().st_mode | mode)
    with pytest.raises(BadCredentials, match=r"others may change it \(mode 0\d+\); run: chmod go-w"):
        read(directory)
    if not name:
        path.chmod(0o1777)  # a volume of Kubernetes: only the owner of a file may exchange it
        read(directory)


def test_an_authority_is_not_made_over_the_credentials_of_somebody(directory: Path) -> None:
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(BadCredentials, match="holds somebody's credentials"):
        create(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_comments_between_the_authorities_may_be_in_any_alphabet_and_a_half_one_is_refused(directory: Path) -> None:
    path = directory / "ca.pem"
    good = path.read_bytes()
    path.write_bytes("# première\n".encode() + good + "# zweite für später\n".encode() + good)
    read(directory)
    path.write_bytes(good + good[:200])
    with pytest.raises(BadCredentials, match=r"ca\.pem: is not made of certificates in PEM: one is cut off"):
        read(directory)


def test_a_client_that_starts_while_files_are_exchanged_takes_the_new_ones(
    authority: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two renames the certificate is of one key, and key.pem is the other."""
    real, looks = files.read, []

    def between(place: Path) -> files.Material:
        looks.append(place)
        if len(looks) == 1:
            issue(authority, "principal/billing", place)
            raise BadCredentials("seen between two renames")
        return real(place)

    monkeypatch.setattr(files, "read", between)
    monkeypatch.setattr(developers, "read", real)
    assert Credentials(directory).now() == real(directory)
    assert len(looks) == 2


def test_nothing_is_exchanged_before_all_of_it_is_on_disk(
    authority: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed, or a disk that is full, while it writes."""

    class FullError(OSError):
        pass

    def full(_descriptor: int) -> None:
        written.append(_descriptor)
        if len(written) == 3:
            raise FullError

    written: list[int] = []
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FullError):
        issue(authority, "principal/billing", directory)
    assert {text for _, text in problems(read(directory), directory)} == {""}


def test_a_key_that_others_may_read_since_is_seen(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    credentials = Credentials(directory)
    (directory / "key.pem").chmod(0o644)
    credentials.now()
    assert [record.getMessage() for record in caplog.records if "chmod 600" in record.getMessage()]


def test_exchanged_files_come_into_force_and_broken_ones_do_not(
    authority: Path, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    credentials = Credentials(directory, lambda: now_s)
    first = credentials.now()
    assert credentials.generation() == 1
    good = (directory / "cert.pem").read_bytes()
    with caplog.at_level(logging.ERROR):
        (directory / "cert.pem").write_text("half a fi")
        assert credentials.now() == first
        assert credentials.now() == first
    assert [record.message for record in caplog.records if "stay" in record.message] == [
        f"the credentials that were in force stay: {directory / 'cert.pem'} and key.pem do not go together, "
        "or are not in PEM: " + caplog.records[0].message.rpartition(": ")[2]
    ], "once"
    (directory / "cert.pem").write_bytes(good)
    assert credentials.now() == first
    assert credentials.generation() == 1, "the same as before"

    issue(authority, "principal/billing", directory)
    assert credentials.generation() == 1, "nobody has looked"
    now_s = LOOK_S
    assert credentials.generation() == 2
    assert credentials.now() != first


def test_what_must_not_come_into_force_here_does_not_when_it_is_exchanged_either(
    authority: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client's certificate, and one that has expired, in the directory of a member that runs."""
    place, who = tmp_path / "a", "member/orders/a"
    issue(authority, who, place)
    config = ManagerConfig(member="a", data_dir="d", pair="orders", security=Security(credentials=str(place)))
    credentials = of_member(config)
    first = credentials.now()
    for wrong, lasts in (("principal/billing", LASTS), (who, timedelta(days=-1))):
        issue(authority, wrong, place, lasts=lasts)
        assert credentials.now() == first
    assert credentials.generation() == 1
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "the credentials that were in force stay"
    ] * 2
    issue(authority, who, place)
    assert credentials.now() != first
    assert "PRIVATE" not in repr(credentials.now())


async def test_a_kept_channel_is_opened_anew_with_new_credentials(authority: Path, directory: Path) -> None:
    now_s = 0.0
    opener = SecureOpen(Credentials(directory, lambda: now_s))
    options: Options = ()
    kept = Kept("127.0.0.1:1", options, opener)
    first = kept.get()
    assert kept.get() is first
    issue(authority, "principal/billing", directory)
    assert kept.get() is first
    now_s = LOOK_S
    second = kept.get()
    assert second is not first
    assert kept.get() is second
    await kept.close()
    await first.close()


async def test_a_client_inside_a_manager_gets_new_channels_to_others_too(authority: Path, directory: Path) -> None:
    now_s = 0.0
    inside = grpc.aio.insecure_channel("127.0.0.1:2")
    opener = inside_opener("inside:a", inside, SecureOpen(Credentials(directory, lambda: now_s)))
    options: Options = ()
    kept, own = Kept("127.0.0.1:1", options, opener), Kept("inside:a", options, opener)
    first = kept.get()
    issue(authority, "principal/billing", directory)
    now_s = LOOK_S
    assert own.get() is inside
    assert kept.get() is not first
    await kept.close()
    await first.close()
    await inside.close()
