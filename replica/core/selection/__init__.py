"""Decides which messages a filter or a selector names; never takes or moves one."""
