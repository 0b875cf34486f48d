"""Decides who is given which messages, and who hears how they ended; never who is master."""
