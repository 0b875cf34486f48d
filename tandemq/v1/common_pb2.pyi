import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEVEL_UNSPECIFIED: _ClassVar[Level]
    LEVEL_LOCAL: _ClassVar[Level]
    LEVEL_PAIR_RECV: _ClassVar[Level]
    LEVEL_PAIR_SYNC: _ClassVar[Level]
    LEVEL_PAIR_APPLIED: _ClassVar[Level]

class Completion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPLETION_UNSPECIFIED: _ClassVar[Completion]
    COMPLETION_ACCEPTED: _ClassVar[Completion]
    COMPLETION_STORED: _ClassVar[Completion]
    COMPLETION_RECEIVED: _ClassVar[Completion]
    COMPLETION_REPLIED: _ClassVar[Completion]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_INIT: _ClassVar[Role]
    ROLE_PROBE: _ClassVar[Role]
    ROLE_REPLICA: _ClassVar[Role]
    ROLE_MASTER: _ClassVar[Role]
    ROLE_MASTER_SUSPENDED: _ClassVar[Role]
    ROLE_CEDING: _ClassVar[Role]
    ROLE_FAILED: _ClassVar[Role]
    ROLE_DIVERGED: _ClassVar[Role]
    ROLE_MAINTENANCE: _ClassVar[Role]

class DataState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_STATE_UNSPECIFIED: _ClassVar[DataState]
    DATA_STATE_EMPTY: _ClassVar[DataState]
    DATA_STATE_SYNCING: _ClassVar[DataState]
    DATA_STATE_STALE: _ClassVar[DataState]
    DATA_STATE_IN_SYNC: _ClassVar[DataState]
    DATA_STATE_SOLE: _ClassVar[DataState]
    DATA_STATE_DAMAGED: _ClassVar[DataState]

class LinkState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINK_STATE_UNSPECIFIED: _ClassVar[LinkState]
    LINK_STATE_DOWN: _ClassVar[LinkState]
    LINK_STATE_HANDSHAKE: _ClassVar[LinkState]
    LINK_STATE_SYNC_SRC: _ClassVar[LinkState]
    LINK_STATE_SYNC_DST: _ClassVar[LinkState]
    LINK_STATE_PAIRED: _ClassVar[LinkState]
    LINK_STATE_SUSPECT: _ClassVar[LinkState]

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_QUEUE_NOT_FOUND: _ClassVar[Reason]
    REASON_MANAGER_NOT_FOUND: _ClassVar[Reason]
    REASON_MESSAGE_NOT_FOUND: _ClassVar[Reason]
    REASON_INVALID_HANDLE: _ClassVar[Reason]
    REASON_QUEUE_EXISTS: _ClassVar[Reason]
    REASON_E_MASTER_EXISTS: _ClassVar[Reason]
    REASON_INVALID_STATE: _ClassVar[Reason]
    REASON_ENQUEUE_DISABLED: _ClassVar[Reason]
    REASON_DEQUEUE_DISABLED: _ClassVar[Reason]
    REASON_CONFIG_MISMATCH: _ClassVar[Reason]
    REASON_CONFIG_ERROR: _ClassVar[Reason]
    REASON_LEASE_LOST: _ClassVar[Reason]
    REASON_CROSS_DOMAIN: _ClassVar[Reason]
    REASON_NOT_EMPTY: _ClassVar[Reason]
    REASON_VERSION_MISMATCH: _ClassVar[Reason]
    REASON_MESSAGE_TOO_LARGE: _ClassVar[Reason]
    REASON_BAD_NAME: _ClassVar[Reason]
    REASON_BAD_ATTRIBUTE: _ClassVar[Reason]
    REASON_READ_ONLY: _ClassVar[Reason]
    REASON_BAD_REQUEST: _ClassVar[Reason]
    REASON_QUEUE_FULL: _ClassVar[Reason]
    REASON_QUOTA_EXCEEDED: _ClassVar[Reason]
    REASON_STORAGE_FULL: _ClassVar[Reason]
    REASON_TOO_MANY_WAITERS: _ClassVar[Reason]
    REASON_STALE_EPOCH: _ClassVar[Reason]
    REASON_NO_MASTER: _ClassVar[Reason]
    REASON_SYNCING: _ClassVar[Reason]
    REASON_DRAINING: _ClassVar[Reason]
    REASON_SUSPENDED: _ClassVar[Reason]
    REASON_NOT_MASTER: _ClassVar[Reason]
    REASON_NOT_ENOUGH_COPIES: _ClassVar[Reason]
    REASON_DEDUP_EXPIRED: _ClassVar[Reason]
    REASON_REQUEST_MISMATCH: _ClassVar[Reason]
    REASON_SEQUENCE_GAP: _ClassVar[Reason]
    REASON_DIGEST_MISMATCH: _ClassVar[Reason]
    REASON_CORRUPT_STORE: _ClassVar[Reason]
    REASON_WRONG_PAIR: _ClassVar[Reason]
    REASON_NEWER_FORMAT: _ClassVar[Reason]
    REASON_DIRECTORY_IN_USE: _ClassVar[Reason]
    REASON_PORT_IN_USE: _ClassVar[Reason]
    REASON_INTERNAL: _ClassVar[Reason]
    REASON_ALIAS_EXISTS: _ClassVar[Reason]
    REASON_ALREADY_REPLIED: _ClassVar[Reason]
    REASON_REPLY_REQUIRED: _ClassVar[Reason]
    REASON_NOT_TWO_WAY: _ClassVar[Reason]
    REASON_BAD_SELECTOR: _ClassVar[Reason]
    REASON_LOOP_LIMIT: _ClassVar[Reason]
    REASON_MANAGER_UNREACHABLE: _ClassVar[Reason]
    REASON_REMOTE_NOT_ALLOWED: _ClassVar[Reason]
    REASON_OUT_OF_RANGE: _ClassVar[Reason]
    REASON_EPOCH_DIVERGED: _ClassVar[Reason]
    REASON_READER_NOT_FOUND: _ClassVar[Reason]
    REASON_READER_LOST: _ClassVar[Reason]
    REASON_BATCH_GONE: _ClassVar[Reason]
    REASON_BATCH_GAP: _ClassVar[Reason]
    REASON_PAIR_CHANGED: _ClassVar[Reason]
    REASON_STAGE_NOT_FOUND: _ClassVar[Reason]
    REASON_WRITER_TAKEN: _ClassVar[Reason]
    REASON_WEIGHTS_NOT_FOUND: _ClassVar[Reason]
    REASON_BAD_WEIGHTS: _ClassVar[Reason]
    REASON_TXN_TOO_LARGE: _ClassVar[Reason]
    REASON_TXN_ABORTED: _ClassVar[Reason]
    REASON_REACTION_DISABLED: _ClassVar[Reason]
    REASON_GROUP_MISMATCH: _ClassVar[Reason]
    REASON_TWIN_TAKEN: _ClassVar[Reason]
    REASON_SIDE_LOST: _ClassVar[Reason]
    REASON_RELATIONSHIP_MISMATCH: _ClassVar[Reason]
    REASON_PERMISSION_DENIED: _ClassVar[Reason]
    REASON_RIGHT_NOT_FOUND: _ClassVar[Reason]
    REASON_TOKEN_REQUIRED: _ClassVar[Reason]
    REASON_TOKEN_REFUSED: _ClassVar[Reason]
    REASON_TOKEN_EXPIRED: _ClassVar[Reason]
    REASON_TOKEN_KEYS_MISSING: _ClassVar[Reason]

class Warning(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WARNING_UNSPECIFIED: _ClassVar[Warning]
    WARNING_PERSISTENCE_DOWNGRADED: _ClassVar[Warning]
LEVEL_UNSPECIFIED: Level
LEVEL_LOCAL: Level
LEVEL_PAIR_RECV: Level
LEVEL_PAIR_SYNC: Level
LEVEL_PAIR_APPLIED: Level
COMPLETION_UNSPECIFIED: Completion
COMPLETION_ACCEPTED: Completion
COMPLETION_STORED: Completion
COMPLETION_RECEIVED: Completion
COMPLETION_REPLIED: Completion
ROLE_UNSPECIFIED: Role
ROLE_INIT: Role
ROLE_PROBE: Role
ROLE_REPLICA: Role
ROLE_MASTER: Role
ROLE_MASTER_SUSPENDED: Role
ROLE_CEDING: Role
ROLE_FAILED: Role
ROLE_DIVERGED: Role
ROLE_MAINTENANCE: Role
DATA_STATE_UNSPECIFIED: DataState
DATA_STATE_EMPTY: DataState
DATA_STATE_SYNCING: DataState
DATA_STATE_STALE: DataState
DATA_STATE_IN_SYNC: DataState
DATA_STATE_SOLE: DataState
DATA_STATE_DAMAGED: DataState
LINK_STATE_UNSPECIFIED: LinkState
LINK_STATE_DOWN: LinkState
LINK_STATE_HANDSHAKE: LinkState
LINK_STATE_SYNC_SRC: LinkState
LINK_STATE_SYNC_DST: LinkState
LINK_STATE_PAIRED: LinkState
LINK_STATE_SUSPECT: LinkState
REASON_UNSPECIFIED: Reason
REASON_QUEUE_NOT_FOUND: Reason
REASON_MANAGER_NOT_FOUND: Reason
REASON_MESSAGE_NOT_FOUND: Reason
REASON_INVALID_HANDLE: Reason
REASON_QUEUE_EXISTS: Reason
REASON_E_MASTER_EXISTS: Reason
REASON_INVALID_STATE: Reason
REASON_ENQUEUE_DISABLED: Reason
REASON_DEQUEUE_DISABLED: Reason
REASON_CONFIG_MISMATCH: Reason
REASON_CONFIG_ERROR: Reason
REASON_LEASE_LOST: Reason
REASON_CROSS_DOMAIN: Reason
REASON_NOT_EMPTY: Reason
REASON_VERSION_MISMATCH: Reason
REASON_MESSAGE_TOO_LARGE: Reason
REASON_BAD_NAME: Reason
REASON_BAD_ATTRIBUTE: Reason
REASON_READ_ONLY: Reason
REASON_BAD_REQUEST: Reason
REASON_QUEUE_FULL: Reason
REASON_QUOTA_EXCEEDED: Reason
REASON_STORAGE_FULL: Reason
REASON_TOO_MANY_WAITERS: Reason
REASON_STALE_EPOCH: Reason
REASON_NO_MASTER: Reason
REASON_SYNCING: Reason
REASON_DRAINING: Reason
REASON_SUSPENDED: Reason
REASON_NOT_MASTER: Reason
REASON_NOT_ENOUGH_COPIES: Reason
REASON_DEDUP_EXPIRED: Reason
REASON_REQUEST_MISMATCH: Reason
REASON_SEQUENCE_GAP: Reason
REASON_DIGEST_MISMATCH: Reason
REASON_CORRUPT_STORE: Reason
REASON_WRONG_PAIR: Reason
REASON_NEWER_FORMAT: Reason
REASON_DIRECTORY_IN_USE: Reason
REASON_PORT_IN_USE: Reason
REASON_INTERNAL: Reason
REASON_ALIAS_EXISTS: Reason
REASON_ALREADY_REPLIED: Reason
REASON_REPLY_REQUIRED: Reason
REASON_NOT_TWO_WAY: Reason
REASON_BAD_SELECTOR: Reason
REASON_LOOP_LIMIT: Reason
REASON_MANAGER_UNREACHABLE: Reason
REASON_REMOTE_NOT_ALLOWED: Reason
REASON_OUT_OF_RANGE: Reason
REASON_EPOCH_DIVERGED: Reason
REASON_READER_NOT_FOUND: Reason
REASON_READER_LOST: Reason
REASON_BATCH_GONE: Reason
REASON_BATCH_GAP: Reason
REASON_PAIR_CHANGED: Reason
REASON_STAGE_NOT_FOUND: Reason
REASON_WRITER_TAKEN: Reason
REASON_WEIGHTS_NOT_FOUND: Reason
REASON_BAD_WEIGHTS: Reason
REASON_TXN_TOO_LARGE: Reason
REASON_TXN_ABORTED: Reason
REASON_REACTION_DISABLED: Reason
REASON_GROUP_MISMATCH: Reason
REASON_TWIN_TAKEN: Reason
REASON_SIDE_LOST: Reason
REASON_RELATIONSHIP_MISMATCH: Reason
REASON_PERMISSION_DENIED: Reason
REASON_RIGHT_NOT_FOUND: Reason
REASON_TOKEN_REQUIRED: Reason
REASON_TOKEN_REFUSED: Reason
REASON_TOKEN_EXPIRED: Reason
REASON_TOKEN_KEYS_MISSING: Reason
WARNING_UNSPECIFIED: Warning
WARNING_PERSISTENCE_DOWNGRADED: Warning

class Error(_message.Message):
    __slots__ = ("reason", "message", "metadata", "retry_after")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    message: str
    metadata: _containers.ScalarMap[str, str]
    retry_after: _duration_pb2.Duration
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("pair", "member", "domain", "epoch", "commit_index", "copies", "level", "master_endpoint")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MASTER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    pair: str
    member: str
    domain: str
    epoch: int
    commit_index: int
    copies: int
    level: Level
    master_endpoint: str
    def __init__(self, pair: _Optional[str] = ..., member: _Optional[str] = ..., domain: _Optional[str] = ..., epoch: _Optional[int] = ..., commit_index: _Optional[int] = ..., copies: _Optional[int] = ..., level: _Optional[_Union[Level, str]] = ..., master_endpoint: _Optional[str] = ...) -> None: ...

class IndexRange(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...
