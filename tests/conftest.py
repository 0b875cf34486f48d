"""What holds for every test of the suite."""

from __future__ import annotations

from tests.support import profiles
from tests.support.foreground import as_in_the_foreground

pytest_plugins = [
    "tests.support.unchanged",  # before who imports it: pytest rewrites the assertions of a plugin
    "tests.support.failing",
    "tests.support.forked_children",  # before anybody imports gRPC
    "tests.support.forking",
    "tests.support.hanging",
    "tests.support.ports",
    "tests.support.setting_aside",
    "tests.support.shuffling",
    "tests.support.starvation",
]

as_in_the_foreground()
profiles.load()
