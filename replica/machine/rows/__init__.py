"""Makes rows of the queues' state for a snapshot, and the state of them; never changes what they say."""
