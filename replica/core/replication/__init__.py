"""Decides what the peer is sent of the log, and what is taken from it; never who is master."""
