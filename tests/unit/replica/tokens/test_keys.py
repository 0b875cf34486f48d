"""Which keys are taken from PEM and from a JWKS, and what is refused with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from replica.tokens.keys import ALGORITHMS, KEYS_BYTES_MAX, KEYS_MAX, BadKeys, read_keys
from tests.support import tokens


def entry(**changes: Any) -> dict[str, Any]:
    return {**tokens.jwk("k", "ES256", tokens.key_of("ES256")), **changes}


def test_pem_has_one_key_of_each_kind_and_certificates_count_as_keys() -> None:
    found = read_keys(tokens.pem(*(tokens.key_of(each) for each in ALGORITHMS)))
    assert [(key.kid, key.algorithm) for key in found] == [("", each) for each in ALGORITHMS]


def test_a_jwks_has_names_and_leaves_out_what_is_of_no_use() -> None:
    keys = [tokens.jwk(f"k-{each}", each, tokens.key_of(each)) for each in ALGORITHMS]
    odd = [entry(use="enc"), entry(alg="ES512"), {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "?"}, entry(crv="P-384"), 5]
    found = read_keys(json.dumps({"keys": [*odd, *keys]}).encode())
    assert [(key.kid, key.algorithm) for key in found] == [(f"k-{each}", each) for each in ALGORITHMS]


def private_pem() -> bytes:
    return tokens.key_of("ES256").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


SMALL = rsa.generate_private_key(public_exponent=65537, key_size=1024)
REFUSED = {
    "nothing": (b"", "neither PEM nor a JWKS"),
    "no JSON": (b"{", "neither PEM nor a JWKS"),
    "a list": (b"[]", "neither PEM nor a JWKS"),
    "deep": (b"[" * 100_000, "neither PEM nor a JWKS"),
    "no key": (b'{"keys": []}', "no public key"),
    "a secret alone": (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "no public key"),
    "a private JWK": (tokens.jwks(entry(d="AAAA")), "private key"),
    "a private PEM": (private_pem(), "private key"),
    "1024 bits": (tokens.pem(SMALL), "verifies none of"),
    "P-384": (tokens.pem(ec.generate_private_key(ec.SECP384R1())), "verifies none of"),
    "cut off": (tokens.pem(tokens.key_of("ES256"))[:-30], "no public key"),
    "large": (b" " * (KEYS_BYTES_MAX + 1), "more than"),
    "many": (tokens.pem(*[tokens.key_of("ES256")] * (KEYS_MAX + 1)), "are the most"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_keys_of_no_use_are_refused_with_the_reason(name: str) -> None:
    data, said = REFUSED[name]
    with pytest.raises(BadKeys, match=said):
        read_keys(data)
