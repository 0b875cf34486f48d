"""Where strangers meet a process: what a port takes before it knows who is there; docs/decisions/0035-edge.md."""
