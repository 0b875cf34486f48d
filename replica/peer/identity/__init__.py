"""Decides whether this process, and the one that calls, may be a member; never carries a frame."""
