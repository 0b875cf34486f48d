"""What a member remembers of a domain: it comes back as it was, from older and from newer files too."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.marks import DataMark
from replica.core.state.durable import DomainState, checkpoint_key, decode_checkpoint, decode_state, state_key
from storage.errors import CorruptRecord
from storage.seal import unseal
from storage.store import META_KEY_BYTES_MAX, RESERVED_META

u63 = st.integers(0, 2**63 - 1)
states = st.builds(
    DomainState,
    name=st.text(max_size=20),
    epoch=u63,
    promised_epoch=u63,
    data=st.sampled_from(DataMark),
    in_sync_set=st.lists(st.text(max_size=5), max_size=2),
    history=st.lists(st.tuples(u63, u63), max_size=5),
    base_index=u63,
    base_digest=st.binary(min_size=16, max_size=16),
    base_epoch=u63,
    kept_from=u63,
)


@given(states)
def test_what_is_encoded_is_decoded(state: DomainState) -> None:
    assert decode_state(state.encode()) == state


def test_a_field_that_a_newer_version_added_is_passed_over() -> None:
    fields = msgspec.msgpack.decode(unseal(DomainState(name="main", epoch=3, data=DataMark.SOLE).encode(), "it"))
    state = decode_state(msgspec.msgpack.encode({**fields, "from_tomorrow": [1, 2]}))
    assert (state.name, state.epoch, state.data) == ("main", 3, DataMark.SOLE)


def test_a_field_that_an_older_version_lacks_has_its_default() -> None:
    state = decode_state(msgspec.msgpack.encode({"name": "main"}))
    assert state == DomainState(name="main")
    assert state.data is DataMark.EMPTY
    assert (state.kept_from, state.base_index) == (1, 0)


def test_two_states_share_no_list() -> None:
    first = DomainState(name="main")
    first.in_sync_set.append("a")
    assert DomainState(name="main").in_sync_set == []


@pytest.mark.parametrize(
    "data", [b"", b"\x00", msgspec.msgpack.encode({"epoch": 1}), b"\x81\xa4name", b"\x81\xa4name\xa1\xa5"]
)
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="facts of a domain"):
        decode_state(data)


@pytest.mark.parametrize("domain", [0, 1, 2**32 - 1])
def test_keys_are_short_their_own_and_sorted_by_domain(domain: int) -> None:
    keys = [state_key(domain), checkpoint_key(domain)]
    assert len(set(keys)) == 2
    assert not RESERVED_META & set(keys)
    assert all(key.startswith(f"domain/{domain:08x}/") and len(key) <= META_KEY_BYTES_MAX for key in keys)


def test_no_flipped_bit_passes_for_the_truth() -> None:
    """An epoch with a flipped bit would be a number that somebody else owns."""
    stored = DomainState(name="main", epoch=3, data=DataMark.IN_SYNC, in_sync_set=["a", "b"]).encode()
    for bit in range(len(stored) * 8):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord):
            decode_state(bytes(damaged))


@pytest.mark.parametrize("stored", [b"", bytes(2), bytes(7), b"TQC\x02", b"?" * 40])
def test_what_is_no_checkpoint_is_refused(stored: bytes) -> None:
    with pytest.raises(CorruptRecord, match="A checkpoint of"):
        decode_checkpoint(stored)


def test_facts_from_before_the_seal_are_read() -> None:
    assert decode_state(msgspec.msgpack.encode({"name": "main", "epoch": 3})).epoch == 3
