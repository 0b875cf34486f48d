"""The error for credentials that cannot be used."""

from __future__ import annotations


class BadCredentials(ValueError):  # noqa: N818 - reads well where it is caught
    """Credentials that cannot be used; the message names the file and says what to do."""

    reason = "CONFIG_ERROR"
