"""What clients do in a drawn plan."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from chaos.sim.clients.roles import ROLES
from chaos.sim.draw.clients import GROUPED, with_groups
from chaos.sim.draw.profiles import PROFILES, draw
from chaos.sim.pair.plan import Plan
from chaos.sim.world.world import World

SEEDS = range(200)


def test_every_role_and_every_verb_is_drawn_and_can_be_carried_out() -> None:
    plans = [draw("swarm", seed) for seed in SEEDS]
    others = [draw(profile, seed) for profile in PROFILES for seed in range(10)]
    roles = Counter(client.role for plan in (*plans, *others) for client in plan.clients)
    assert roles.keys() == ROLES.keys()
    kinds = Counter(call.kind for plan in plans for client in plan.clients for call in client.calls)
    assert kinds["die"] > 50
    calls = sorted(sum(len(client.calls) for client in plan.clients) for plan in plans)
    assert 40 <= calls[len(calls) // 2] <= 90, "about sixty calls a seed"
    World(plans[0])  # roles are found by name


def test_a_plan_is_its_json() -> None:
    for seed in range(20):
        plan = draw("swarm", seed)
        assert Plan.from_json(plan.to_json()) == plan


def test_beside_a_queue_of_groups_the_other_clients_are_as_they_would_be() -> None:
    stream = random.Random(1)
    for plan in (draw("restart", seed) for seed in range(20)):
        made = with_groups(plan.clients, stream, plan.safety_ms)
        setup, rest = made[0], made[1:]
        assert setup.calls[:-1] == plan.clients[0].calls
        assert setup.calls[-1].args == {"queue": GROUPED, "kind": "ordered"}
        assert rest[: len(plan.clients) - 1] == plan.clients[1:]
        senders = [each for each in rest if each.args.get("queue") == GROUPED and "number" in each.args]
        assert {call.args["group"] for each in senders for call in each.calls if call.kind != "die"} <= set(range(3))
    assert any(each.args.get("queue") == GROUPED for each in draw("groups", 1).clients)


def test_messages_of_two_clients_never_share_a_name() -> None:
    for profile, seed in itertools.product(("fence", "groups"), SEEDS):
        numbers = [client.args["number"] for client in draw(profile, seed).clients if "number" in client.args]
        assert len(numbers) == len(set(numbers))
