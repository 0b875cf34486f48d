"""Decides what a seed of a profile does, and which plan can be carried out; never runs one."""
