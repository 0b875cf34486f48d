import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Right(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RIGHT_UNSPECIFIED: _ClassVar[Right]
    RIGHT_PRODUCE: _ClassVar[Right]
    RIGHT_CONSUME: _ClassVar[Right]
    RIGHT_BROWSE: _ClassVar[Right]
    RIGHT_ADMINISTER: _ClassVar[Right]
    RIGHT_OBSERVE: _ClassVar[Right]
    RIGHT_OPERATE: _ClassVar[Right]
RIGHT_UNSPECIFIED: Right
RIGHT_PRODUCE: Right
RIGHT_CONSUME: Right
RIGHT_BROWSE: Right
RIGHT_ADMINISTER: Right
RIGHT_OBSERVE: Right
RIGHT_OPERATE: Right

class RightGrant(_message.Message):
    __slots__ = ("principal", "right", "pattern", "version", "granted_by", "granted_at")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANTED_AT_FIELD_NUMBER: _ClassVar[int]
    principal: str
    right: Right
    pattern: str
    version: int
    granted_by: str
    granted_at: _timestamp_pb2.Timestamp
    def __init__(self, principal: _Optional[str] = ..., right: _Optional[_Union[Right, str]] = ..., pattern: _Optional[str] = ..., version: _Optional[int] = ..., granted_by: _Optional[str] = ..., granted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GrantRightRequest(_message.Message):
    __slots__ = ("request_id", "principal", "right", "pattern", "expected_version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    principal: str
    right: Right
    pattern: str
    expected_version: int
    def __init__(self, request_id: _Optional[bytes] = ..., principal: _Optional[str] = ..., right: _Optional[_Union[Right, str]] = ..., pattern: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class GrantRightResponse(_message.Message):
    __slots__ = ("header", "version", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    version: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., version: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class RevokeRightRequest(_message.Message):
    __slots__ = ("request_id", "principal", "right", "pattern", "expected_version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    principal: str
    right: Right
    pattern: str
    expected_version: int
    def __init__(self, request_id: _Optional[bytes] = ..., principal: _Optional[str] = ..., right: _Optional[_Union[Right, str]] = ..., pattern: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class RevokeRightResponse(_message.Message):
    __slots__ = ("header", "version", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    version: int
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., version: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ListRightsRequest(_message.Message):
    __slots__ = ("principal",)
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    principal: str
    def __init__(self, principal: _Optional[str] = ...) -> None: ...

class ListRightsResponse(_message.Message):
    __slots__ = ("header", "version", "grants", "administrators")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    ADMINISTRATORS_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    version: int
    grants: _containers.RepeatedCompositeFieldContainer[RightGrant]
    administrators: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., version: _Optional[int] = ..., grants: _Optional[_Iterable[_Union[RightGrant, _Mapping]]] = ..., administrators: _Optional[_Iterable[str]] = ...) -> None: ...

class TestRightRequest(_message.Message):
    __slots__ = ("principal", "right", "queue")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    right: Right
    queue: str
    def __init__(self, principal: _Optional[str] = ..., right: _Optional[_Union[Right, str]] = ..., queue: _Optional[str] = ...) -> None: ...

class TestRightResponse(_message.Message):
    __slots__ = ("header", "allowed", "administrator", "grant", "visible", "version")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ADMINISTRATOR_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    allowed: bool
    administrator: bool
    grant: RightGrant
    visible: bool
    version: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., allowed: bool = ..., administrator: bool = ..., grant: _Optional[_Union[RightGrant, _Mapping]] = ..., visible: bool = ..., version: _Optional[int] = ...) -> None: ...
