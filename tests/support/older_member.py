"""The product's command line as a release of protocol 1 to a peer that asks, which knows no sides of queues, macro
queues, proxies or rights: python -m tests.support.older_member serve --config FILE ...
"""

from __future__ import annotations

import replica.node.protocols
from replica.node.protocols import SECOND
from tandemq.cli import main

if __name__ == "__main__":
    replica.node.protocols.PROTOCOL_MAX = SECOND - 1
    main()
