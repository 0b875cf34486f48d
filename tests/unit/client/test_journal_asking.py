"""Whom a reader of the journal believes about what is trimmed, and where one begins who names no place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tandemq import retry
from tandemq.client.journal import _Asking, read_journal
from tandemq.client.places import JournalPosition
from tandemq.errors import Refused, Unreachable, error_of
from tandemq.v1 import common_pb2
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
        self.learnt: list[Any] = []

    async def once(self, endpoint: str, *_rest: object) -> pb.ReadJournalPageResponse:
        self.asked.append(endpoint)
        left = self.answers[endpoint]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask(self, total_s: float = 10.0, *, here: bool = False) -> Any:
        asking = _Asking(self.link(), retry.Policy(total_s=total_s), "main", here=here)
        return await asking.ask("ReadJournalPage", pb.ReadJournalPageRequest(), pb.ReadJournalPageResponse, 1)

    def link(self) -> Any:
        async def located() -> None: ...

        members = SimpleNamespace(
            named=ENDPOINTS,
            whereabouts=None,
            located=located,
            masters=SimpleNamespace(endpoint=lambda _domain: B),
            endpoints=lambda _domain: ENDPOINTS,
            master=lambda _domain: B,
            learn=self.learnt.append,
        )
        return SimpleNamespace(members=members, caller=self)

    def client(self) -> Any:
        return SimpleNamespace(links=SimpleNamespace(own=self.link(), policy=retry.Policy(total_s=10.0)))


async def test_who_names_no_domain_asks_the_master_of_main() -> None:
    pair = Pair({A: [pb.ReadJournalPageResponse(at_end=True)], B: [Unreachable("UNREACHABLE", "it is away")]})
    link = pair.link()
    asked: list[str] = []

    def endpoint(domain: str) -> str:
        asked.append(domain)
        return B

    link.members.masters = SimpleNamespace(endpoint=endpoint)
    for domain in ("", "other"):
        asking = _Asking(link, retry.Policy(total_s=10.0), domain, here=False)
        await asking.ask("ReadJournalPage", pb.ReadJournalPageRequest(), pb.ReadJournalPageResponse, 1)
    assert asked == ["main", "other"]


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


AWAY = Unreachable("UNREACHABLE", "nobody listens", retryable=True)
PAGE = pb.ReadJournalPageResponse(header=common_pb2.ResponseHeader(member="b", epoch=4), at_end=True)


@pytest.mark.parametrize(("here", "asked"), [(True, [A, A]), (False, [A, B])])
async def test_who_wants_the_journal_of_one_member_asks_that_one_again(here: bool, asked: list[str]) -> None:
    pair = Pair({A: [AWAY, PAGE], B: [PAGE]})
    assert await pair.ask(here=here) == PAGE
    assert pair.asked == asked
    assert pair.learnt == [PAGE.header], "who is master now, the next call knows"


class Trimming(Pair):
    """Each member has trimmed the record that it has just named as its first one, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__({})
        self.times = times
        self.first = {A: 1, B: 1}

    async def once(self, endpoint: str, method: str, request: Any, *_rest: object) -> Any:
        first = self.first[endpoint]
        if method.endswith("GetJournalHead"):
            return pb.GetJournalHeadResponse(first=pb.JournalPosition(log_index=first))
        at = request.selection.position.log_index
        self.asked.append(f"{endpoint} {at}")
        if at <= self.times:
            self.first[endpoint] = at + 1
            raise error_of("OUT_OF_RANGE", "it begins later", {"member": endpoint, "first_log_index": str(at + 1)})
        return pb.ReadJournalPageResponse(next=pb.JournalPosition(log_index=at + 9), at_end=True)

    async def read(self, start: JournalPosition | None) -> list[int]:
        return [page.next.log_index async for page in read_journal(self.client(), (), start)]


async def test_who_names_no_place_begins_where_the_journal_begins_when_it_is_read() -> None:
    """1. Both keep record 1. 2. It is trimmed before the page is read. 3. So is record 2. 4. Nobody asked for them."""
    pair = Trimming(2)
    assert await pair.read(None) == [12]
    assert pair.asked == [f"{A} 1", f"{B} 1", f"{A} 2", f"{B} 2", f"{A} 3"]


async def test_who_names_a_place_is_told_that_it_is_trimmed() -> None:
    pair = Trimming(2)
    with pytest.raises(Refused, match="OUT_OF_RANGE"):
        await pair.read(JournalPosition(1))


async def test_a_member_that_goes_on_naming_what_it_has_trimmed_is_not_asked_for_ever() -> None:
    pair = Trimming(2)

    async def once(endpoint: str, method: str, *_rest: object) -> Any:
        if method.endswith("GetJournalHead"):
            return pb.GetJournalHeadResponse(first=pb.JournalPosition(log_index=1))
        raise trimmed_at("a" if endpoint == A else "b")

    pair.once = once  # type: ignore[method-assign]
    with pytest.raises(Refused, match="OUT_OF_RANGE"):
        await pair.read(None)


async def test_a_member_of_before_gives_rows_where_they_are_counted() -> None:
    """It knows nothing of `without_rows`: pages of at most 16,384 rows, without payloads, that end inside records."""
    pair, asked = Trimming(0), list[pb.ReadJournalPageRequest]()

    async def once(_endpoint: str, method: str, request: Any, *_rest: object) -> Any:
        assert method.endswith("ReadJournalPage")
        asked.append(pb.ReadJournalPageRequest.FromString(request.SerializeToString()))
        count = min(request.max_rows, 16_384)
        following = pb.JournalPosition(log_index=request.selection.position.log_index + 1, row=3)
        return pb.ReadJournalPageResponse(columns=pb.JournalColumns(count=count), next=following)

    pair.once = once  # type: ignore[method-assign]
    pages = [page async for page in read_journal(pair.client(), (), JournalPosition(1), max_rows=40_000, rows=False)]
    assert [len(page) for page in pages] == [16_384, 16_384, 40_000 - 2 * 16_384]
    assert [each.max_rows for each in asked] == [40_000, 40_000 - 16_384, 40_000 - 2 * 16_384]
    assert all(each.selection.without_rows and each.selection.without_payloads for each in asked)
    assert [list(page.rows()) for page in pages] == [[], [], []]


@pytest.mark.parametrize("known", ["", B])
@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("named", [[A], [A, B], [A, B, "127.0.0.1:3"]])
async def test_who_is_master_is_asked_only_by_whom_it_is_unknown_to_and_makes_a_difference(
    named: list[str], here: bool, known: str
) -> None:
    """A page read at the master costs it far more than a head: a new client of several members asks for that first."""
    head = pb.GetJournalHeadResponse(header=common_pb2.ResponseHeader(member="a"))
    pair = Pair({A: [head], B: [head]})  # type: ignore[dict-item, list-item]  # heads in place of pages
    link = pair.link()
    link.members.named = named
    link.members.masters = SimpleNamespace(endpoint=lambda _domain: known)
    await _Asking(link, retry.Policy(total_s=10.0), "main", here=here).find_master()
    wanted = len(named) > 1 and not here and not known
    assert len(pair.asked) == (1 if wanted else 0)
    assert pair.learnt == ([head.header] if wanted else [])
