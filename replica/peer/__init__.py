"""Carries frames and transfers between the members, and asks who lives; never decides what they mean."""
