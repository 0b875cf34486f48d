"""The table of reasons is complete, and a refusal survives the way over gRPC."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from tandemq import errors
from tandemq.v1 import common_pb2 as common


def test_every_reason_of_the_contract_has_a_rule() -> None:
    names = {name.removeprefix("REASON_") for name in common.Reason.DESCRIPTOR.values_by_name}
    assert names == set(errors.RULES)


@pytest.mark.parametrize("value", common.Reason.values())
def test_status_and_class_agree(value: int) -> None:
    error = errors.to_error(common.Error(reason=value, message="m", metadata={"k": "v"}))
    rule = errors.rule_for(value)
    assert errors.status_for(value).name == rule.status
    assert (error.definite, error.retryable) == (rule.definite, rule.retryable)
    assert "REASON_" + error.reason == common.Reason.Name(value)
    assert error.metadata == {"k": "v"}


def failed(code: grpc.StatusCode, details: bytes | None = None) -> AioRpcError:
    trailers = Metadata((errors.DETAILS_KEY, details)) if details is not None else Metadata()
    return AioRpcError(code, Metadata(), trailers, details="text")


@pytest.mark.parametrize("value", common.Reason.values())
def test_a_refused_call_says_the_same_as_a_refused_frame(value: int) -> None:
    refusal = common.Error(reason=value, message="m", metadata={"k": "v"})
    refusal.retry_after.FromTimedelta(timedelta(milliseconds=250))
    error = errors.from_rpc_error(failed(errors.status_for(value), errors.status_details(refusal)))
    framed = errors.to_error(refusal)
    assert type(error) is type(framed)
    assert vars(error) == vars(framed)


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN]
)
@pytest.mark.parametrize("details", [None, b"", b"\xff\xff"])
def test_without_our_word_nothing_is_certain(code: grpc.StatusCode, details: bytes | None) -> None:
    error = errors.from_rpc_error(failed(code, details))
    assert isinstance(error, errors.InDoubt)
    assert not error.definite
    assert error.retryable


def test_a_newer_reason_is_in_doubt() -> None:
    assert errors.to_error(common.Error(reason=999)).reason == "UNSPECIFIED"  # type: ignore[arg-type]
    assert not errors.rule_for("MADE_LATER").definite


def test_importing_the_package_and_the_errors_loads_no_grpc() -> None:
    code = "import sys, tandemq, tandemq.errors; sys.exit('grpc' in sys.modules or 'google.protobuf' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
