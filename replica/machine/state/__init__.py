"""Holds the state of a domain's queues; never decides what changes it."""
