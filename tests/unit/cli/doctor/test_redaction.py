"""What may not leave a machine is taken out wherever it stands, and nothing else is."""

from __future__ import annotations

import json

import pytest

from tandemq.cli.doctor.redaction import REDACTED, Redactor, is_secret


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("TANDEMQ_LDAP_PASSWORD", True),
        ("api_key", True),
        ("token", True),
        ("client-secret", True),
        ("password_file", False),
        ("key", False),
        ("endpoint", False),
        ("passive", False),
        ("tokenizer", False),
        ("compass", False),
    ],
)
def test_a_name_tells_what_is_secret(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_words_of_a_command_lose_what_follows_a_secret_option() -> None:
    found = Redactor().arguments(
        [
            "/usr/bin/decide",
            "--target",
            "10.0.0.1",
            "--token",
            "s3cr3t-token",
            "--password=hunter22",
            "API_KEY=abcdef",
            "-v",
        ]
    )
    assert found == [
        *("/usr/bin/decide", "--target", "10.0.0.1", "--token", REDACTED),
        *(f"--password={REDACTED}", f"API_KEY={REDACTED}", "-v"),
    ]


def test_what_was_secret_once_is_taken_out_of_everything_after() -> None:
    redactor = Redactor()
    redactor.value(["decide", "--token", "s3cr3t-token"], "command")
    line = json.dumps({"message": "started decide --token s3cr3t-token", "member": "a", "port": 7600})
    cleaned = json.loads(redactor.line(line))
    assert cleaned == {"message": f"started decide --token {REDACTED}", "member": "a", "port": 7600}
    assert redactor.text("host q1.example:7600 said s3cr3t-token") == f"host q1.example:7600 said {REDACTED}"


def test_text_that_is_no_json_is_read_too() -> None:
    redactor = Redactor()
    assert redactor.line("login with password=hunter22, done") == f"login with password={REDACTED}, done"
    assert redactor.line("Authorization: Bearer abc.def") == f"Authorization: {REDACTED}"
    assert redactor.text("http://me:hunter22@proxy.example:3128/") == f"http://{REDACTED}@proxy.example:3128/"
    assert redactor.line("[1, 2") == "[1, 2"
    assert redactor.line('"password=x"') == f'"password={REDACTED}"'


def test_nested_values_keep_their_shape() -> None:
    found = Redactor().value({"a": {"token": "abcd", "numbers": [1, 2], "empty": ""}, "secret": {"x": 1}, "n": None})
    assert found == {"a": {"token": REDACTED, "numbers": [1, 2], "empty": ""}, "secret": REDACTED, "n": None}
