"""What spark-submit is given: the commands of `tandemq pipeline`, in an environment that has tandemq[spark]."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    # Its folder comes first when a file is run: the names in there are no modules by themselves.
    sys.path[:] = [place for place in sys.path if place != here]
    from tandemq.cli.pipeline import pipeline

    pipeline(prog_name="tandemq pipeline")
