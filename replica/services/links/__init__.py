"""Carries messages to other managers; never decides which queue they enter there."""
