"""Carries calls by the name of a proxy to the manager that it leads to; never decides what a queue does with them."""
