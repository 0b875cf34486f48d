"""Carries out the table of a handoff at one member; never decides what is not in that table."""
