import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QueueWeight(_message.Message):
    __slots__ = ("queue", "weight")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    weight: float
    def __init__(self, queue: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class WeightTable(_message.Message):
    __slots__ = ("name", "version", "weights", "valid_until", "valid_for", "expired", "published_by", "published_at", "computed_from", "computed_until")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_BY_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FROM_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    weights: _containers.RepeatedCompositeFieldContainer[QueueWeight]
    valid_until: _timestamp_pb2.Timestamp
    valid_for: _duration_pb2.Duration
    expired: bool
    published_by: str
    published_at: _timestamp_pb2.Timestamp
    computed_from: _timestamp_pb2.Timestamp
    computed_until: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., weights: _Optional[_Iterable[_Union[QueueWeight, _Mapping]]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expired: bool = ..., published_by: _Optional[str] = ..., published_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., computed_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., computed_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PublishWeightsRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name", "weights", "valid_until", "valid_for", "expected_version", "published_by", "computed_from", "computed_until")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_BY_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FROM_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    weights: _containers.RepeatedCompositeFieldContainer[QueueWeight]
    valid_until: _timestamp_pb2.Timestamp
    valid_for: _duration_pb2.Duration
    expected_version: int
    published_by: str
    computed_from: _timestamp_pb2.Timestamp
    computed_until: _timestamp_pb2.Timestamp
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ..., weights: _Optional[_Iterable[_Union[QueueWeight, _Mapping]]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., expected_version: _Optional[int] = ..., published_by: _Optional[str] = ..., computed_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., computed_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PublishWeightsResponse(_message.Message):
    __slots__ = ("header", "version", "valid_until", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    version: int
    valid_until: _timestamp_pb2.Timestamp
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., version: _Optional[int] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class GetWeightsRequest(_message.Message):
    __slots__ = ("domain", "name")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    domain: str
    name: str
    def __init__(self, domain: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetWeightsResponse(_message.Message):
    __slots__ = ("header", "table")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    table: WeightTable
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., table: _Optional[_Union[WeightTable, _Mapping]] = ...) -> None: ...

class ListWeightsRequest(_message.Message):
    __slots__ = ("domain",)
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    def __init__(self, domain: _Optional[str] = ...) -> None: ...

class ListWeightsResponse(_message.Message):
    __slots__ = ("header", "tables")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    tables: _containers.RepeatedCompositeFieldContainer[WeightTable]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[WeightTable, _Mapping]]] = ...) -> None: ...

class DeleteWeightsRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name", "expected_version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    expected_version: int
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class DeleteWeightsResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...
