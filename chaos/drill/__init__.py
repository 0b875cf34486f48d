"""Drills: a plan as data, carried out on a running pair, with a verdict; docs/decisions/0017-chaos-and-drills.md."""
