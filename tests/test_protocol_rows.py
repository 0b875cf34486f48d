"""What the contract between members can say has a row in docs/PROTOCOL.md, and each reason one in docs/CLIENTS.md."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from replica.core.domain import FRAMES, UNKNOWN
from tandemq.peer.v1.peer_service_pb2 import MessageCode, PeerFrame, TransferFrame
from tandemq.peer.v1.record_pb2 import RecordHeader
from tandemq.v1.common_pb2 import Reason

DOCS = Path(__file__).resolve().parent.parent / "docs"
PROTOCOL, CLIENTS = DOCS / "PROTOCOL.md", DOCS / "CLIENTS.md"


def kinds_of(message: Descriptor, oneof: str) -> list[str]:
    return [field.name.upper() for field in message.oneofs_by_name[oneof].fields]


def values_of(names: Collection[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if not name.endswith("UNSPECIFIED")]


WANTED = {
    "frames": (
        PROTOCOL,
        "Frames",
        [*kinds_of(PeerFrame.DESCRIPTOR, "frame"), *kinds_of(TransferFrame.DESCRIPTOR, "frame")],
    ),
    "records": (PROTOCOL, "Records", kinds_of(RecordHeader.DESCRIPTOR, "op")),
    "codes": (PROTOCOL, "Message codes", values_of(MessageCode.keys(), "MESSAGE_CODE_")),
    "reasons": (CLIENTS, "Errors", values_of(Reason.keys(), "REASON_")),
}


def rows(page: str, section: str) -> dict[str, list[str]]:
    """By each name in the first two cells of a row: its cells."""
    body = re.split(rf"^##+ {section}$", page, flags=re.MULTILINE)[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"]
    return {name.strip(" `"): row for row in cells for name in ", ".join(row[:2]).split(", ")}


def missing(page: str, section: str, wanted: Collection[str]) -> list[str]:
    found = rows(page, section)
    return [name for name in wanted if name not in found]


@pytest.mark.parametrize("what", WANTED)
def test_each_has_its_row(what: str) -> None:
    page, section, wanted = WANTED[what]
    assert len(wanted) > 10
    assert missing(page.read_text(encoding="utf-8"), section, wanted) == [], f"no row in {page.name}, {section}"


@pytest.mark.parametrize("what", WANTED)
def test_a_planted_missing_row_is_found(what: str) -> None:
    page, section, wanted = WANTED[what]
    text = page.read_text(encoding="utf-8")
    row = rows(text, section)[wanted[-1]]
    without = "\n".join(line for line in text.splitlines() if [c.strip() for c in line.strip("|").split("|")] != row)
    assert wanted[-1] in missing(without, section, wanted)


@pytest.mark.requirement("R065")
def test_the_codes_of_the_first_design_have_its_numbers() -> None:
    requests = ("OPEN_REQ", "CLOSE_REQ", "ENQUEUE_REQ", "DEQUEUE_REQ", "GET_STATS", "GET_QMGR_STATS")
    answers = ("OPEN_ACK", "CLOSE_ACK", "ENQUEUE_ACK", "DEQUEUE_ACK", "GET_STATS_ACK", "GET_QMGR_STATS_ACK")
    wanted = dict(zip(requests, range(1, 7), strict=True)) | dict(zip(answers, range(17, 23), strict=True))
    wanted["ERROR_ACK"] = 23
    numbers = {name.removeprefix("MESSAGE_CODE_"): number for name, number in MessageCode.items() if 0 < number < 32}
    assert numbers == wanted


def test_the_row_of_a_frame_says_of_which_epochs_it_is_taken() -> None:
    found = rows(PROTOCOL.read_text(encoding="utf-8"), "Frames")
    said = {kind: found[kind.upper()][1] for kind in FRAMES}
    assert said == {kind: "by the session" if row is UNKNOWN else row.epoch.name for kind, row in FRAMES.items()}
