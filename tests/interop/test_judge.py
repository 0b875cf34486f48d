"""The judge says yes to what is right, and finds each thing that a client could have seen wrong."""

from __future__ import annotations

import re

import pytest

from tests.interop.judge import Judge, Wrong
from tests.interop.script import parse

# A script, and what a client that sees no fault says to each line of it; `/` is between its own lines.
STEPS = (
    ("decode message=DequeueResponse facts=a,7", "facts a,7"),
    ("create queue=q type=two_way", ""),
    ("send queue=q count=2", "sent 1/sent 2"),
    ("stream queue=q count=5 batch=2", "acked 1 2 3/acked 3 1 5/acked 3 2 5/acked 5 1 7"),
    ("browse queue=q first=2 count=3", "message 2 2/message 3 3/message 4 4"),
    ("receive queue=q count=3", "message 1 1/message 2 2/message 3 3"),
    ("settle queue=q", "settled 2 2/settled 3 1"),
    ("receive queue=q count=2", "message 4 4/message 5 5"),
    ("reply queue=q", ""),
    ("answers queue=q count=2", "answer re:1/answer re:2"),
    ("consume queue=q count=2", "message 6 6/settled 6 1/message 7 7/settled 7 1"),
    ("expect queue=q length=0", "length 0"),
    ("stream queue=q count=2 batch=2", "acked 1 2 8"),
    ("receive queue=q count=2", "message 8 8/message 9 9"),
    ("unit queue=q into=r also=s", "unit 8 1 1/unit 9 2 2"),
    ("pairwise queue=two", ""),
    ("ask queue=two copies=0 answer=stored", "refused 10 NOT_ENOUGH_COPIES stored"),
    ("once queue=two", "sent 1"),
)


def judged(changes: dict[str, str]) -> Judge:
    """The judge after all steps, where what is said to some verbs' first line is changed."""
    judge, left = Judge("run"), dict(changes)
    for line, says in STEPS:
        [step] = parse(line, "right.txt")
        judge.told(step)
        said = left.pop(step.verb, says)
        judge.judge(step, said.split("/") if said else [])
    assert not left
    return judge


def test_what_is_right_passes() -> None:
    judge = judged({})
    assert (judge.sent, judge.taken) == (14, 9)


@pytest.mark.parametrize(
    ("verb", "said", "complaint"),
    [
        ("decode", "facts a,8", "found 'facts a,8', not 'facts a,7'"),
        ("decode", "", "found nothing, not 'facts a,7'"),
        ("create", "sent 1", "found 'sent 1', not nothing"),
        # An index that is not the next one, a call that was not answered, one that was done twice.
        ("send", "sent 1/sent 3", "found 'sent 3', not 'sent 2'"),
        ("send", "sent 1", "found nothing, not 'sent 2'"),
        ("send", "sent 1/sent 2/sent 3", "found 'sent 3', not nothing"),
        # Lost at the end, lost in the middle, at another index, more than was sent, nothing acknowledged, not a number.
        ("stream", "acked 1 2 3/acked 3 2 5", "found 4 sequences acknowledged, not 5"),
        ("stream", "acked 1 2 3/acked 5 1 7", "found 'acked 5 1 7' after sequence 2"),
        ("stream", "acked 1 2 3/acked 3 2 6/acked 5 1 8", "found 'acked 3 2 6', not index 5"),
        ("stream", "acked 1 6 3", "found 6 sequences acknowledged, not 5"),
        ("stream", "acked 1 0 3", "found 'acked 1 0 3' after sequence 0"),
        ("stream", "acked 1 2", "found 'acked 1 2', not acked and 3 numbers"),
        ("stream", "acked 1 -2 3", "found 'acked 1 -2 3', not acked and 3 numbers"),
        # Lost, doubled, in another order, another's payload, at another index, one too many.
        ("receive", "message 1 1/message 3 3", "found 'message 3 3', not 'message 2 2'"),
        ("receive", "message 1 1/message 1 1/message 2 2", "found 'message 1 1', not 'message 2 2'"),
        ("receive", "message 2 2/message 1 1/message 3 3", "found 'message 2 2', not 'message 1 1'"),
        ("receive", "message 1 1/message 2 3/message 3 2", "found 'message 2 3', not 'message 2 2'"),
        ("receive", "message 2 1/message 3 2/message 4 3", "found 'message 2 1', not 'message 1 1'"),
        ("receive", "message 1 1/message 2 2", "found nothing, not 'message 3 3'"),
        ("receive", "message 1 1/message 2 2/message 3 3/message 4 4", "found 'message 4 4', not nothing"),
        ("browse", "message 2 2/message 3 3", "found nothing, not 'message 4 4'"),
        ("browse", "message 2 2/message 3 3/message 3 3", "found 'message 3 3', not 'message 4 4'"),
        # A settlement that had no effect, one of another part, one that is not confirmed, a message among them.
        ("settle", "settled 2 1/settled 3 1", "found 'settled 2 1', which makes 1 settled of 3 taken"),
        ("settle", "settled 3 1/settled 2 2", "found 'settled 3 1', which makes 1 settled of 3 taken"),
        ("settle", "settled 2 2", "found 2 settled of 3 taken"),
        ("settle", "settled 2 2/settled 3 1/settled 4 1", "found 'settled 4 1', which makes 4 settled of 3 taken"),
        ("settle", "message 4 4/settled 4 4", "found 'message 4 4', not nothing"),
        ("reply", "settled 5 2", "found 'settled 5 2', not nothing"),
        ("answers", "answer re:1/answer ", "found 'answer ', not 'answer re:2'"),
        ("answers", "answer re:2/answer re:1", "found 'answer re:2', not 'answer re:1'"),
        ("answers", "answer re:1", "found nothing, not 'answer re:2'"),
        # Over a stream: lost, doubled, settled before it came, settled with no effect, not settled, something else.
        ("consume", "message 7 7/settled 7 1", "found 'message 7 7', not 'message 6 6'"),
        ("consume", "message 6 6/message 6 6/message 7 7/settled 7 2", "found 'message 6 6', not 'message 7 7'"),
        (
            "consume",
            "settled 6 1/message 6 6/message 7 7/settled 7 1",
            "found 'settled 6 1', which makes 6 settled of 5",
        ),
        ("consume", "message 6 6/message 7 7/settled 7 0", "found 'settled 7 0', which makes 5 settled of 7 taken"),
        ("consume", "message 6 6/message 7 7/settled 6 1", "found 6 settled of 7 taken"),
        ("consume", "message 6 6/message 7 7/settled 7 2/length 0", "found 'length 0', not nothing"),
        # A unit that was done twice, one that was not, one whose message entered one queue alone, another's answer.
        ("unit", "unit 8 1 1/unit 9 3 2", "found 'unit 9 3 2', not 'unit 9 2 2'"),
        ("unit", "unit 8 1 1", "found nothing, not 'unit 9 2 2'"),
        ("unit", "unit 8 1 1/unit 9 2 1", "found 'unit 9 2 1', not 'unit 9 2 2'"),
        ("unit", "unit 9 1 1/unit 8 2 2", "found 'unit 9 1 1', not 'unit 8 1 1'"),
        ("unit", "unit 8 1 1/unit 9 2 2/unit 9 2 2", "found 'unit 9 2 2', not nothing"),
        ("expect", "length 1", "found 'length 1', not 'length 0'"),
        ("pairwise", "sent 1", "found 'sent 1', not nothing"),
        # Another status, another reason, nothing said of what became of it, an answer that was none.
        ("ask", "refused 13 NOT_ENOUGH_COPIES stored", "not 'refused 10 NOT_ENOUGH_COPIES stored'"),
        ("ask", "refused 10 SUSPENDED stored", "not 'refused 10 NOT_ENOUGH_COPIES stored'"),
        ("ask", "refused 10 NOT_ENOUGH_COPIES -", "not 'refused 10 NOT_ENOUGH_COPIES stored'"),
        ("ask", "sent 1", "not 'refused 10 NOT_ENOUGH_COPIES stored'"),
        # The repetition was done once more.
        ("once", "sent 2", "found 'sent 2', not 'sent 1'"),
    ],
)
def test_what_is_wrong_is_found(verb: str, said: str, complaint: str) -> None:
    with pytest.raises(Wrong, match=re.escape(complaint)):
        judged({verb: said})


@pytest.mark.parametrize(
    ("answer", "said", "index"),
    [
        ("sent", "sent 1", 1),
        ("stored", "refused 10 NOT_ENOUGH_COPIES stored", 1),
        ("refused", "refused 14 NOT_ENOUGH_COPIES -", 1),
    ],
)
def test_what_is_asked_for_and_sent_again_is_there_once(answer: str, said: str, index: int) -> None:
    judge = Judge("run")
    for line, says in (
        (f"ask queue=q copies=2 answer={answer}", said),
        ("once queue=q", f"sent {index}"),
        ("send queue=q count=1", f"sent {index + 1}"),
    ):
        [step] = parse(line, "right.txt")
        judge.judge(step, [says])
    assert judge.sent == index + 1


def test_a_client_is_not_told_what_it_has_to_find() -> None:
    judge, told = Judge("run"), []
    for line, says in STEPS[1:]:
        [step] = parse(line, "right.txt")
        told.append(judge.told(step))
        judge.judge(step, says.split("/") if says else [])
    assert told == [
        "create run/q QUEUE_TYPE_TWO_WAY",
        "send run/q 1 2",
        "stream run/q 3 5 2",
        "browse run/q",
        "receive run/q 3",
        "settle run/q",
        "receive run/q 2",
        "reply run/q",
        "answers run/q",
        "consume run/q 2",
        "length run/q",
        "stream run/q 8 2 2",
        "receive run/q 2",
        "unit run/q run/r run/s",
        "pairwise run/two",
        "ask run/two 1 0",
        "once run/two",
    ]
