"""Decides which directory of credentials a client uses, and makes what opens its channels; reads nothing itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandemq.channels import Open

VARIABLE = "TANDEMQ_CREDENTIALS"


def directory_of(given: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ) -> str:
    """The argument, else $TANDEMQ_CREDENTIALS; empty when there is neither."""
    return os.fspath(given) if given is not None else environment.get(VARIABLE, "")


def opener_of(directory: str) -> Open:
    """What opens channels with the credentials in that directory; plain where none is named. Raises BadCredentials."""
    if not directory:
        from tandemq.channels import open_channel  # with gRPC, which a command's help does not wait for

        return open_channel
    from tandemq.credentials.channels import SecureOpen  # who has none does not pay for it
    from tandemq.credentials.files import Credentials

    return SecureOpen(Credentials(Path(directory).expanduser()))
