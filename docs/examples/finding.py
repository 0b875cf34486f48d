"""Names: a host's file of managers, a link to one of them, full names, and a queue that is found by its name alone.

    python docs/examples/finding.py 127.0.0.1:7600,127.0.0.1:7610

It writes the file that an administrator would keep in /etc/tandemq/managers.toml into a folder of its own.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import tandemq
from tandemq.errors import NotFound
from tandemq.finding import FileRegistry


def main(servers: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = Path(folder) / "host.toml"
        host.write_text(
            f"[managers.orders]\nendpoints = {json.dumps(servers.split(','))}\n"
            '[managers.standby]\nendpoints = ["127.0.0.1:1"]\npriority = 10  # used when no member of orders answers\n'
            '[aliases]\nmy_qmgr = "orders"\n'
        )
        os.environ["TANDEMQ_HOST_FILE"] = str(host)
        os.environ["TANDEMQ_CONFIG_HOME"] = folder  # nothing of this user's own
        for variable in ("TANDEMQ_TARGET", "MOS_DFLT_QUEMGR_NAME"):
            os.environ.pop(variable, None)

        with tandemq.connect() as client:  # nobody named a manager: the host's file does
            client.create_queue("cf/hotline")
            print("created at the default manager: cf/hotline")
            done = client.export_queue("cf/hotline", FileRegistry(host), manager="orders")
            print(f"exported as {done.name}")

        with tandemq.connect("//my_qmgr/cf/hotline") as client:  # by a link to the manager
            client.enqueue(client.queue, [b"ring"])
            print("sent through //my_qmgr/cf/hotline")

        with tandemq.connect("///cf/hotline") as client:  # by the queue's name alone
            received = client.dequeue(client.queue)
            received.ack()
            print(f"received through ///cf/hotline: {received[0].payload.decode()!r}")
            print(f"whose it is: {client.find_queue('cf/hotline')}")
            client.delete_queue("//orders/cf/hotline")  # a full name may stand wherever a queue is named
            client.withdraw_queue("cf/hotline", FileRegistry(host), manager="orders")

        with tandemq.connect("//orders") as client:
            try:
                client.enqueue("//billing/invoices", [b"1"])
            except NotFound as error:
                print(f"a manager that nobody knows: {error.reason}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TANDEMQ_TARGET"])
