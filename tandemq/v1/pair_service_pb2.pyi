import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SafetyClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SAFETY_CLASS_UNSPECIFIED: _ClassVar[SafetyClass]
    SAFETY_CLASS_A: _ClassVar[SafetyClass]
    SAFETY_CLASS_B: _ClassVar[SafetyClass]
    SAFETY_CLASS_C: _ClassVar[SafetyClass]

class PairEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PAIR_EVENT_KIND_UNSPECIFIED: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_ROLE: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_LINK: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_VERDICT: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_AUTHORITY: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_TRANSFER: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_HANDOFF: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_DIVERGENCE: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_OPERATOR: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_FAULT: _ClassVar[PairEventKind]
    PAIR_EVENT_KIND_VERIFY: _ClassVar[PairEventKind]

class Acknowledgement(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACKNOWLEDGEMENT_UNSPECIFIED: _ClassVar[Acknowledgement]
    ACKNOWLEDGEMENT_CERTAIN: _ClassVar[Acknowledgement]
    ACKNOWLEDGEMENT_PERHAPS: _ClassVar[Acknowledgement]
    ACKNOWLEDGEMENT_NONE: _ClassVar[Acknowledgement]
SAFETY_CLASS_UNSPECIFIED: SafetyClass
SAFETY_CLASS_A: SafetyClass
SAFETY_CLASS_B: SafetyClass
SAFETY_CLASS_C: SafetyClass
PAIR_EVENT_KIND_UNSPECIFIED: PairEventKind
PAIR_EVENT_KIND_ROLE: PairEventKind
PAIR_EVENT_KIND_LINK: PairEventKind
PAIR_EVENT_KIND_VERDICT: PairEventKind
PAIR_EVENT_KIND_AUTHORITY: PairEventKind
PAIR_EVENT_KIND_TRANSFER: PairEventKind
PAIR_EVENT_KIND_HANDOFF: PairEventKind
PAIR_EVENT_KIND_DIVERGENCE: PairEventKind
PAIR_EVENT_KIND_OPERATOR: PairEventKind
PAIR_EVENT_KIND_FAULT: PairEventKind
PAIR_EVENT_KIND_VERIFY: PairEventKind
ACKNOWLEDGEMENT_UNSPECIFIED: Acknowledgement
ACKNOWLEDGEMENT_CERTAIN: Acknowledgement
ACKNOWLEDGEMENT_PERHAPS: Acknowledgement
ACKNOWLEDGEMENT_NONE: Acknowledgement

class DomainStatus(_message.Message):
    __slots__ = ("name", "role", "data_state", "link_state", "epoch", "log_index", "durable_index", "commit_index", "applied_index", "digest", "state_digest", "in_sync_set", "master", "peer_backlog", "parked", "last_change", "peer_backlog_bytes", "peer_lag", "if_peer_dies", "advice", "handoff", "unrecorded", "solo_since", "peer_durable_index", "state_digest_later")
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
    PEER_BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEER_LAG_FIELD_NUMBER: _ClassVar[int]
    IF_PEER_DIES_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_FIELD_NUMBER: _ClassVar[int]
    UNRECORDED_FIELD_NUMBER: _ClassVar[int]
    SOLO_SINCE_FIELD_NUMBER: _ClassVar[int]
    PEER_DURABLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_LATER_FIELD_NUMBER: _ClassVar[int]
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
    peer_backlog_bytes: int
    peer_lag: _duration_pb2.Duration
    if_peer_dies: str
    advice: str
    handoff: str
    unrecorded: bool
    solo_since: int
    peer_durable_index: int
    state_digest_later: bool
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., data_state: _Optional[_Union[_common_pb2.DataState, str]] = ..., link_state: _Optional[_Union[_common_pb2.LinkState, str]] = ..., epoch: _Optional[int] = ..., log_index: _Optional[int] = ..., durable_index: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., digest: _Optional[str] = ..., state_digest: _Optional[str] = ..., in_sync_set: _Optional[_Iterable[str]] = ..., master: _Optional[str] = ..., peer_backlog: _Optional[int] = ..., parked: _Optional[int] = ..., last_change: _Optional[str] = ..., peer_backlog_bytes: _Optional[int] = ..., peer_lag: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., if_peer_dies: _Optional[str] = ..., advice: _Optional[str] = ..., handoff: _Optional[str] = ..., unrecorded: bool = ..., solo_since: _Optional[int] = ..., peer_durable_index: _Optional[int] = ..., state_digest_later: bool = ...) -> None: ...

class MemberStatus(_message.Message):
    __slots__ = ("name", "endpoint", "pid", "instance_id", "incarnation", "domains", "peer_connected", "peer_heard_ago", "witness_connected", "uptime", "authority", "classifier", "classifier_mode", "safety_class", "automation_paused", "maintenance", "waiting_event_id", "now", "doubts", "plain_ports")
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
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    CLASSIFIER_FIELD_NUMBER: _ClassVar[int]
    CLASSIFIER_MODE_FIELD_NUMBER: _ClassVar[int]
    SAFETY_CLASS_FIELD_NUMBER: _ClassVar[int]
    AUTOMATION_PAUSED_FIELD_NUMBER: _ClassVar[int]
    MAINTENANCE_FIELD_NUMBER: _ClassVar[int]
    WAITING_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    DOUBTS_FIELD_NUMBER: _ClassVar[int]
    PLAIN_PORTS_FIELD_NUMBER: _ClassVar[int]
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
    authority: str
    classifier: str
    classifier_mode: str
    safety_class: SafetyClass
    automation_paused: bool
    maintenance: bool
    waiting_event_id: str
    now: _timestamp_pb2.Timestamp
    doubts: _containers.RepeatedScalarFieldContainer[str]
    plain_ports: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., endpoint: _Optional[str] = ..., pid: _Optional[int] = ..., instance_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., domains: _Optional[_Iterable[_Union[DomainStatus, _Mapping]]] = ..., peer_connected: bool = ..., peer_heard_ago: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., witness_connected: bool = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., authority: _Optional[str] = ..., classifier: _Optional[str] = ..., classifier_mode: _Optional[str] = ..., safety_class: _Optional[_Union[SafetyClass, str]] = ..., automation_paused: bool = ..., maintenance: bool = ..., waiting_event_id: _Optional[str] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., doubts: _Optional[_Iterable[str]] = ..., plain_ports: _Optional[_Iterable[str]] = ...) -> None: ...

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

class PairEvent(_message.Message):
    __slots__ = ("number", "time", "member", "domain", "kind", "epoch", "role", "text", "facts")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    time: _timestamp_pb2.Timestamp
    member: str
    domain: str
    kind: PairEventKind
    epoch: int
    role: _common_pb2.Role
    text: str
    facts: _containers.ScalarMap[str, str]
    def __init__(self, number: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., member: _Optional[str] = ..., domain: _Optional[str] = ..., kind: _Optional[_Union[PairEventKind, str]] = ..., epoch: _Optional[int] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., text: _Optional[str] = ..., facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("from_number", "limit", "domain")
    FROM_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    from_number: int
    limit: int
    domain: str
    def __init__(self, from_number: _Optional[int] = ..., limit: _Optional[int] = ..., domain: _Optional[str] = ...) -> None: ...

class ListEventsResponse(_message.Message):
    __slots__ = ("events", "next_number")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[PairEvent]
    next_number: int
    def __init__(self, events: _Optional[_Iterable[_Union[PairEvent, _Mapping]]] = ..., next_number: _Optional[int] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("from_number", "domain")
    FROM_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    from_number: int
    domain: str
    def __init__(self, from_number: _Optional[int] = ..., domain: _Optional[str] = ...) -> None: ...

class WatchEventsResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: PairEvent
    def __init__(self, event: _Optional[_Union[PairEvent, _Mapping]] = ...) -> None: ...

class HandoffRequest(_message.Message):
    __slots__ = ("domain", "to", "dry_run", "reason", "hold")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    domain: str
    to: str
    dry_run: bool
    reason: str
    hold: _duration_pb2.Duration
    def __init__(self, domain: _Optional[str] = ..., to: _Optional[str] = ..., dry_run: bool = ..., reason: _Optional[str] = ..., hold: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class HandoffResponse(_message.Message):
    __slots__ = ("done", "reasons", "master", "epoch", "final_index", "pause", "handoff_id", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FINAL_INDEX_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    master: str
    epoch: int
    final_index: int
    pause: _duration_pb2.Duration
    handoff_id: str
    text: str
    def __init__(self, done: bool = ..., reasons: _Optional[_Iterable[str]] = ..., master: _Optional[str] = ..., epoch: _Optional[int] = ..., final_index: _Optional[int] = ..., pause: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., handoff_id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ForceFailoverRequest(_message.Message):
    __slots__ = ("domain", "accept_loss_after", "confirmed", "reason")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_LOSS_AFTER_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    domain: str
    accept_loss_after: int
    confirmed: bool
    reason: str
    def __init__(self, domain: _Optional[str] = ..., accept_loss_after: _Optional[int] = ..., confirmed: bool = ..., reason: _Optional[str] = ...) -> None: ...

class ForceFailoverResponse(_message.Message):
    __slots__ = ("done", "epoch", "last_index", "peer_last_index", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    PEER_LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    epoch: int
    last_index: int
    peer_last_index: int
    text: str
    def __init__(self, done: bool = ..., epoch: _Optional[int] = ..., last_index: _Optional[int] = ..., peer_last_index: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("domain", "event_id", "verdict", "reason")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    domain: str
    event_id: str
    verdict: int
    reason: str
    def __init__(self, domain: _Optional[str] = ..., event_id: _Optional[str] = ..., verdict: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DecideResponse(_message.Message):
    __slots__ = ("done", "text", "event_id")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    done: bool
    text: str
    event_id: str
    def __init__(self, done: bool = ..., text: _Optional[str] = ..., event_id: _Optional[str] = ...) -> None: ...

class SetAutomationRequest(_message.Message):
    __slots__ = ("paused", "reason")
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    paused: bool
    reason: str
    def __init__(self, paused: bool = ..., reason: _Optional[str] = ...) -> None: ...

class SetAutomationResponse(_message.Message):
    __slots__ = ("paused",)
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    paused: bool
    def __init__(self, paused: bool = ...) -> None: ...

class SetMaintenanceRequest(_message.Message):
    __slots__ = ("on", "reason", "confirmed")
    ON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    on: bool
    reason: str
    confirmed: bool
    def __init__(self, on: bool = ..., reason: _Optional[str] = ..., confirmed: bool = ...) -> None: ...

class SetMaintenanceResponse(_message.Message):
    __slots__ = ("on", "text")
    ON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    on: bool
    text: str
    def __init__(self, on: bool = ..., text: _Optional[str] = ...) -> None: ...

class ResyncRequest(_message.Message):
    __slots__ = ("domain", "full", "reason")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    domain: str
    full: bool
    reason: str
    def __init__(self, domain: _Optional[str] = ..., full: bool = ..., reason: _Optional[str] = ...) -> None: ...

class ResyncResponse(_message.Message):
    __slots__ = ("done", "text")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    done: bool
    text: str
    def __init__(self, done: bool = ..., text: _Optional[str] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("domain", "range_records")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    RANGE_RECORDS_FIELD_NUMBER: _ClassVar[int]
    domain: str
    range_records: int
    def __init__(self, domain: _Optional[str] = ..., range_records: _Optional[int] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("first_index", "last_index", "records", "equal", "difference", "last", "end_index")
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    EQUAL_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    END_INDEX_FIELD_NUMBER: _ClassVar[int]
    first_index: int
    last_index: int
    records: int
    equal: bool
    difference: str
    last: bool
    end_index: int
    def __init__(self, first_index: _Optional[int] = ..., last_index: _Optional[int] = ..., records: _Optional[int] = ..., equal: bool = ..., difference: _Optional[str] = ..., last: bool = ..., end_index: _Optional[int] = ...) -> None: ...

class OutdateRequest(_message.Message):
    __slots__ = ("domain", "by_member", "epoch", "reason", "pair")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    BY_MEMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    domain: str
    by_member: str
    epoch: int
    reason: str
    pair: str
    def __init__(self, domain: _Optional[str] = ..., by_member: _Optional[str] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ..., pair: _Optional[str] = ...) -> None: ...

class OutdateResponse(_message.Message):
    __slots__ = ("done", "text", "role", "last_index", "epoch")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    done: bool
    text: str
    role: _common_pb2.Role
    last_index: int
    epoch: int
    def __init__(self, done: bool = ..., text: _Optional[str] = ..., role: _Optional[_Union[_common_pb2.Role, str]] = ..., last_index: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class ResolveRequest(_message.Message):
    __slots__ = ("domain", "keep", "reason")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    domain: str
    keep: str
    reason: str
    def __init__(self, domain: _Optional[str] = ..., keep: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResolveResponse(_message.Message):
    __slots__ = ("done", "text", "salvage")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SALVAGE_FIELD_NUMBER: _ClassVar[int]
    done: bool
    text: str
    salvage: str
    def __init__(self, done: bool = ..., text: _Optional[str] = ..., salvage: _Optional[str] = ...) -> None: ...

class ListSalvageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSalvageResponse(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[SalvageFile]
    def __init__(self, files: _Optional[_Iterable[_Union[SalvageFile, _Mapping]]] = ...) -> None: ...

class SalvageFile(_message.Message):
    __slots__ = ("name", "domain", "first_index", "last_index", "operations", "acknowledged", "bytes", "time", "reason", "perhaps_acknowledged", "unacknowledged")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PERHAPS_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    name: str
    domain: str
    first_index: int
    last_index: int
    operations: int
    acknowledged: int
    bytes: int
    time: _timestamp_pb2.Timestamp
    reason: str
    perhaps_acknowledged: int
    unacknowledged: int
    def __init__(self, name: _Optional[str] = ..., domain: _Optional[str] = ..., first_index: _Optional[int] = ..., last_index: _Optional[int] = ..., operations: _Optional[int] = ..., acknowledged: _Optional[int] = ..., bytes: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., perhaps_acknowledged: _Optional[int] = ..., unacknowledged: _Optional[int] = ...) -> None: ...

class ReadSalvageRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ReadSalvageResponse(_message.Message):
    __slots__ = ("log_index", "epoch", "operation", "acknowledged", "queue", "client_id", "first_sequence", "request_id", "batch", "first_index", "count", "done", "pair", "domain", "messages", "certainty")
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CERTAINTY_FIELD_NUMBER: _ClassVar[int]
    log_index: int
    epoch: int
    operation: str
    acknowledged: bool
    queue: str
    client_id: bytes
    first_sequence: int
    request_id: bytes
    batch: bytes
    first_index: int
    count: int
    done: _containers.RepeatedScalarFieldContainer[int]
    pair: str
    domain: str
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    certainty: Acknowledgement
    def __init__(self, log_index: _Optional[int] = ..., epoch: _Optional[int] = ..., operation: _Optional[str] = ..., acknowledged: bool = ..., queue: _Optional[str] = ..., client_id: _Optional[bytes] = ..., first_sequence: _Optional[int] = ..., request_id: _Optional[bytes] = ..., batch: _Optional[bytes] = ..., first_index: _Optional[int] = ..., count: _Optional[int] = ..., done: _Optional[_Iterable[int]] = ..., pair: _Optional[str] = ..., domain: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., certainty: _Optional[_Union[Acknowledgement, str]] = ...) -> None: ...
