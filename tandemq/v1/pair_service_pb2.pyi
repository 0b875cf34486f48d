import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DomainStatus(_message.Message):
    __slots__ = ("name", "role", "data_state", "link_state", "epoch", "log_index", "durable_index", "commit_index", "applied_index", "digest", "state_digest", "in_sync_set", "master", "peer_backlog", "parked", "last_change")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DATA_STATE_FIELD_NUMBER: _ClassVar[int]
    LINK_STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    DURABLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_SET_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    PEER_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    LAST_CHANGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: _common_pb2.Role
    data_state: _common_pb2.DataState
    link_state: _common_pb2.LinkState
    epoch: int
    log_index: int
    durable_index: int
    commit_index: int
    applied_index: int
    digest: str
    state_digest: str
    in_sync_set: _containers.RepeatedScalarFieldContainer[str]
    master: str
    peer_backlog: int
    parked: int
    last_change: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., data_state: _Optional[_Union[_common_pb2.DataState, str]] = ..., link_state: _Optional[_Union[_common_pb2.LinkState, str]] = ..., epoch: _Optional[int] = ..., log_index: _Optional[int] = ..., durable_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., digest: _Optional[str] = ..., state_digest: _Optional[str] = ..., in_sync_set: _Optional[_Iterable[str]] = ..., master: _Optional[str] = ..., peer_backlog: _Optional[int] = ..., parked: _Optional[int] = ..., last_change: _Optional[str] = ...) -> None: ...

class MemberStatus(_message.Message):
    __slots__ = ("name", "endpoint", "pid", "instance_id", "incarnation", "domains", "peer_connected", "peer_heard_ago", "witness_connected", "uptime")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    PEER_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    PEER_HEARD_AGO_FIELD_NUMBER: _ClassVar[int]
    WITNESS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    endpoint: str
    pid: int
    instance_id: str
    incarnation: int
    domains: _containers.RepeatedCompositeFieldContainer[DomainStatus]
    peer_connected: bool
    peer_heard_ago: _duration_pb2.Duration
    witness_connected: bool
    uptime: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., endpoint: _Optional[str] = ..., pid: _Optional[int] = ..., instance_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., domains: _Optional[_Iterable[_Union[DomainStatus, _Mapping]]] = ..., peer_connected: bool = ..., peer_heard_ago: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., witness_connected: bool = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetPairStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPairStatusResponse(_message.Message):
    __slots__ = ("header", "member", "peer", "peer_endpoint")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    PEER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    member: MemberStatus
    peer: str
    peer_endpoint: str
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., member: _Optional[_Union[MemberStatus, _Mapping]] = ..., peer: _Optional[str] = ..., peer_endpoint: _Optional[str] = ...) -> None: ...

class WatchPairStatusRequest(_message.Message):
    __slots__ = ("interval",)
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    interval: _duration_pb2.Duration
    def __init__(self, interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchPairStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: GetPairStatusResponse
    def __init__(self, status: _Optional[_Union[GetPairStatusResponse, _Mapping]] = ...) -> None: ...
