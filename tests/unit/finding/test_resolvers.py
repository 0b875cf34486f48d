"""Which resolvers there are: shipped ones, those of installed packages, and what a file asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tandemq.finding.profile import BadProfile, ResolverSpec
from tandemq.finding.resolver import BadEntry
from tandemq.finding.resolvers import StaticResolver, make, registry, standard

PLUGIN = """
from tandemq.finding.resolver import Answer, Manager, Resolver

class Phone(Resolver):
    source = "phone book"
    def __init__(self, options):
        self.options = options
    async def resolve(self, name):
        return Answer((Manager(name, (self.options["host"],)),))

def make(options):
    return Phone(options)

def wrong(options):
    return "phone"

not_callable = 1
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip would install it, with entry points of its own."""
    site = tmp_path / "site"
    info = site / "phonebook-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "phonebook.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: phonebook\nVersion: 1.0\n")
    points = (
        "phone = phonebook:make",
        "wrong = phonebook:wrong",
        "one = phonebook:not_callable",
        "gone = nowhere:make",
    )
    (info / "entry_points.txt").write_text("[tandemq.resolvers]\n" + "\n".join(points) + "\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "phonebook", raising=False)


@pytest.mark.usefixtures("plugin")
async def test_an_installed_package_offers_a_resolver() -> None:
    made = make(ResolverSpec("phone", {"host": "a:1"}, "here"))
    answer = await made.resolve("orders")
    assert answer is not None
    assert (made.source, answer.managers[0].endpoints) == ("phone book", ("a:1",))


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("wrong", "here: phonebook:wrong returned str, not a tandemq.finding.Resolver"),
        ("one", "is no function of a section's options"),
        ("gone", "nowhere:make cannot be imported"),
        ("fax", "no such resolver; known: static, file, dns, ldap, .*phone.*install the package"),
    ],
)
def test_a_kind_that_is_none_is_refused(kind: str, says: str) -> None:
    with pytest.raises(BadProfile, match=says):
        make(ResolverSpec(kind, {}, "here"))


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("static", {"managers": ["a"]}, "managers = .*: write a table"),
        ("static", {"manager": {}}, "unknown key manager; known here: managers, queues"),
        ("static", {"managers": {"a": "h:x"}}, "'h:x' is not host:port"),
        ("file", {}, "path = None: give the path of a file"),
        ("file", {"path": "x", "mode": 1}, "unknown key mode; known here: path"),
        ("dns", {}, "domain = None: give a domain"),
        ("dns", {"domain": "a..b"}, "is no DNS name"),
        ("dns", {"domain": "a", "server": "b"}, "unknown key server; known here: domain, nameservers"),
        ("dns", {"domain": "a", "nameservers": "b"}, "nameservers = 'b': give a list"),
        ("dns", {"domain": "a", "nameservers": ["ns.example.com"]}, "'ns.example.com' is not an IP address"),
        ("dns", {"domain": "a", "nameservers": ["10.0.0.1:x"]}, "is not an IP address, or address:port"),
        ("ldap", {}, "url = '': give one in quotes"),
        ("ldap", {"url": "http://x"}, "url = 'http://x': give one"),
        ("ldap", {"url": "ldap://x"}, "base is missing"),
        ("ldap", {"url": "ldap://x", "base": "nonsense"}, "base = 'nonsense': is no distinguished name"),
        ("ldap", {"url": "ldap://x", "base": "dc=x", "bind_dn": "cn=a"}, "bind_dn and password_file belong together"),
        ("ldap", {"url": "ldap://x", "base": "dc=x", "ttl_s": 0}, "ttl_s = 0: give seconds"),
        ("ldap", {"url": 1, "base": "dc=x"}, "url = 1: give a text"),
        ("ldap", {"url": "ldap://x", "base": "dc=x", "pass": "y"}, "unknown key pass; known here: url, base, bind_dn"),
        (
            "ldap",
            {"url": "ldap://x", "base": "dc=x", "bind_dn": "cn=a", "password_file": "/p"},
            "would send the password in the clear; use ldaps://",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_before_anybody_is_asked(kind: str, options, says: str) -> None:
    with pytest.raises(BadProfile, match=says) as caught:
        make(ResolverSpec(kind, options, "here"))
    assert str(caught.value).startswith("here: ")


async def test_a_static_list_in_a_file(tmp_path: Path) -> None:
    text = '[[resolvers]]\nkind = "static"\nmanagers = { orders = "a,b:1", link = "//orders" }\n'
    text += 'queues = { q = "orders" }\n'
    (tmp_path / "managers.toml").write_text(text)
    (tmp_path / "context.toml").write_text('target = "c:1"\npair = "dev"\n')
    found = standard({"TANDEMQ_CONFIG_HOME": str(tmp_path)})
    assert [type(each).__name__ for each in found] == ["StaticResolver", *["FileResolver"] * 3, "StaticResolver"]
    context, static = found[0], found[-1]
    by_context, by_list, by_link = [
        await context.resolve("dev"),
        await static.resolve("orders"),
        await static.resolve("link"),
    ]
    assert by_context is not None
    assert by_context.managers[0].endpoints == ("c:1",)
    assert by_list is not None
    assert by_list.managers[0].endpoints == ("a:7600", "b:1")
    assert by_link is not None
    assert by_link.alias_of == "orders"
    assert (await static.resolve_queue("q")) is not None
    assert await static.resolve("other") is None


def test_a_bad_static_list_is_told_to_the_program() -> None:
    with pytest.raises(BadEntry, match="manager 'orders' has no endpoint"):
        StaticResolver({"orders": ()})


def test_where_queues_can_be_exported_to(tmp_path: Path) -> None:
    path = tmp_path / "managers.toml"
    path.write_text(
        '[[resolvers]]\nkind = "ldap"\nname = "directory"\nurl = "ldap://h"\nbase = "dc=x"\n'
        '[[resolvers]]\nkind = "dns"\nname = "dns"\ndomain = "x.test"\nnameservers = ["127.0.0.1"]\n'
    )
    environment = {"TANDEMQ_CONFIG_HOME": str(tmp_path), "TANDEMQ_SITE_FILE": str(tmp_path / "site.toml")}
    (tmp_path / "site.toml").write_text("")
    for where, source in (
        ("user", f"file {path}"),
        ("site", f"file {tmp_path}/site.toml"),
        ("directory", "ldap://h/dc=x"),
        ("ldap://h:389/ou=a%20b,dc=x", "ldap://h:389/ou=a b,dc=x"),
        ("./x", "file x"),
        ("x.toml", "file x.toml"),
    ):
        assert registry(where, environment).source == source
    with pytest.raises(BadProfile, match="'somewhere': is no place to export to; give user, host or site"):
        registry("somewhere", environment)
    with pytest.raises(BadProfile, match=r"dns x.test at 127.0.0.1 can be asked and not written to"):
        registry("dns", environment)


def test_what_nobody_asks_for_is_not_imported() -> None:
    code = (
        "import sys, tandemq.client.aio, tandemq.finding.resolvers as r; r.standard({'TANDEMQ_CONFIG_HOME': '/none'}); "
        "print([each for each in ('dns', 'ldap3') if each in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(("kind", "package"), [("dns", "dns"), ("ldap", "ldap3")])
def test_a_missing_extra_is_named(kind: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each == f"tandemq.finding.{kind}"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    options = {"domain": "x", "url": "ldap://x", "base": "dc=x"}
    with pytest.raises(BadProfile, match=rf"kind = '{kind}'.*pip install 'tandemq\[{kind}\]'"):
        make(ResolverSpec(kind, options, "here"))
