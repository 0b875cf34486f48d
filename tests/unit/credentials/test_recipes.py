"""The recipe for openssl in docs/SECURITY.md makes credentials that members and clients take."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tandemq.config import ManagerConfig
from tandemq.config_security import Security
from tandemq.credentials.files import read
from tandemq.credentials.own import of_member
from tandemq.credentials.reading import shown
from tandemq.credentials.sound import problems

PAGE = Path(__file__).resolve().parents[3] / "docs" / "SECURITY.md"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not on PATH")
def test_openssl_makes_what_members_and_clients_take(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## With openssl or step-ca\n")[2]
    block = re.search(r"(?ms)^```sh\n(.*?)^```", section)
    assert block is not None
    subprocess.run(["/bin/sh", "-eu", "-c", block[1]], cwd=tmp_path, check=True, capture_output=True)
    for name, who in (("a", "member/orders/a"), ("billing", "principal/billing")):
        assert {text for _, text in problems(read(tmp_path / name), tmp_path / name)} == {""}
        assert shown((tmp_path / name / "cert.pem").read_bytes()).who == who
    security = Security(credentials=str(tmp_path / "a"), administrators=("ops",))
    of_member(ManagerConfig(member="a", pair="orders", data_dir="/data", peer_member="b", security=security))
