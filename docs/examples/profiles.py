"""What a new queue gets when its creator says nothing: profiles `safe` (the default) and `classic`, side by side.

    python docs/examples/profiles.py 127.0.0.1:7600,127.0.0.1:7610

The manager that is asked has profile `safe` unless its configuration says otherwise. The one with profile `classic`
(Table 5 of the first design and its queue defaults) runs inside this program for a moment; a server gets it by
`profile = "classic"` in section [manager].
"""

import asyncio
import os
import sys
import tempfile
import uuid

from tandemq import aio, embedded
from tandemq.client.aio import Client
from tandemq.config import ManagerConfig
from tandemq.v1.queue_admin_service_pb2 import Overflow, Persistence, QueueConfig, QueueType
from tandemq.v1.queue_service_pb2 import SettleMode


def facts(config: QueueConfig) -> dict[str, str]:
    """A queue's attributes in words."""

    def limit(value: int) -> str:
        return f"{value:,}" if value else "no limit"

    hours = config.empty_idle_expiry.ToTimedelta().total_seconds() / 3600
    letters = config.dead_letter_queue or "none" if config.HasField("dead_letter_queue") else "<queue>.dead"
    return {
        "type": QueueType.Name(config.queue_type).removeprefix("QUEUE_TYPE_"),
        "persistence": Persistence.Name(config.persistence).removeprefix("PERSISTENCE_"),
        "messages": limit(config.max_length),
        "payload bytes": limit(config.max_bytes),
        "when full": Overflow.Name(config.overflow).removeprefix("OVERFLOW_"),
        "delivery": SettleMode.Name(config.default_settle).removeprefix("SETTLE_MODE_"),
        "deliveries": limit(config.max_deliveries),
        "dead letters": letters,
        "deleted when idle": f"after {hours:.0f} h" if hours else "never",
        "remote clients": "allowed" if config.remote_clients_allowed else "refused",
    }


async def new_queue(client: Client) -> dict[str, str]:
    queue = f"example/profile-{uuid.uuid4().hex[:8]}"
    made = await client.create_queue(queue)
    await client.delete_queue(queue)
    return facts(made.config)


async def main(servers: str) -> None:
    async with aio.connect(servers) as client:
        given = (await client.get_defaults()).profile
        one = await new_queue(client)

        # What is true of a new queue can be changed for all that follow, without another profile.
        await client.update_defaults(QueueConfig(max_length=50), ["max_length"])
        print(f"after update_defaults a new queue holds {(await new_queue(client))['messages']} messages")
        await client.update_defaults(QueueConfig(), ["max_length"])  # back to the profile's
        print(f"and then again {(await new_queue(client))['messages']}")

    with tempfile.TemporaryDirectory() as folder:
        config = ManagerConfig(member="inside", data_dir=folder, profile="classic", server_required=False)
        async with embedded.open_manager(config) as manager, embedded.connect(manager) as client:
            other = await new_queue(client)

    print(f"{'':18} {given:18} classic")
    for name, value in one.items():
        print(f"{name:18} {value:18} {other[name]}")


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: profiles.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    asyncio.run(main(addresses))
