"""Decides which records calls become, and when they are answered; never who is master."""
