"""The demo of macro queues: flight records over a pair and a single manager, and what the journals of all three say."""
