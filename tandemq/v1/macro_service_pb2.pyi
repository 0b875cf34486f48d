import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Relationship(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELATIONSHIP_UNSPECIFIED: _ClassVar[Relationship]
    RELATIONSHIP_CONSUMER: _ClassVar[Relationship]
    RELATIONSHIP_PRODUCER: _ClassVar[Relationship]

class MacroPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MACRO_POLICY_UNSPECIFIED: _ClassVar[MacroPolicy]
    MACRO_POLICY_FIRST_AVAILABLE: _ClassVar[MacroPolicy]
    MACRO_POLICY_PRIORITIZED: _ClassVar[MacroPolicy]
    MACRO_POLICY_ROUND_ROBIN: _ClassVar[MacroPolicy]
    MACRO_POLICY_SHORTEST_QUEUE: _ClassVar[MacroPolicy]
    MACRO_POLICY_CHRONOLOGICAL: _ClassVar[MacroPolicy]
    MACRO_POLICY_MESSAGE_PRIORITY: _ClassVar[MacroPolicy]
    MACRO_POLICY_BY_GROUP: _ClassVar[MacroPolicy]
    MACRO_POLICY_DUPLICATE: _ClassVar[MacroPolicy]
    MACRO_POLICY_DUPLICATE_BEST_EFFORT: _ClassVar[MacroPolicy]
    MACRO_POLICY_FASTEST_RESPONSE: _ClassVar[MacroPolicy]

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_STATE_UNSPECIFIED: _ClassVar[MemberState]
    MEMBER_STATE_CLOSED: _ClassVar[MemberState]
    MEMBER_STATE_OPEN_IN_PART: _ClassVar[MemberState]
    MEMBER_STATE_DISABLED: _ClassVar[MemberState]

class FarState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAR_STATE_UNSPECIFIED: _ClassVar[FarState]
    FAR_STATE_ASKED: _ClassVar[FarState]
    FAR_STATE_HEARD: _ClassVar[FarState]
    FAR_STATE_LATE: _ClassVar[FarState]
    FAR_STATE_AWAY: _ClassVar[FarState]
    FAR_STATE_MISFIT: _ClassVar[FarState]
RELATIONSHIP_UNSPECIFIED: Relationship
RELATIONSHIP_CONSUMER: Relationship
RELATIONSHIP_PRODUCER: Relationship
MACRO_POLICY_UNSPECIFIED: MacroPolicy
MACRO_POLICY_FIRST_AVAILABLE: MacroPolicy
MACRO_POLICY_PRIORITIZED: MacroPolicy
MACRO_POLICY_ROUND_ROBIN: MacroPolicy
MACRO_POLICY_SHORTEST_QUEUE: MacroPolicy
MACRO_POLICY_CHRONOLOGICAL: MacroPolicy
MACRO_POLICY_MESSAGE_PRIORITY: MacroPolicy
MACRO_POLICY_BY_GROUP: MacroPolicy
MACRO_POLICY_DUPLICATE: MacroPolicy
MACRO_POLICY_DUPLICATE_BEST_EFFORT: MacroPolicy
MACRO_POLICY_FASTEST_RESPONSE: MacroPolicy
MEMBER_STATE_UNSPECIFIED: MemberState
MEMBER_STATE_CLOSED: MemberState
MEMBER_STATE_OPEN_IN_PART: MemberState
MEMBER_STATE_DISABLED: MemberState
FAR_STATE_UNSPECIFIED: FarState
FAR_STATE_ASKED: FarState
FAR_STATE_HEARD: FarState
FAR_STATE_LATE: FarState
FAR_STATE_AWAY: FarState
FAR_STATE_MISFIT: FarState

class MacroMember(_message.Message):
    __slots__ = ("queue", "priority", "handle", "mean_response", "share", "target", "far", "state")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    MEAN_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    FAR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    priority: int
    handle: int
    mean_response: _duration_pb2.Duration
    share: float
    target: str
    far: FarMember
    state: MemberState
    def __init__(self, queue: _Optional[str] = ..., priority: _Optional[int] = ..., handle: _Optional[int] = ..., mean_response: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., share: _Optional[float] = ..., target: _Optional[str] = ..., far: _Optional[_Union[FarMember, _Mapping]] = ..., state: _Optional[_Union[MemberState, str]] = ...) -> None: ...

class FarMember(_message.Message):
    __slots__ = ("state", "why", "heads", "delivered", "returned")
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    state: FarState
    why: str
    heads: int
    delivered: int
    returned: int
    def __init__(self, state: _Optional[_Union[FarState, str]] = ..., why: _Optional[str] = ..., heads: _Optional[int] = ..., delivered: _Optional[int] = ..., returned: _Optional[int] = ...) -> None: ...

class MacroWeights(_message.Message):
    __slots__ = ("version", "valid_until", "in_force")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    valid_until: _timestamp_pb2.Timestamp
    in_force: bool
    def __init__(self, version: _Optional[int] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., in_force: bool = ...) -> None: ...

class MacroChoice(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class MacroQueue(_message.Message):
    __slots__ = ("name", "relationship", "policy", "members", "version", "created_at", "choices", "weights")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RELATIONSHIP_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    relationship: Relationship
    policy: MacroPolicy
    members: _containers.RepeatedCompositeFieldContainer[MacroMember]
    version: int
    created_at: _timestamp_pb2.Timestamp
    choices: _containers.RepeatedCompositeFieldContainer[MacroChoice]
    weights: MacroWeights
    def __init__(self, name: _Optional[str] = ..., relationship: _Optional[_Union[Relationship, str]] = ..., policy: _Optional[_Union[MacroPolicy, str]] = ..., members: _Optional[_Iterable[_Union[MacroMember, _Mapping]]] = ..., version: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., choices: _Optional[_Iterable[_Union[MacroChoice, _Mapping]]] = ..., weights: _Optional[_Union[MacroWeights, _Mapping]] = ...) -> None: ...

class CreateMacroRequest(_message.Message):
    __slots__ = ("request_id", "domain", "name", "relationship", "policy")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RELATIONSHIP_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    domain: str
    name: str
    relationship: Relationship
    policy: MacroPolicy
    def __init__(self, request_id: _Optional[bytes] = ..., domain: _Optional[str] = ..., name: _Optional[str] = ..., relationship: _Optional[_Union[Relationship, str]] = ..., policy: _Optional[_Union[MacroPolicy, str]] = ...) -> None: ...

class CreateMacroResponse(_message.Message):
    __slots__ = ("header", "macro", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MACRO_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    macro: MacroQueue
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., macro: _Optional[_Union[MacroQueue, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class AddMemberRequest(_message.Message):
    __slots__ = ("request_id", "name", "queue", "priority", "expected_version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    name: str
    queue: str
    priority: int
    expected_version: int
    def __init__(self, request_id: _Optional[bytes] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., expected_version: _Optional[int] = ...) -> None: ...

class AddMemberResponse(_message.Message):
    __slots__ = ("header", "macro", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MACRO_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    macro: MacroQueue
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., macro: _Optional[_Union[MacroQueue, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ("request_id", "name", "queue", "expected_version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    name: str
    queue: str
    expected_version: int
    def __init__(self, request_id: _Optional[bytes] = ..., name: _Optional[str] = ..., queue: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class RemoveMemberResponse(_message.Message):
    __slots__ = ("header", "macro", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MACRO_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    macro: MacroQueue
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., macro: _Optional[_Union[MacroQueue, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class GetMacroRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetMacroResponse(_message.Message):
    __slots__ = ("header", "macro")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MACRO_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    macro: MacroQueue
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., macro: _Optional[_Union[MacroQueue, _Mapping]] = ...) -> None: ...

class ListMacrosRequest(_message.Message):
    __slots__ = ("domain", "page_size", "page_token")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    page_size: int
    page_token: str
    def __init__(self, domain: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListMacrosResponse(_message.Message):
    __slots__ = ("header", "macros", "next_page_token")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MACROS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    macros: _containers.RepeatedCompositeFieldContainer[MacroQueue]
    next_page_token: str
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., macros: _Optional[_Iterable[_Union[MacroQueue, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteMacroRequest(_message.Message):
    __slots__ = ("request_id", "name", "expected_version")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    request_id: bytes
    name: str
    expected_version: int
    def __init__(self, request_id: _Optional[bytes] = ..., name: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class DeleteMacroResponse(_message.Message):
    __slots__ = ("header", "duplicate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    duplicate: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., duplicate: bool = ...) -> None: ...
