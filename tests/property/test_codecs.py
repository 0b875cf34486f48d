"""What goes over a wire or to disk and comes back is what it was: registers, configuration, checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.register import EPOCH_MAX, Register, RegisterState, check_form
from failover.wire import from_message, to_message
from replica.core.state.durable import decode_checkpoint, encode_checkpoint
from tandemq.config import SECTIONS, ManagerConfig, load, to_toml
from tandemq.witness.v1 import witness_service_pb2 as pb
from tests.support import profiles

numbers = st.integers(0, EPOCH_MAX)
names = st.text(st.characters(codec="utf-8"), max_size=8)
members = st.frozensets(names, max_size=2)
registers = st.builds(
    Register,
    version=numbers,
    epoch=numbers,
    holder=names,
    in_sync_set=members,
    committed_set=members,
    state=st.sampled_from(RegisterState),
    nonce=st.binary(max_size=64),
)


@profiles.of(300)
@given(registers)
def test_a_register_comes_back_as_it_was(register: Register) -> None:
    sent = to_message(register).SerializeToString()
    assert from_message(pb.Register.FromString(sent)) == register
    assert to_message(from_message(pb.Register.FromString(sent))).SerializeToString() == sent
    check_form(register)  # says why or nothing, and never raises


@profiles.of(200)
@given(st.integers(0, 2**48 - 1), st.binary(max_size=100))
def test_a_checkpoint_comes_back_as_it_was(log_index: int, snapshot: bytes) -> None:
    assert decode_checkpoint(encode_checkpoint(log_index, snapshot)) == (log_index, snapshot)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
flags = st.fixed_dictionaries(
    {"data_dir": texts},
    optional={
        "listen_client": st.integers(1000, 1999).map(lambda port: f"127.0.0.1:{port}"),
        "listen_peer": st.integers(2000, 2999).map(lambda port: f"[::1]:{port}"),
        "advertise": st.integers(1, 65535).map(lambda port: f"host.example:{port}"),
        "domains": st.lists(st.from_regex(r"d[a-z0-9]{0,9}", fullmatch=True), min_size=1, max_size=3, unique=True).map(
            tuple
        ),
        "insecure_network": st.booleans(),
    },
)


@profiles.of(150)
@given(values=flags)
def test_a_configuration_comes_back_as_it_was(values: dict[str, object], folder: Path) -> None:
    config = ManagerConfig(member="a", **values)  # type: ignore[arg-type]  # fields by keyword
    path = folder / "tandemq.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    assert load(path, environ={}) == config
    assert set(SECTIONS) <= set(re.findall(r"^\[(.+)\]$", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all examples: each writes its file anew."""
    return tmp_path_factory.mktemp("codecs")
