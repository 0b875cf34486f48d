"""The Python client: asyncio (`aio`) and blocking. Users reach it as `tandemq.aio` and `tandemq.connect`."""
