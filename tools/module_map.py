"""Writes docs/MODULES.md: every module of the parts below with the first sentence of its docstring.

    python tools/module_map.py write | check

`check` fails when a module was added, moved, removed or described anew since the page was written.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "MODULES.md"
PARTS = ("replica", "failover", "storage", "tandemq/client", "chaos/sim", "pipeline")
BEGIN, END = "<!-- modules: written by make modules -->", "<!-- modules: end -->"
PLACE = re.compile(re.escape(BEGIN) + r"\n.*?" + re.escape(END), re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.?!])(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=[A-Z`\"(])")


class NoDocstringError(Exception):
    """A module that says nothing of itself cannot be on the map."""


def summary(text: str) -> str:
    """The first sentence of a module's docstring on one line; empty when it has none."""
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    return SENTENCE_END.split(" ".join(first.split()))[0]


def lines(root: Path, part: str) -> list[str]:
    """One line a module, a package's own line first. Raises NoDocstringError."""
    found = []
    for path in sorted((root / part).rglob("*.py"), key=lambda path: (path.parent, path.name != "__init__.py", path)):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        if sentence := summary(text):
            found.append(f"- `{name}`: {sentence}")
        elif text.strip():
            raise NoDocstringError(f"{name}: begin it with a sentence that says what it decides")
    return found


def render(root: Path, parts: tuple[str, ...] = PARTS) -> str:
    """What stands between the marks."""
    return "".join(f"\n## {part}\n\n" + "\n".join(lines(root, part)) + "\n" for part in parts) + "\n"


def written(page: str, root: Path = ROOT, parts: tuple[str, ...] = PARTS) -> str:
    """The page with the modules as they are now."""
    if len(PLACE.findall(page)) != 1:
        raise SystemExit(f"{PAGE}: no single place between {BEGIN} and {END}")
    body = f"{BEGIN}\n{render(root, parts)}{END}"
    return PLACE.sub(lambda _: body, page)


def main(verb: str, page: Path = PAGE, root: Path = ROOT, parts: tuple[str, ...] = PARTS) -> int:
    """The exit code."""
    text = page.read_text(encoding="utf-8")
    try:
        now = written(text, root, parts)
    except NoDocstringError as error:
        print(error, file=sys.stderr)
        return 1
    if verb == "write":
        page.write_text(now, encoding="utf-8")
    elif now != text:
        print(f"{page} is out of date: run make modules", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))
