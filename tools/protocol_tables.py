"""Writes the protocol's tables into docs/PROTOCOL.md from the code that obeys them; `check` fails when they differ.

    python tools/protocol_tables.py write | check

Between `<!-- table: NAME -->` and `<!-- end of table -->` stands what the module of that name renders.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from failover import handoff, promotion, steps  # noqa: E402  # after the path is set

PAGE = ROOT / "docs" / "PROTOCOL.md"
TABLES = {"promotion": promotion.render, "steps": steps.render, "handoff": handoff.render}
PLACE = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end of table -->", re.DOTALL)


def written(page: str) -> str:
    """The page with every table as the code says it now."""
    found = PLACE.findall(page)
    if sorted(found) != sorted(TABLES):
        raise SystemExit(f"{PAGE}: places for {sorted(found)}, tables are {sorted(TABLES)}")
    return PLACE.sub(lambda match: f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}<!-- end of table -->", page)


def main(verb: str) -> int:
    """The exit code."""
    page = PAGE.read_text(encoding="utf-8")
    if verb == "write":
        PAGE.write_text(written(page), encoding="utf-8")
        return 0
    if written(page) != page:
        print(f"{PAGE} is not what the code says: run python tools/protocol_tables.py write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["write"], ["check"]):
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))
