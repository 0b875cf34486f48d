"""How the stories of a pair that are told in Python begin and end; those told as text are in tests/scripts."""

from __future__ import annotations

from tests.support.checks import BrokenRuleError
from tests.support.clients import Producer, check_contents, create
from tests.support.pair import Member, Pair


def paired() -> tuple[Pair, Producer]:
    """Both members in epoch 1, A master, a queue and one message in it."""
    pair = Pair().start()
    create(pair)
    x = Producer(pair, "x")
    x.send(pair.a)
    pair.settle(200)
    assert x.ops[0].done is not None
    return pair, x


def solo(pair: Pair, master: Member) -> None:
    """Its peer crashes, and it goes on alone."""
    pair.crash(master.peer)
    master.lost(refused=True)
    pair.settle(500)
    assert master.serving


def ends_well(pair: Pair, *producers: Producer) -> None:
    """Everything works again: the pair forms, what is unanswered is repeated, nothing is lost or there twice."""
    try:
        pair.heal()
    except BrokenRuleError:
        raise
    except AssertionError as error:
        raise BrokenRuleError(str(error)) from error
    for producer in producers:
        for member in (pair.a, pair.b):
            producer.retry(member)
            pair.settle(300)
    pair.checks.equal()
    check_contents(pair, list(producers))
