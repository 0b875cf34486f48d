"""The architecture, as a test: text goes to a terminal, a log or a page by one way each, which escapes it.

`tandemq/cli/output.py` and `terminal.py` make what is printed, `logs.py` what is logged, `tandemq/escaping.py` what is
put into a page. A table built around them would show what strangers wrote as they meant it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_layout import Module, module_of, nodes_of, sources, within

TERMINAL = ("tandemq.cli.output", "tandemq.cli.terminal")
LOGS = ("tandemq.cli.logs",)
PAGES = ("tandemq.escaping", "chaos.sim.tools.picture")  # the simulator draws its own words alone
SHIPPED = ("tandemq", "replica", "storage", "failover", "chaos", "pipeline")
OWN_WORDS = ("chaos.sim",)  # meets no stranger
RICH = ("rich.live.Live", "rich.console.Group", "rich.progress", "rich.progress_bar.ProgressBar")
"""Of rich: what only holds or moves what others have made."""
PRINTING = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write"}
LOGGING = {"logging.basicConfig", "logging.StreamHandler", "logging.FileHandler", "logging.Formatter"}
MARKUP = ("html", "xml.sax.saxutils", "markupsafe")


def shown_around(module: Module) -> list[str]:
    """Ways of this module to show text that nothing escapes."""
    return [f"{module.path}:{line} {what}" for line, what in _found(module)]


def _found(module: Module) -> Iterator[tuple[int, str]]:
    if within(module.name, ("tests", "tools")):
        return
    for item in module.imports():
        if within(item.target, ("rich",)) and module.name not in TERMINAL and not within(item.target, RICH):
            yield item.line, f"imports {item.target}: use tandemq.cli.terminal"
        if within(item.target, MARKUP) and within(module.name, SHIPPED) and module.name not in PAGES:
            yield item.line, f"imports {item.target}: use tandemq.escaping"
    if not within(module.name, SHIPPED) or within(module.name, OWN_WORDS):
        return
    for node in nodes_of(module):
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func)
        if called in PRINTING and module.name not in TERMINAL:
            yield node.lineno, f"calls {called}: use tandemq.cli.output"
        if called in LOGGING and module.name not in LOGS:
            yield node.lineno, f"calls {called}: use tandemq.cli.logs"


def dotted(called: ast.expr) -> str:
    """As written, where it is a name or one of a name's; "": anything else."""
    if isinstance(called, ast.Name):
        return called.id
    if isinstance(called, ast.Attribute) and (owner := dotted(called.value)):
        return f"{owner}.{called.attr}"
    return ""


def test_text_is_shown_by_the_ways_that_escape_it() -> None:
    assert [line for module in sources().values() for line in shown_around(module)] == []


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("tandemq/cli/pair.py", "def show():\n    from rich.table import Table\n    from rich.text import Text\n", 2),
        ("bench/report.py", "from rich.console import Console\n", 1),
        ("chaos/drill/screen.py", "import rich\nfrom rich import box\nfrom rich.markup import escape\n", 3),
        ("chaos/drill/screen.py", "from rich.live import Live\nfrom rich.progress import Progress\n", 0),
        (
            "tandemq/cli/pair.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rich.text import Text",
            0,
        ),
        ("tandemq/cli/terminal.py", "from rich.table import Table\n", 0),
        ("tandemq/cli/msg.py", "print(body)\nclick.echo(body)\nclick.secho(body)\nsys.stderr.write(body)\n", 4),
        ("replica/node/loop.py", "print(error)\n", 1),
        ("tandemq/cli/output.py", "click.echo(body)\n", 0),
        ("chaos/sim/tools/cli.py", "click.echo(story)\n", 0),
        ("bench/run.py", "print(figure)\n", 0),
        ("failover/witness.py", "logging.basicConfig()\nlogging.Formatter('%(message)s')\n", 2),
        ("tandemq/cli/logs.py", "logging.StreamHandler()\n", 0),
        ("pipeline/report.py", "from html import escape\n", 1),
        ("chaos/timeline/page.py", "import html\nfrom xml.sax.saxutils import escape\n", 2),
    ],
)
def test_a_planted_way_around_is_found(path: str, text: str, count: int) -> None:
    assert len(shown_around(module_of(path, text))) == count
