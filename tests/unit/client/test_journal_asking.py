"""Whom a reader of the journal believes about what is trimmed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tandemq import retry
from tandemq.client.journal import _Asking
from tandemq.errors import Refused, error_of
from tandemq.v1 import journal_service_pb2 as pb

A, B = "127.0.0.1:1", "127.0.0.1:2"
ENDPOINTS = [A, B]


def trimmed_at(member: str) -> Exception:
    return error_of("OUT_OF_RANGE", f"begins later at {member}", {"member": member, "first_log_index": "2"})


class Pair:
    """Answers of both members, in order; the last one stays. Member b is master."""

    def __init__(self, answers: dict[str, list[Exception | pb.ReadJournalPageResponse]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def once(self, endpoint: str, *_rest: object) -> pb.ReadJournalPageResponse:
        self.asked.append(endpoint)
        left = self.answers[endpoint]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask(self, total_s: float = 10.0) -> Any:
        async def located() -> None: ...

        members = SimpleNamespace(
            named=ENDPOINTS,
            whereabouts=None,
            located=located,
            masters=SimpleNamespace(endpoint=lambda _domain: B),
            endpoints=lambda _domain: ENDPOINTS,
            master=lambda _domain: B,
            learn=lambda _header: None,
        )
        link: Any = SimpleNamespace(members=members, caller=self)
        asking = _Asking(link, retry.Policy(total_s=total_s), "main", here=False)
        return await asking.ask("ReadJournalPage", pb.ReadJournalPageRequest(), pb.ReadJournalPageResponse, 1)


async def test_a_member_that_sent_the_call_on_has_not_spoken_for_itself() -> None:
    """1. Member a has not heard of the queue, and sends the call to b. 2. b has trimmed what is asked. 3. a has it."""
    page = pb.ReadJournalPageResponse(at_end=True)
    pair = Pair({A: [trimmed_at("b"), page], B: [trimmed_at("b")]})
    assert await pair.ask() == page
    assert pair.asked == [A, B, A]


async def test_what_both_have_trimmed_is_refused_at_once() -> None:
    pair = Pair({A: [trimmed_at("a")], B: [trimmed_at("b")]})
    with pytest.raises(Refused, match="OUT_OF_RANGE"):
        await pair.ask()
    assert pair.asked == [A, B]


async def test_it_ends_when_the_other_member_never_speaks() -> None:
    pair = Pair({A: [trimmed_at("b")], B: [trimmed_at("b")]})
    with pytest.raises(Refused, match="OUT_OF_RANGE"):
        await pair.ask(total_s=0.2)
    assert set(pair.asked) == {A, B}
