import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import macro_service_pb2 as _macro_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as _queue_admin_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProxyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROXY_STATE_UNSPECIFIED: _ClassVar[ProxyState]
    PROXY_STATE_OPENING: _ClassVar[ProxyState]
    PROXY_STATE_OPEN: _ClassVar[ProxyState]
    PROXY_STATE_FAILED: _ClassVar[ProxyState]
PROXY_STATE_UNSPECIFIED: ProxyState
PROXY_STATE_OPENING: ProxyState
PROXY_STATE_OPEN: ProxyState
PROXY_STATE_FAILED: ProxyState

class Proxy(_message.Message):
    __slots__ = ("name", "target", "relationship", "expected", "handle", "created_at", "state", "why", "since", "reopened", "calls", "reached")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RELATIONSHIP_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    name: str
    target: str
    relationship: _macro_service_pb2.Relationship
    expected: _queue_admin_service_pb2.QueueConfig
    handle: int
    created_at: _timestamp_pb2.Timestamp
    state: ProxyState
    why: str
    since: _timestamp_pb2.Timestamp
    reopened: int
    calls: int
    reached: _common_pb2.ResponseHeader
    def __init__(self, name: _Optional[str] = ..., target: _Optional[str] = ..., relationship: _Optional[_Union[_macro_service_pb2.Relationship, str]] = ..., expected: _Optional[_Union[_queue_admin_service_pb2.QueueConfig, _Mapping]] = ..., handle: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[ProxyState, str]] = ..., why: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reopened: _Optional[int] = ..., calls: _Optional[int] = ..., reached: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ...) -> None: ...

class CreateProxyRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name", "target", "relationship", "expected")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RELATIONSHIP_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    target: str
    relationship: _macro_service_pb2.Relationship
    expected: _queue_admin_service_pb2.QueueConfig
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ..., target: _Optional[str] = ..., relationship: _Optional[_Union[_macro_service_pb2.Relationship, str]] = ..., expected: _Optional[_Union[_queue_admin_service_pb2.QueueConfig, _Mapping]] = ...) -> None: ...

class CreateProxyResponse(_message.Message):
    __slots__ = ("header", "proxy", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    proxy: Proxy
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., proxy: _Optional[_Union[Proxy, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class GetProxyRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetProxyResponse(_message.Message):
    __slots__ = ("header", "proxy")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    proxy: Proxy
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., proxy: _Optional[_Union[Proxy, _Mapping]] = ...) -> None: ...

class ListProxiesRequest(_message.Message):
    __slots__ = ("domain", "page_size", "page_token")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    page_size: int
    page_token: str
    def __init__(self, domain: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListProxiesResponse(_message.Message):
    __slots__ = ("header", "proxies", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PROXIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    proxies: _containers.RepeatedCompositeFieldContainer[Proxy]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., proxies: _Optional[_Iterable[_Union[Proxy, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteProxyRequest(_message.Message):
    __slots__ = ("request_id", "name")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    name: str
    def __init__(self, request_id: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteProxyResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...
