"""R147: a file of managers with priorities and aliases; a bad one is refused by file, key, value and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.finding.profile import FILE_BYTES_MAX, BadProfile, Place, parse, places, read, read_place
from tandemq.finding.resolver import Exported, Manager

FILE = Path("/etc/tandemq/managers.toml")
GOOD = """
[managers.far]
endpoints = ["c:7600"]
priority = 10

[managers.orders]
endpoints = ["a", "b:7610", "a:7600"]
aliases = ["my_qmgr"]

[managers.archive]
endpoints = ["d:1"]
default = false

[aliases]
hot = "orders"
elsewhere = "of-another-file"

[queues."cf/hotline"]
manager = "orders"

[queues.direct]
manager = "orders"
endpoints = ["e:2"]

[[resolvers]]
kind = "dns"
name = "dns"
domain = "example.com"
"""


@pytest.mark.requirement("R147")
def test_a_file_lists_managers_with_priorities() -> None:
    found = parse(FILE, GOOD)
    assert found.defaults == (Manager("orders", ("a:7600", "b:7610")), Manager("far", ("c:7600",), 10))
    assert found.managers["archive"].endpoints == ("d:1",)
    assert found.aliases == {"my_qmgr": "orders", "hot": "orders", "elsewhere": "of-another-file"}
    assert found.queues["cf/hotline"] == Exported("cf/hotline", "orders")
    assert found.queues["direct"].endpoints == ("e:2",)
    assert [(spec.kind, spec.name, spec.options) for spec in found.resolvers] == [
        ("dns", "dns", {"domain": "example.com"})
    ]


MANAGER = "[managers.orders]\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[managers.orders\n", "is not TOML"),
        ("[manager.orders]\n", r"unknown key manager = .*; did you mean managers\?"),
        ("managers = 1\n", r"managers = 1: write a section \[managers\]"),
        ("[managers]\norders = 1\n", r"managers.orders = 1: write a section"),
        (MANAGER, r"managers.orders.endpoints is missing; write endpoints = \["),
        (MANAGER + 'endpoints = "a:1"', r"managers.orders.endpoints = 'a:1': write a list"),
        (MANAGER + "endpoints = [1]", r"managers.orders.endpoints = \[1\]: write a list"),
        (MANAGER + 'endpoints = ["a:x"]', r"managers.orders: 'a:x' is not host:port"),
        (MANAGER + 'endpoints = ["a"]\nprioritty = 1', r"managers.orders.prioritty = 1; did you mean priority\?"),
        (MANAGER + 'endpoints = ["a"]\npriority = "1"', r"managers.orders.priority = '1': give a whole number"),
        (MANAGER + 'endpoints = ["a"]\npriority = true', r"managers.orders.priority = True"),
        (MANAGER + 'endpoints = ["a"]\npriority = 70000', r"managers.orders: priority 70000 .*not within 0 and 65535"),
        (MANAGER + 'endpoints = ["a"]\ndefault = 1', r"managers.orders.default = 1: write true"),
        (MANAGER + 'endpoints = ["a"]\naliases = ["x y"]', r"managers.orders.aliases = 'x y'.*no manager's name"),
        (MANAGER + f"endpoints = {[f'h{place}' for place in range(17)]}", "has 17 endpoints; at most 16"),
        ('[managers."a/b"]\nendpoints = ["a"]', "'a/b' is no manager's name"),
        ("[aliases]\nx = 1", "aliases.x = 1: give the name of a manager"),
        (MANAGER + 'endpoints = ["a"]\naliases = ["x"]\n[aliases]\nx = "y"', "is an alias of orders already"),
        (MANAGER + 'endpoints = ["a"]\n[aliases]\norders = "y"', "is a manager's name in the same file; rename"),
        ("[queues.q]\n", r'queues."q".manager = None: give the name of the manager'),
        ('[queues."a//b"]\nmanager = "m"', "a segment is empty"),
        ('[queues.q]\nmanager = "m"\nendpoints = [":1"]', "':1' is not host:port"),
        ("resolvers = 1", r"resolvers = 1: write \[\[resolvers\]\]"),
        ("[[resolvers]]\n", r"resolvers\[0\].kind = None: give one in quotes"),
        ('[[resolvers]]\nkind = "dns"\nname = 1', r"resolvers\[0\].name = 1: give a word in quotes"),
        ('[[resolvers]]\nkind = "dns"\n' * 17, "resolvers has 17 entries; at most 16"),
    ],
)
def test_a_bad_file_is_refused_by_key_and_value_with_what_to_do(text: str, says: str) -> None:
    with pytest.raises(BadProfile, match=says) as caught:
        parse(FILE, text)
    assert str(caught.value).startswith(f"{FILE}: ")


def test_a_file_is_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    assert read(tmp_path / "none.toml") is None
    with pytest.raises(BadProfile, match="cannot be read: Is a directory; let its readers read it"):
        read(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(BadProfile, match="is no text in UTF-8"):
        read(tmp_path / "bytes.toml")
    with (tmp_path / "big.toml").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(BadProfile, match=f"has more than {FILE_BYTES_MAX} bytes"):
        read(tmp_path / "big.toml")
    named = Place("site", tmp_path / "none.toml", "TANDEMQ_SITE_FILE")
    with pytest.raises(BadProfile, match=r"\$TANDEMQ_SITE_FILE names it: correct the variable, or unset it"):
        read_place(named)


def test_where_the_three_files_are() -> None:
    usual = places({"TANDEMQ_CONFIG_HOME": "/home/u"})
    assert [(place.kind, str(place.path)) for place in usual] == [
        ("user", "/home/u/managers.toml"),
        ("host", "/etc/tandemq/managers.toml"),
        ("site", "/etc/tandemq/site.toml"),
    ]
    named = places({"TANDEMQ_CONFIG_HOME": "/h", "TANDEMQ_HOST_FILE": "/x", "TANDEMQ_SITE_FILE": "/y"})
    assert [str(place.path) for place in named] == ["/h/managers.toml", "/x", "/y"]
