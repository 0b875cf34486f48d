"""Calls about the pair: status, events, orders, handoffs; never decides who is master."""
