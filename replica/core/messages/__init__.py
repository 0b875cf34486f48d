"""Finds the bodies of messages, and makes what another queue gets of them; never orders anything."""
