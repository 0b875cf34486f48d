"""Names rules that no simulated run has shown to be missing, why, and the test that does; it plants nothing."""

from __future__ import annotations

from typing import NamedTuple


class Elsewhere(NamedTuple):
    """A rule that another test holds."""

    rule: str
    text: str
    """What the product would do without it."""
    why: str
    """Why no run shows it."""
    test: str
    """Path, and the test in it."""


ELSEWHERE = (
    Elsewhere(
        "K6",
        "What a side had passed before it lost its place counts for the next.",
        "what a side has passed leaves at once, and a twin begins anew behind that: not seen in 1,000 seeds of twins",
        "tests/unit/replica/node/test_sides.py"
        "::test_k6_what_the_peer_said_of_a_place_that_was_lost_says_nothing_of_the_next_one",
    ),
    Elsewhere(
        "DESIGN 6",
        "A member that has lost its peer decides half a minute late.",
        "a run's faults overlap, so that nobody can say of each how long it may last; in the end all runs are served",
        "tests/sim/test_takeover_in_time.py::test_a_takeover_that_comes_late_is_seen",
    ),
    Elsewhere(
        "R116",
        "A receiver takes a transfer whose digests are not what arrived.",
        "what arrives in one connection arrives whole, in order and unchanged, as with TCP",
        "tests/unit/replica/peer/test_transfer_damage.py::test_a_queue_that_arrived_differently_is_not_taken",
    ),
    Elsewhere(
        "reliability 6.8",
        "A record that is damaged is sent in a transfer.",
        "a damaged copy is found as its process starts; later, with the other copy gone, no pair ends whole either way",
        "tests/unit/replica/peer/test_transfer_damage.py::test_a_damaged_record_is_not_sent",
    ),
    Elsewhere(
        "P1",
        "A witness answers before it has stored the register.",
        "the simulated register keeps what it has answered; the witness's own store is not simulated",
        "tests/contract/test_witness_process.py::test_what_was_answered_done_survives_kill_9",
    ),
    Elsewhere(
        "P13",
        "Frames of an old connection go out on the next one.",
        "the epoch of each frame and the new SYNC stand in for it: not seen in 300 seeds of flap and newborn",
        "tests/integration/test_faults.py::test_p13_a_frame_of_an_old_epoch_has_no_effect",
    ),
    Elsewhere(
        "reliability 9",
        "A role is given before what was ordered is committed, and taken without the whole log.",
        "what was acknowledged is at both members anyway, and what was not is sent again by its client",
        "tests/scripts/test_tables_told.py::test_every_row_of_the_handoff_table_is_told",
    ),
    Elsewhere(
        "reliability 6.11",
        "Whoever is called is not told which start of it the caller has seen.",
        "two processes of one number tell only where their handoffs or claims meet; nobody asks for the number itself",
        "tests/sim/test_starts.py::test_the_peer_remembers_a_start_that_the_register_has_forgotten",
    ),
    Elsewhere(
        "J6",
        "A reader beyond its limits holds the log all the same.",
        "how much is kept is counted since the start of a process, and processes of a run live for a second or two",
        "tests/unit/replica/core/ordering/test_readers.py::test_a_reader_beyond_the_bytes_loses_its_place_and_the_journal_goes",
    ),
    Elsewhere(
        "P19",
        "A handoff that comes to nothing leaves what was parked unanswered.",
        "the next event of the pair orders it: only time is lost, and clients repeat what is late",
        "tests/scripts/test_tables_told.py::test_every_row_of_the_handoff_table_is_told",
    ),
    Elsewhere(
        "P21",
        "A replica follows a master whose disk has lost what both had committed.",
        "such a master serves alone while its peer lives on, and what it has lost then is not promised",
        "tests/test_rules.py::test_script_fails_without_the_rule",
    ),
    Elsewhere(
        "semantics 3.12",
        "Making or deleting a queue is answered before it is committed.",
        "the copy that has the record goes first (P20): not seen in 220 seeds of tail and 280 of swarm any more",
        "tests/unit/replica/core/ordering/test_refusals.py::test_it_is_told_when_what_it_says_is_on_both",
    ),
    Elsewhere(
        "R121",
        "A replica that takes over forgets the requests that it held.",
        "only time is lost: clients repeat what is late",
        "tests/scripts/test_scripts.py::test_script",
    ),
    Elsewhere(
        "ruling 9",
        "A process that was stopped delivers before it has asked who is master.",
        "its connections have mostly ended by then: not seen in 270 seeds of fence",
        "tests/unit/failover/test_detector.py::test_a_late_tick_is_a_pause_reported_once_and_never_red",
    ),
    Elsewhere(
        "U14",
        "The body of a unit is freed when the first of its queues needs it no more.",
        "what units make is taken at the end of a run, from both queues, and nothing is trimmed in between",
        "tests/unit/replica/machine/plan/test_unit.py::test_u14_the_body_stays_until_the_last_of_its_queues_needs_it_no_more",
    ),
    Elsewhere(
        "U9",
        "What a unit gives back stands behind what came later.",
        "whoever takes messages in a run keeps nobody's order, but for that of groups",
        "tests/unit/replica/machine/plan/test_open_unit.py::test_u9_a_rollback_gives_back_the_old_places_and_counts",
    ),
)
