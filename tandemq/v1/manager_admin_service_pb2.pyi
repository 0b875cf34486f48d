import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetManagerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetManagerResponse(_message.Message):
    __slots__ = ("header", "version", "format_version", "protocol_min", "protocol_max", "max_message_bytes", "max_batch_bytes", "max_batch_messages", "dedup_sequences", "dedup_window", "queues", "clients", "pid", "resident_bytes", "store_used_bytes", "store_map_bytes")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DEDUP_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    DEDUP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_MAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    version: str
    format_version: int
    protocol_min: int
    protocol_max: int
    max_message_bytes: int
    max_batch_bytes: int
    max_batch_messages: int
    dedup_sequences: int
    dedup_window: _duration_pb2.Duration
    queues: int
    clients: int
    pid: int
    resident_bytes: int
    store_used_bytes: int
    store_map_bytes: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., version: _Optional[str] = ..., format_version: _Optional[int] = ..., protocol_min: _Optional[int] = ..., protocol_max: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., max_batch_messages: _Optional[int] = ..., dedup_sequences: _Optional[int] = ..., dedup_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queues: _Optional[int] = ..., clients: _Optional[int] = ..., pid: _Optional[int] = ..., resident_bytes: _Optional[int] = ..., store_used_bytes: _Optional[int] = ..., store_map_bytes: _Optional[int] = ...) -> None: ...
