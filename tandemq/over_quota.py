"""The name under which a refusal says which quota was used up; machine, members and clients share it."""

QUOTA = "quota"
"""Metadata of a QUOTA_EXCEEDED of one principal. With RetryInfo it passes by itself."""
