"""Calls about queues and what stands beside them; never decides what they come to."""
