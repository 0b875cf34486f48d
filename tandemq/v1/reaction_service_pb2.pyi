import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReactionScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REACTION_SCOPE_UNSPECIFIED: _ClassVar[ReactionScope]
    REACTION_SCOPE_FIRST: _ClassVar[ReactionScope]
    REACTION_SCOPE_ALL: _ClassVar[ReactionScope]

class ExceptionReport(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXCEPTION_REPORT_UNSPECIFIED: _ClassVar[ExceptionReport]
    EXCEPTION_REPORT_NONE: _ClassVar[ExceptionReport]
    EXCEPTION_REPORT_HEADERS: _ClassVar[ExceptionReport]
    EXCEPTION_REPORT_FULL: _ClassVar[ExceptionReport]

class ReactionOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REACTION_OUTCOME_UNSPECIFIED: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_APPLIED: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_STORED: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_LOCKED: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_DISCARDED: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_HELD: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_FAILED: _ClassVar[ReactionOutcome]
    REACTION_OUTCOME_DENIED: _ClassVar[ReactionOutcome]
REACTION_SCOPE_UNSPECIFIED: ReactionScope
REACTION_SCOPE_FIRST: ReactionScope
REACTION_SCOPE_ALL: ReactionScope
EXCEPTION_REPORT_UNSPECIFIED: ExceptionReport
EXCEPTION_REPORT_NONE: ExceptionReport
EXCEPTION_REPORT_HEADERS: ExceptionReport
EXCEPTION_REPORT_FULL: ExceptionReport
REACTION_OUTCOME_UNSPECIFIED: ReactionOutcome
REACTION_OUTCOME_APPLIED: ReactionOutcome
REACTION_OUTCOME_STORED: ReactionOutcome
REACTION_OUTCOME_LOCKED: ReactionOutcome
REACTION_OUTCOME_DISCARDED: ReactionOutcome
REACTION_OUTCOME_HELD: ReactionOutcome
REACTION_OUTCOME_FAILED: ReactionOutcome
REACTION_OUTCOME_DENIED: ReactionOutcome

class ReactionDelete(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReactionMove(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class ReactionUpdate(_message.Message):
    __slots__ = ("payload", "content_type", "set_properties", "remove_properties", "priority", "ttl", "delay")
    class SetPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _message_pb2.PropertyValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_message_pb2.PropertyValue, _Mapping]] = ...) -> None: ...
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    REMOVE_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    content_type: str
    set_properties: _containers.MessageMap[str, _message_pb2.PropertyValue]
    remove_properties: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    ttl: _duration_pb2.Duration
    delay: _duration_pb2.Duration
    def __init__(self, payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., set_properties: _Optional[_Mapping[str, _message_pb2.PropertyValue]] = ..., remove_properties: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReactionCustom(_message.Message):
    __slots__ = ("name", "payload", "content_type", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _message_pb2.PropertyValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_message_pb2.PropertyValue, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    payload: bytes
    content_type: str
    properties: _containers.MessageMap[str, _message_pb2.PropertyValue]
    def __init__(self, name: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., properties: _Optional[_Mapping[str, _message_pb2.PropertyValue]] = ...) -> None: ...

class Reaction(_message.Message):
    __slots__ = ("target", "scope", "delete", "move", "update", "custom", "report_to", "correlation_id", "exception_report", "ttl")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    REPORT_TO_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_REPORT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    target: _message_pb2.MessageFilter
    scope: ReactionScope
    delete: ReactionDelete
    move: ReactionMove
    update: ReactionUpdate
    custom: ReactionCustom
    report_to: str
    correlation_id: str
    exception_report: ExceptionReport
    ttl: _duration_pb2.Duration
    def __init__(self, target: _Optional[_Union[_message_pb2.MessageFilter, _Mapping]] = ..., scope: _Optional[_Union[ReactionScope, str]] = ..., delete: _Optional[_Union[ReactionDelete, _Mapping]] = ..., move: _Optional[_Union[ReactionMove, _Mapping]] = ..., update: _Optional[_Union[ReactionUpdate, _Mapping]] = ..., custom: _Optional[_Union[ReactionCustom, _Mapping]] = ..., report_to: _Optional[str] = ..., correlation_id: _Optional[str] = ..., exception_report: _Optional[_Union[ExceptionReport, str]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReactRequest(_message.Message):
    __slots__ = ("request_id", "queue", "reaction", "min_copies", "epoch", "unit_id", "writer", "number", "after", "query_id", "domain", "source", "hops", "more_queues")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REACTION_FIELD_NUMBER: _ClassVar[int]
    MIN_COPIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    MORE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    queue: str
    reaction: Reaction
    min_copies: int
    epoch: int
    unit_id: bytes
    writer: str
    number: int
    after: int
    query_id: str
    domain: str
    source: str
    hops: int
    more_queues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[bytes] = ..., queue: _Optional[str] = ..., reaction: _Optional[_Union[Reaction, _Mapping]] = ..., min_copies: _Optional[int] = ..., epoch: _Optional[int] = ..., unit_id: _Optional[bytes] = ..., writer: _Optional[str] = ..., number: _Optional[int] = ..., after: _Optional[int] = ..., query_id: _Optional[str] = ..., domain: _Optional[str] = ..., source: _Optional[str] = ..., hops: _Optional[int] = ..., more_queues: _Optional[_Iterable[str]] = ...) -> None: ...

class ReactionHome(_message.Message):
    __slots__ = ("queue", "outcome", "applied", "locked", "inert", "dying", "refused", "kept", "left", "failed")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    INERT_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    queue: str
    outcome: ReactionOutcome
    applied: int
    locked: int
    inert: int
    dying: int
    refused: int
    kept: bool
    left: int
    failed: int
    def __init__(self, queue: _Optional[str] = ..., outcome: _Optional[_Union[ReactionOutcome, str]] = ..., applied: _Optional[int] = ..., locked: _Optional[int] = ..., inert: _Optional[int] = ..., dying: _Optional[int] = ..., refused: _Optional[int] = ..., kept: bool = ..., left: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class ReactResponse(_message.Message):
    __slots__ = ("header", "outcome", "applied", "locked", "inert", "dying", "refused", "kept", "duplicate", "unreported", "held", "forwarded", "left", "failed", "homes")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    INERT_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    UNREPORTED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    HOMES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    outcome: ReactionOutcome
    applied: int
    locked: int
    inert: int
    dying: int
    refused: int
    kept: bool
    duplicate: bool
    unreported: int
    held: int
    forwarded: str
    left: int
    failed: int
    homes: _containers.RepeatedCompositeFieldContainer[ReactionHome]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., outcome: _Optional[_Union[ReactionOutcome, str]] = ..., applied: _Optional[int] = ..., locked: _Optional[int] = ..., inert: _Optional[int] = ..., dying: _Optional[int] = ..., refused: _Optional[int] = ..., kept: bool = ..., duplicate: bool = ..., unreported: _Optional[int] = ..., held: _Optional[int] = ..., forwarded: _Optional[str] = ..., left: _Optional[int] = ..., failed: _Optional[int] = ..., homes: _Optional[_Iterable[_Union[ReactionHome, _Mapping]]] = ...) -> None: ...
