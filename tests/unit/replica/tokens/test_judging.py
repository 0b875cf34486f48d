"""Which tokens are believed: by algorithm, key, issuer, audience and time, whatever they say of themselves."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest

from replica.tokens.judging import Believed, NotBelievedError, Rules, judge
from replica.tokens.keys import ALGORITHMS, TokenKey, read_keys
from tandemq.v1.common_pb2 import Reason
from tests.support import tokens

NOW = 1_900_000_000.0
RULES = Rules(tokens.ISSUER, tokens.AUDIENCE, 30.0)
KEYS = read_keys(tokens.pem(*(tokens.key_of(each) for each in ALGORITHMS)))


def said(sub: Any = "billing", algorithm: str = "ES256", **changes: Any) -> str:
    return tokens.token(sub, algorithm, **{"iat": NOW - 10, "exp": NOW + 60, **changes})


def why(token: str, keys: tuple[TokenKey, ...] = KEYS, now_s: float = NOW, rules: Rules = RULES) -> str:
    with pytest.raises(NotBelievedError) as caught:
        judge(token, keys, rules, now_s)
    assert len(token) < 20 or token not in caught.value.message
    assert len(caught.value.message) < 400
    return caught.value.why


def encoded(part: Any) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_of_the_list_is_believed_until_the_end_with_what_clocks_differ(algorithm: str) -> None:
    token = said(algorithm=algorithm)
    assert judge(token, KEYS, RULES, NOW) == Believed("principal/billing", NOW + 90)
    assert judge(token, KEYS, RULES, NOW + 89.9).who == "principal/billing"
    with pytest.raises(NotBelievedError) as caught:
        judge(token, KEYS, RULES, NOW + 90)
    assert caught.value.reason == Reason.REASON_TOKEN_EXPIRED


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "ES384", "HS256", "none", "rs256", "", None, 5, []])
def test_no_other_algorithm_is(algorithm: Any) -> None:
    _, _, signature = said().split(".")
    assert why(f"{encoded({'alg': algorithm})}.{encoded(tokens.claims())}.{signature}") in ("algorithm", "form")


def test_a_key_verifies_the_algorithm_of_its_own_kind_alone() -> None:
    """A token of RS256 that is signed with the public key of RS256 as a secret, and says so or not."""
    public = tokens.pem(tokens.key_of("RS256"))
    forged = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    for alg in ("HS256", "RS256"):
        body = f"{encoded({'alg': alg})}.{encoded(tokens.claims(exp=NOW + 60))}"
        token = f"{body}.{encoded(forged.sign(body.encode(), public))}"
        assert why(token) in ("algorithm", "key")
    only_rsa = tuple(key for key in KEYS if key.algorithm == "RS256")
    assert why(said(algorithm="ES256"), only_rsa) == "key"


def test_the_clock_may_be_wrong_by_so_much_and_no_more() -> None:
    assert judge(said(nbf=NOW + 29), KEYS, RULES, NOW).who == "principal/billing"
    assert judge(said(iat=NOW + 29), KEYS, RULES, NOW).who == "principal/billing"
    for early in ({"nbf": NOW + 31}, {"iat": NOW + 31}):
        assert why(said(**early)) == "time"
    assert why(said(exp=NOW + 600), now_s=NOW + 1_200) == "time"
    assert why(said(iat=NOW), now_s=NOW - 600) == "time"


@pytest.mark.parametrize("exp", ["soon", True, [], {}, 1e400, -1e400, 10**400, "9" * 400, None])
def test_an_end_that_is_no_time_is_refused(exp: Any) -> None:
    assert why(said(exp=exp)) in ("claim", "form", "time")


@pytest.mark.parametrize("sub", ["", "a/b", "member/pair/a", "../x", "a\nb", "x" * 65, 5, None, ["billing"], "é", "-a"])
def test_a_subject_that_is_no_name_is_nobody(sub: Any) -> None:
    assert why(said(sub)) in ("subject", "claim", "form")


def test_audience_and_issuer_are_compared_whole() -> None:
    assert judge(said(aud=["elsewhere", tokens.AUDIENCE]), KEYS, RULES, NOW).who == "principal/billing"
    for aud in ("tandem", "tandemqq", ["elsewhere"], [], 5, {"tandemq": 1}):
        assert why(said(aud=aud)) in ("audience", "form", "claim")
    for iss in (tokens.ISSUER + "/", tokens.ISSUER.upper(), "", "issuer.example"):
        assert why(said(iss=iss)) == "issuer"


def deep(count: int) -> str:
    _, _, signature = said().split(".")
    return f"{encoded(b'[' * count)}.{encoded(tokens.claims())}.{signature}"


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", "é.b.c", "\0.\0.\0", deep(4_000), f"{encoded(b'9' * 4_000)}.a.b", "a.b.c.d.e"],
    ids=range(9),
)
def test_what_is_no_token_is_refused_and_breaks_nothing(token: str) -> None:
    assert why(token) == "form"


def test_deep_claims_behind_a_good_header_break_nothing() -> None:
    body = f"{encoded({'alg': 'ES256'})}.{encoded(b'[' * 3_000)}"
    key = tokens.key_of("ES256")
    signature = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).sign(body.encode(), key)
    assert why(f"{body}.{encoded(signature)}") == "form"


def test_headers_that_nobody_here_knows_are_refused() -> None:
    for header in ({"crit": ["exp"]}, {"b64": False}, {"crit": []}):
        token = jwt.encode(tokens.claims(exp=NOW + 60), tokens.key_of("ES256"), algorithm="ES256", headers=header)
        assert why(token) == "form"


def test_a_token_names_its_key_and_one_without_a_name_is_tried_with_all() -> None:
    old, new = tokens.key_of("ES256"), tokens.key_of("ES256", 1)
    keys = read_keys(tokens.jwks(tokens.jwk("old", "ES256", old), tokens.jwk("new", "ES256", new)))
    for kid, key in (("old", old), ("new", new), (None, new)):
        token = tokens.token(key=key, kid=kid, iat=NOW, exp=NOW + 60)
        assert judge(token, keys, RULES, NOW).who == "principal/billing"
    assert why(tokens.token(key=new, kid="old", iat=NOW, exp=NOW + 60), keys) == "key"
    assert why(tokens.token(key=new, kid="newer", iat=NOW, exp=NOW + 60), keys) == "key"


def test_a_long_token_is_not_even_read() -> None:
    assert why("a." * 4_000) == "size"
