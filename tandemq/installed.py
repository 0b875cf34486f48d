"""Says whether Tandemq is installed where it is imported, and not merely given in a zip. It imports nothing else of it
but its errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tandemq.errors import Refused

ZIPS = (".whl", ".zip", ".egg")


def check_installed(own: str = __file__, places: Sequence[str] | None = None) -> None:
    """Raises Refused with reason NOT_INSTALLED when tandemq comes out of a zip, or would where tasks of Spark run.

    That is what `spark-submit --py-files` makes of a wheel: a place of sys.path that is a file. What tandemq needs has
    compiled parts (grpc, lmdb, pyarrow), which no Python imports out of a zip. places: empty to look at `own` alone.
    """
    zipped = next((str(place) for place in Path(own).parents if place.is_file()), "")
    given = [place for place in (sys.path if places is None else places) if _is_our_zip(place)]
    if zipped or given:
        text = (
            f"tandemq would be imported out of {zipped or given[0]} (--py-files), and what it needs (grpc, lmdb, "
            "pyarrow) has compiled parts, which cannot be imported out of a zip. Leave --py-files out: install "
            "tandemq[spark] in the Python of driver and executors, or pack an environment that has it and give that "
            "by --archives (docs/SPARK.md, On a cluster)"
        )
        raise Refused("NOT_INSTALLED", text, definite=True)


def _is_our_zip(place: str) -> bool:
    name = Path(place).name.lower()
    return name.startswith("tandemq") and name.endswith(ZIPS) and not Path(place).is_dir()
