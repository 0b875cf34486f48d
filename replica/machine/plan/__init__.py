"""Decides which record a call becomes, or refuses it; never changes the state."""
