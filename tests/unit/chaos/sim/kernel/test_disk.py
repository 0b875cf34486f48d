"""The simulator's disk: every fault kind, and that what was acknowledged survives all but the ones that lose it."""

from __future__ import annotations

import random

import pytest

from chaos.sim.kernel.disk import FAULTS, ROOM_BYTES, Disk
from storage.errors import CorruptRecord, DirectoryInUse, StoreFailed, StoreFull, WrongPair
from storage.records import ZERO_DIGEST, assemble, build_head, verify_stored
from storage.store import Append, Store, WriteBatch


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def disk(seed: int = 1, *, lying: bool = False, clock: Clock | None = None) -> Disk:
    return Disk("a", random.Random(f"{seed}/disk/a"), clock or Clock(), lying=lying)


def opened(each: Disk) -> Store:
    return each.open("p", "a")


def adds(*log_indexes: int, size: int = 10) -> WriteBatch:
    return WriteBatch(appends=[Append(7, index, b"%d" % index * size) for index in log_indexes])


def indexes(store: Store) -> list[int]:
    return [index for index, _ in store.scan(7, 0)]


def test_what_was_committed_survives_a_crash_and_a_clean_stop() -> None:
    each = disk()
    store = opened(each)
    instance = store.get_meta("instance")
    store.commit(adds(1, 2))
    assert each.crash() == ""
    store = opened(each)
    assert (indexes(store), store.get_meta("instance")) == ([1, 2], instance)
    store.commit(adds(3))
    store.close()
    assert each.crash(adds(4)) == ""  # it had ended: nothing was under way
    assert indexes(opened(each)) == [1, 2, 3]


def test_a_dead_process_commits_nothing_more() -> None:
    each = disk()
    store = opened(each)
    each.crash()
    with pytest.raises(StoreFailed, match="closed"):
        store.commit(adds(1))
    assert indexes(opened(each)) == []


def test_one_process_at_a_time_and_none_of_another_member() -> None:
    each = disk()
    opened(each)
    with pytest.raises(DirectoryInUse):
        opened(each)
    each.crash()
    with pytest.raises(WrongPair):
        each.open("p", "b")
    opened(each)


def test_a_commit_under_way_in_a_crash_is_there_whole_or_not_at_all() -> None:
    fates = {}
    for seed in range(20):
        each = disk(seed)
        opened(each).commit(adds(1))
        fate = each.crash(adds(2, 3))
        fates[fate] = indexes(opened(each))
        assert each.counts[fate] == 1
    assert fates == {"kept": [1, 2, 3], "gone": [1]}


def test_equal_streams_give_equal_disks() -> None:
    def story(seed: int) -> list[object]:
        each = disk(seed)
        answers: list[object] = [opened(each).get_meta("instance")]
        for index in range(1, 30):
            answers += [each.commit_delay_s(), each.crash(adds(index)), indexes(opened(each))]
        return answers

    assert story(1) == story(1) != story(2)


def test_a_fault_that_is_left_out_leaves_the_delays_as_they_were() -> None:
    one, other = disk(), disk()
    opened(one).commit(adds(1))
    one.strike("corrupt")
    one.crash(adds(2))
    assert [one.commit_delay_s() for _ in range(9)] == [other.commit_delay_s() for _ in range(9)]


def test_delays_have_a_tail() -> None:
    each = disk()
    delays = sorted(each.commit_delay_s() for _ in range(10_000))
    assert 0.0009 < sum(delays) / len(delays) < 0.0016
    assert 0.0005 < delays[5_000] < 0.0009
    assert delays[-1] > 0.05


def test_a_slow_disk_is_slow_until_then() -> None:
    clock = Clock()
    slow, usual = disk(clock=clock), disk()
    slow.slow(50, until_s=2.0)
    assert slow.commit_delay_s() == pytest.approx(50 * usual.commit_delay_s())
    clock.now_s = 2.0
    assert slow.commit_delay_s() == usual.commit_delay_s()
    clock.now_s = 1.0
    slow.heal()
    assert slow.commit_delay_s() == usual.commit_delay_s()


def test_a_disk_that_hangs_answers_in_order_after_its_release() -> None:
    each, answers = disk(), list[int]()
    each.when_free(lambda: answers.append(0))
    each.hang()
    for number in (1, 2):
        each.when_free(lambda number=number: answers.append(number))  # type: ignore[misc]
    assert answers == [0]
    each.release()
    assert answers == [0, 1, 2]
    each.hang()
    each.when_free(lambda: answers.append(3))
    opened(each)
    each.crash()  # who waited is dead
    each.heal()
    assert answers == [0, 1, 2]


def test_without_room_nothing_is_done_until_there_is_room() -> None:
    each = disk()
    store = opened(each)
    store.commit(adds(1))
    assert each.strike("enospc")
    for batch in (adds(2), WriteBatch(meta={"a": b"1"}), WriteBatch(drops={7: [1]})):
        with pytest.raises(StoreFull):
            store.commit(batch)
    assert store.usage().used_bytes == store.usage().map_bytes
    assert (indexes(store), each.counts["refused"]) == ([1], 3)
    each.heal()
    store.commit(adds(2))
    assert indexes(store) == [1, 2]


def test_a_full_map_takes_what_does_not_grow_and_survives_a_restart() -> None:
    each = disk()
    store = opened(each)
    store.commit(adds(1, 2, size=ROOM_BYTES))
    assert each.strike("map_full")
    each.crash()
    store = opened(each)
    store.commit(adds(3))
    with pytest.raises(StoreFull):
        store.commit(adds(4, size=ROOM_BYTES))
    store.commit(WriteBatch(drops={7: [1]}, appends=adds(4, size=ROOM_BYTES).appends))
    assert indexes(store) == [2, 3, 4]
    each.heal()
    store.commit(adds(5, size=ROOM_BYTES))
    assert store.usage().map_bytes == each.map_bytes


def test_a_failed_sync_ends_the_process_and_leaves_open_whether_the_batch_is_there() -> None:
    fates = {}
    for seed in range(20):
        each = disk(seed)
        store = opened(each)
        store.commit(adds(1))
        each.strike("fsync")
        for batch in (adds(2), adds(2), WriteBatch()):
            with pytest.raises(StoreFailed, match="Input/output"):
                store.commit(batch)
        assert indexes(store) == [1]
        fate = each.crash()
        fates[fate] = indexes(opened(each))
    assert fates == {"kept": [1, 2], "gone": [1]}


def record(log_index: int) -> bytes:
    head, _ = build_head(
        flags=0, domain=7, epoch=1, log_index=log_index, header=b"h", body=b"body", previous_digest=ZERO_DIGEST
    )
    return assemble(head, b"body")


@pytest.mark.parametrize("seed", range(40))
def test_a_flipped_bit_is_in_one_record_and_its_checksum_finds_it(seed: int) -> None:
    each = disk(seed)
    store = opened(each)
    assert each.strike("corrupt", "record") == ""
    store.commit(WriteBatch(appends=[Append(7, index, record(index)) for index in (1, 2, 3)]))
    assert "7" in each.strike("corrupt", "record")
    changed = [found for index, found in store.scan(7, 0) if found != record(index)]
    assert len(changed) == 1
    with pytest.raises(CorruptRecord):
        verify_stored(changed[0])
    each.crash()
    assert changed[0] in [found for _, found in opened(each).scan(7, 0)]  # and it stays so


def test_damage_counts_for_as_long_as_it_lies_there_whether_it_was_found_or_not() -> None:
    """No fault takes the other copy meanwhile: two copies that are both damaged are nobody's promise."""
    each = disk()
    store = opened(each)
    store.commit(WriteBatch(appends=[Append(7, 1, record(1))]))
    assert not each.is_damaged
    each.strike("corrupt", "record")
    assert each.is_damaged
    store.commit(WriteBatch(wipe={7}))
    assert not each.is_damaged
    store.commit(WriteBatch(appends=[Append(7, 1, record(1))]))
    each.strike("corrupt", "record")
    each.strike("lost")
    assert not each.is_damaged


def test_a_checkpoint_rots_too_but_no_other_value_beside_the_records() -> None:
    each = disk()
    store = opened(each)
    store.commit(WriteBatch(meta={"domain/1/state": b"state", "domain/1/checkpoint": b"checkpoint"}))
    assert "checkpoint" in each.strike("corrupt", "checkpoint")
    assert "checkpoint" in each.strike("corrupt")
    assert store.get_meta("domain/1/state") == b"state"
    assert store.get_meta("domain/1/checkpoint") != b"checkpoint"


def test_a_lost_disk_is_another_instance_with_nothing_on_it() -> None:
    each = disk()
    store = opened(each)
    store.commit(adds(1))
    instance = store.get_meta("instance")
    assert each.strike("lost")
    assert indexes(store) == [1]  # what was open can still be read
    with pytest.raises(StoreFailed):
        store.commit(adds(2))
    assert each.crash(adds(2)) == ""
    again = opened(each)
    assert (indexes(again), again.get_meta("instance") != instance) == ([], True)


def test_an_old_image_is_put_back() -> None:
    each = disk()
    assert each.strike("restore", "old") == ""
    store = opened(each)
    store.commit(adds(1))
    instance = store.get_meta("instance")
    assert each.strike("snapshot", "old")
    store.commit(adds(2, 3))
    for _ in range(2):  # an image can be put back more than once
        assert each.strike("restore", "old")
        with pytest.raises(StoreFailed):
            store.commit(adds(4))
        each.crash()
        store = opened(each)
        assert (indexes(store), store.get_meta("instance")) == ([1], instance)
        store.commit(adds(2))


def test_a_disk_that_lies_loses_the_last_commits_and_only_those() -> None:
    """The positive control: whoever rests on acknowledged commits is found out here."""
    lengths = set()
    for seed in range(30):
        each = disk(seed, lying=True)
        store = opened(each)
        for index in range(1, 11):
            store.commit(adds(index))
        each.crash()
        found = indexes(opened(each))
        assert found == list(range(1, len(found) + 1))
        assert len(found) + each.counts["vanished"] == 10
        lengths.add(len(found))
    assert len(lengths) > 5
    assert {0, 10} & lengths


def test_an_unknown_fault_says_which_there_are() -> None:
    with pytest.raises(ValueError, match="knows no fault 'fire'; it knows enospc"):
        disk().strike("fire")
    each = disk()
    opened(each)
    for name in FAULTS:
        each.strike(name)
