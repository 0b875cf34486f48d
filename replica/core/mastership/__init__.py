"""Decides who is master, in which epoch, and what is committed; never orders a client's call."""
