"""Decides whether a token is believed, and whose it is: signature, issuer, audience and time. Pure: `now` is given.

PyJWT reads and verifies; which algorithms, keys and claims count is said here, and a token has no word in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jwt
from jwt.types import Options

from replica.tokens.keys import ALGORITHMS, TokenKey
from tandemq.credentials import names
from tandemq.v1.common_pb2 import Reason

TOKEN_BYTES_MAX = 6 << 10
"""As `tandemq.credentials.token` has it. A port takes 8 KiB of metadata with a call (`tandemq.edge.options`): what is
larger gRPC itself refuses, with RESOURCE_EXHAUSTED and both sizes, before anybody reads it.
"""
SHOWN_MAX = 80
"""Characters of a claim in a refusal."""
_CLAIMS = ("exp", "iss", "aud", "sub")
_OPTIONS = Options(
    require=list(_CLAIMS), verify_exp=False, verify_nbf=False, verify_iat=False, verify_sub=False, verify_jti=False
)
"""Times are compared here, with the clock that is given."""


class Rules(NamedTuple):
    """Of one manager."""

    issuer: str
    audience: str
    leeway_s: float


class Believed(NamedTuple):
    """A token that holds."""

    who: str
    """`principal/NAME`"""
    ends_s: float
    """Until when, in seconds of Unix, with what clocks may differ."""


class NotBelievedError(Exception):
    """A token that does not hold. The message says why and what to do, and never holds the token."""

    def __init__(self, why: str, message: str, reason: Reason = Reason.REASON_TOKEN_REFUSED) -> None:
        """`why`: size, form, algorithm, key, issuer, audience, subject, claim or time."""
        super().__init__(message)
        self.why, self.message, self.reason = why, message, reason


def judge(token: str, keys: Sequence[TokenKey], rules: Rules, now_s: float) -> Believed:
    """Whose it is and for how long. Raises NotBelievedError."""
    if len(token) > TOKEN_BYTES_MAX:
        text = f"the token has {len(token)} bytes, and {TOKEN_BYTES_MAX} are the most; ask for one with fewer claims"
        raise NotBelievedError("size", text)
    try:
        return _judge(token, keys, rules, now_s)
    except jwt.PyJWTError as error:
        raise _refusal_of(error, rules) from error
    except (RecursionError, OverflowError, ValueError, TypeError) as error:  # deep, huge, or of another type
        raise NotBelievedError("form", "the token is no JWT that can be read; ask for a new one") from error


def _judge(token: str, keys: Sequence[TokenKey], rules: Rules, now_s: float) -> Believed:
    header = jwt.get_unverified_header(token)
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        text = f"the token is signed by {_shown(algorithm)}, and only {', '.join(ALGORITHMS)} are believed"
        raise NotBelievedError("algorithm", text)
    if "crit" in header or header.get("b64", True) is not True:
        raise NotBelievedError("form", "the token's header asks for what nobody here knows (crit, b64)")
    claims = _verified(token, _candidates(keys, algorithm, header.get("kid")), rules)
    ends_s = _ends_s(claims, rules, now_s)
    who = claims["sub"]
    if not isinstance(who, str) or not names.NAME.fullmatch(who):
        text = (
            f"the token is of sub {_shown(who)}, which is no name here: "
            "up to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"
        )
        raise NotBelievedError("subject", text)
    return Believed(names.principal(who), ends_s)


def _candidates(keys: Sequence[TokenKey], algorithm: str, kid: object) -> list[TokenKey]:
    """Those that may have signed it. Raises NotBelievedError when there is none."""
    fit = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid in ("", kid))]
    if not fit:
        named = f" called {_shown(kid)}" if kid is not None else ""
        text = f"the token is signed by a key{named} that is not among tokens.keys here: is it of this issuer?"
        raise NotBelievedError("key", text)
    return fit


def _verified(token: str, candidates: Sequence[TokenKey], rules: Rules) -> dict[str, Any]:
    for key in candidates:
        of = [key.algorithm]
        try:
            return jwt.decode(
                token, key.key, algorithms=of, issuer=rules.issuer, audience=rules.audience, options=_OPTIONS
            )
        except jwt.InvalidSignatureError:
            continue
    text = "the token's signature is by none of the keys that are believed here (tokens.keys): is it of this issuer?"
    raise NotBelievedError("key", text)


def _ends_s(claims: dict[str, Any], rules: Rules, now_s: float) -> float:
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise NotBelievedError("claim", f"the token's {name} is no time in seconds of Unix; ask for a new one")
    ends_s = float(claims["exp"]) + rules.leeway_s
    if now_s >= ends_s:
        ago = math.ceil(now_s - claims["exp"])
        text = f"the token expired {ago} s ago by the clock of this member; get a new one, or compare the clocks"
        raise NotBelievedError("time", text, Reason.REASON_TOKEN_EXPIRED)
    begins_s = max(float(claims.get("nbf", 0)), float(claims.get("iat", 0)))
    if now_s < begins_s - rules.leeway_s:
        ahead = math.ceil(begins_s - now_s)
        text = f"the token is valid in {ahead} s by the clock of this member; wait, or compare the clocks"
        raise NotBelievedError("time", text)
    return ends_s


def _refusal_of(error: jwt.PyJWTError, rules: Rules) -> NotBelievedError:
    match error:
        case jwt.InvalidAudienceError():
            return NotBelievedError("audience", f"the token is not for {rules.audience!r} (aud); ask for one that is")
        case jwt.InvalidIssuerError():
            return NotBelievedError("issuer", f"the token is not of {rules.issuer!r} (iss), who alone is believed here")
        case jwt.MissingRequiredClaimError():
            text = f"the token has no {error.claim}; it needs {', '.join(_CLAIMS)}"
            return NotBelievedError("claim", text)
        case _:
            return NotBelievedError("form", "the token is no JWT that can be read; ask for a new one")


def _shown(value: object) -> str:
    return repr(value)[:SHOWN_MAX]
