"""The product's command line as a release that knows no sides of queues, to a peer that asks: python -m
tests.support.older_member serve --config FILE ...
"""

from __future__ import annotations

import replica.node.protocols
from replica.node.protocols import WITH_SIDES
from tandemq.cli import main

if __name__ == "__main__":
    replica.node.protocols.PROTOCOL_MAX = WITH_SIDES - 1
    main()
