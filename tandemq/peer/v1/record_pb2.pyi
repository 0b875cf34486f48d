from tandemq.v1 import common_pb2 as _common_pb2
from tandemq.v1 import macro_service_pb2 as _macro_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as _queue_admin_service_pb2
from tandemq.v1 import queue_service_pb2 as _queue_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MacroAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MACRO_ACTION_UNSPECIFIED: _ClassVar[MacroAction]
    MACRO_ACTION_CREATE: _ClassVar[MacroAction]
    MACRO_ACTION_ADD: _ClassVar[MacroAction]
    MACRO_ACTION_REMOVE: _ClassVar[MacroAction]
    MACRO_ACTION_DELETE: _ClassVar[MacroAction]
    MACRO_ACTION_ADD_PROXY: _ClassVar[MacroAction]

class ProxyAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROXY_ACTION_UNSPECIFIED: _ClassVar[ProxyAction]
    PROXY_ACTION_CREATE: _ClassVar[ProxyAction]
    PROXY_ACTION_DELETE: _ClassVar[ProxyAction]

class QueueAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUEUE_ACTION_UNSPECIFIED: _ClassVar[QueueAction]
    QUEUE_ACTION_CREATE: _ClassVar[QueueAction]
    QUEUE_ACTION_UPDATE: _ClassVar[QueueAction]
    QUEUE_ACTION_DELETE: _ClassVar[QueueAction]
    QUEUE_ACTION_PURGE: _ClassVar[QueueAction]
    QUEUE_ACTION_OPEN: _ClassVar[QueueAction]
    QUEUE_ACTION_CLOSE: _ClassVar[QueueAction]
    QUEUE_ACTION_DESTROY: _ClassVar[QueueAction]
    QUEUE_ACTION_CONFIGURE: _ClassVar[QueueAction]
    QUEUE_ACTION_RESTART_SIDE: _ClassVar[QueueAction]

class KeptBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEPT_BY_UNSPECIFIED: _ClassVar[KeptBy]
    KEPT_BY_ID: _ClassVar[KeptBy]
    KEPT_BY_CORRELATION: _ClassVar[KeptBy]
    KEPT_BY_GROUP: _ClassVar[KeptBy]
    KEPT_BY_SELECTOR: _ClassVar[KeptBy]

class ReaderAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READER_ACTION_UNSPECIFIED: _ClassVar[ReaderAction]
    READER_ACTION_REGISTER: _ClassVar[ReaderAction]
    READER_ACTION_ADVANCE: _ClassVar[ReaderAction]
    READER_ACTION_LOSE: _ClassVar[ReaderAction]
    READER_ACTION_DELETE: _ClassVar[ReaderAction]

class WeightsAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WEIGHTS_ACTION_UNSPECIFIED: _ClassVar[WeightsAction]
    WEIGHTS_ACTION_PUBLISH: _ClassVar[WeightsAction]
    WEIGHTS_ACTION_DELETE: _ClassVar[WeightsAction]
MACRO_ACTION_UNSPECIFIED: MacroAction
MACRO_ACTION_CREATE: MacroAction
MACRO_ACTION_ADD: MacroAction
MACRO_ACTION_REMOVE: MacroAction
MACRO_ACTION_DELETE: MacroAction
MACRO_ACTION_ADD_PROXY: MacroAction
PROXY_ACTION_UNSPECIFIED: ProxyAction
PROXY_ACTION_CREATE: ProxyAction
PROXY_ACTION_DELETE: ProxyAction
QUEUE_ACTION_UNSPECIFIED: QueueAction
QUEUE_ACTION_CREATE: QueueAction
QUEUE_ACTION_UPDATE: QueueAction
QUEUE_ACTION_DELETE: QueueAction
QUEUE_ACTION_PURGE: QueueAction
QUEUE_ACTION_OPEN: QueueAction
QUEUE_ACTION_CLOSE: QueueAction
QUEUE_ACTION_DESTROY: QueueAction
QUEUE_ACTION_CONFIGURE: QueueAction
QUEUE_ACTION_RESTART_SIDE: QueueAction
KEPT_BY_UNSPECIFIED: KeptBy
KEPT_BY_ID: KeptBy
KEPT_BY_CORRELATION: KeptBy
KEPT_BY_GROUP: KeptBy
KEPT_BY_SELECTOR: KeptBy
READER_ACTION_UNSPECIFIED: ReaderAction
READER_ACTION_REGISTER: ReaderAction
READER_ACTION_ADVANCE: ReaderAction
READER_ACTION_LOSE: ReaderAction
READER_ACTION_DELETE: ReaderAction
WEIGHTS_ACTION_UNSPECIFIED: WeightsAction
WEIGHTS_ACTION_PUBLISH: WeightsAction
WEIGHTS_ACTION_DELETE: WeightsAction

class RecordHeader(_message.Message):
    __slots__ = ("time_ms", "request_id", "request_hash", "enqueue", "lease", "settle", "expire", "queue", "role", "reply", "alias", "defaults", "remove", "save", "reader", "txn", "select", "stage", "publish", "unstage", "release", "weights", "side", "passed", "macro", "proxy", "rights")
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HASH_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    TXN_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    UNSTAGE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    MACRO_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    time_ms: int
    request_id: bytes
    request_hash: int
    enqueue: EnqueueOp
    lease: LeaseOp
    settle: SettleOp
    expire: ExpireOp
    queue: QueueOp
    role: RoleOp
    reply: ReplyOp
    alias: AliasOp
    defaults: DefaultsOp
    remove: RemoveOp
    save: SaveOp
    reader: ReaderOp
    txn: TxnOp
    select: SelectOp
    stage: StageOp
    publish: PublishOp
    unstage: UnstageOp
    release: ReleaseOp
    weights: WeightsOp
    side: SideOp
    passed: PassedOp
    macro: MacroOp
    proxy: ProxyOp
    rights: RightsOp
    def __init__(self, time_ms: _Optional[int] = ..., request_id: _Optional[bytes] = ..., request_hash: _Optional[int] = ..., enqueue: _Optional[_Union[EnqueueOp, _Mapping]] = ..., lease: _Optional[_Union[LeaseOp, _Mapping]] = ..., settle: _Optional[_Union[SettleOp, _Mapping]] = ..., expire: _Optional[_Union[ExpireOp, _Mapping]] = ..., queue: _Optional[_Union[QueueOp, _Mapping]] = ..., role: _Optional[_Union[RoleOp, _Mapping]] = ..., reply: _Optional[_Union[ReplyOp, _Mapping]] = ..., alias: _Optional[_Union[AliasOp, _Mapping]] = ..., defaults: _Optional[_Union[DefaultsOp, _Mapping]] = ..., remove: _Optional[_Union[RemoveOp, _Mapping]] = ..., save: _Optional[_Union[SaveOp, _Mapping]] = ..., reader: _Optional[_Union[ReaderOp, _Mapping]] = ..., txn: _Optional[_Union[TxnOp, _Mapping]] = ..., select: _Optional[_Union[SelectOp, _Mapping]] = ..., stage: _Optional[_Union[StageOp, _Mapping]] = ..., publish: _Optional[_Union[PublishOp, _Mapping]] = ..., unstage: _Optional[_Union[UnstageOp, _Mapping]] = ..., release: _Optional[_Union[ReleaseOp, _Mapping]] = ..., weights: _Optional[_Union[WeightsOp, _Mapping]] = ..., side: _Optional[_Union[SideOp, _Mapping]] = ..., passed: _Optional[_Union[PassedOp, _Mapping]] = ..., macro: _Optional[_Union[MacroOp, _Mapping]] = ..., proxy: _Optional[_Union[ProxyOp, _Mapping]] = ..., rights: _Optional[_Union[RightsOp, _Mapping]] = ...) -> None: ...

class MacroOp(_message.Message):
    __slots__ = ("action", "macro_id", "name", "relationship", "policy", "queue_id", "priority")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MACRO_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RELATIONSHIP_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    action: MacroAction
    macro_id: int
    name: str
    relationship: _macro_service_pb2.Relationship
    policy: _macro_service_pb2.MacroPolicy
    queue_id: int
    priority: int
    def __init__(self, action: _Optional[_Union[MacroAction, str]] = ..., macro_id: _Optional[int] = ..., name: _Optional[str] = ..., relationship: _Optional[_Union[_macro_service_pb2.Relationship, str]] = ..., policy: _Optional[_Union[_macro_service_pb2.MacroPolicy, str]] = ..., queue_id: _Optional[int] = ..., priority: _Optional[int] = ...) -> None: ...

class ProxyOp(_message.Message):
    __slots__ = ("action", "proxy_id", "name", "target", "relationship", "expected")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RELATIONSHIP_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    action: ProxyAction
    proxy_id: int
    name: str
    target: str
    relationship: _macro_service_pb2.Relationship
    expected: _queue_admin_service_pb2.QueueConfig
    def __init__(self, action: _Optional[_Union[ProxyAction, str]] = ..., proxy_id: _Optional[int] = ..., name: _Optional[str] = ..., target: _Optional[str] = ..., relationship: _Optional[_Union[_macro_service_pb2.Relationship, str]] = ..., expected: _Optional[_Union[_queue_admin_service_pb2.QueueConfig, _Mapping]] = ...) -> None: ...

class SideOp(_message.Message):
    __slots__ = ("domain", "history_id", "queue_id", "side_id", "begins", "name", "config", "member", "first", "count", "payload_bytes", "restarted_ms")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    HISTORY_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    SIDE_ID_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESTARTED_MS_FIELD_NUMBER: _ClassVar[int]
    domain: int
    history_id: bytes
    queue_id: int
    side_id: int
    begins: bool
    name: str
    config: _queue_admin_service_pb2.QueueConfig
    member: str
    first: int
    count: int
    payload_bytes: int
    restarted_ms: int
    def __init__(self, domain: _Optional[int] = ..., history_id: _Optional[bytes] = ..., queue_id: _Optional[int] = ..., side_id: _Optional[int] = ..., begins: bool = ..., name: _Optional[str] = ..., config: _Optional[_Union[_queue_admin_service_pb2.QueueConfig, _Mapping]] = ..., member: _Optional[str] = ..., first: _Optional[int] = ..., count: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., restarted_ms: _Optional[int] = ...) -> None: ...

class SelectOp(_message.Message):
    __slots__ = ("queue_id", "first", "ranges")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    first: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    def __init__(self, queue_id: _Optional[int] = ..., first: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ...) -> None: ...

class PassedOp(_message.Message):
    __slots__ = ("queue_id", "marks", "gone", "lost", "gone_selected")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    GONE_SELECTED_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    marks: _containers.RepeatedCompositeFieldContainer[SideMark]
    gone: _common_pb2.IndexRange
    lost: _containers.RepeatedCompositeFieldContainer[SideLoss]
    gone_selected: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    def __init__(self, queue_id: _Optional[int] = ..., marks: _Optional[_Iterable[_Union[SideMark, _Mapping]]] = ..., gone: _Optional[_Union[_common_pb2.IndexRange, _Mapping]] = ..., lost: _Optional[_Iterable[_Union[SideLoss, _Mapping]]] = ..., gone_selected: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ...) -> None: ...

class SideLoss(_message.Message):
    __slots__ = ("member", "because")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    member: str
    because: str
    def __init__(self, member: _Optional[str] = ..., because: _Optional[str] = ...) -> None: ...

class SideMark(_message.Message):
    __slots__ = ("member", "index")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    member: str
    index: int
    def __init__(self, member: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("ordinal", "reason")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    reason: _common_pb2.Reason
    def __init__(self, ordinal: _Optional[int] = ..., reason: _Optional[_Union[_common_pb2.Reason, str]] = ...) -> None: ...

class EnqueueOp(_message.Message):
    __slots__ = ("queue_id", "client_id", "first_sequence", "count", "first_index", "refusals", "priorities", "expires_at_ms", "volatiles", "payload_bytes", "downgraded", "internal", "deliver_at_ms", "groups", "dedup_ids", "duplicates", "moved_from", "moved_final", "dropped", "addressed", "answers", "first_ordinal", "queue", "updated", "group_sequences", "lasts_in_group", "group_bytes", "staged", "kept", "more_moved_from", "macro_id", "ordinals", "weighed")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    VOLATILES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOWNGRADED_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    DEDUP_IDS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    MOVED_FROM_FIELD_NUMBER: _ClassVar[int]
    MOVED_FINAL_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    ADDRESSED_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    FIRST_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    GROUP_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    LASTS_IN_GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUP_BYTES_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    MORE_MOVED_FROM_FIELD_NUMBER: _ClassVar[int]
    MACRO_ID_FIELD_NUMBER: _ClassVar[int]
    ORDINALS_FIELD_NUMBER: _ClassVar[int]
    WEIGHED_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    client_id: bytes
    first_sequence: int
    count: int
    first_index: int
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    priorities: _containers.RepeatedScalarFieldContainer[int]
    expires_at_ms: _containers.RepeatedScalarFieldContainer[int]
    volatiles: _containers.RepeatedScalarFieldContainer[int]
    payload_bytes: int
    downgraded: bool
    internal: bool
    deliver_at_ms: _containers.RepeatedScalarFieldContainer[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    dedup_ids: _containers.RepeatedScalarFieldContainer[str]
    duplicates: _containers.RepeatedCompositeFieldContainer[_queue_service_pb2.EntryDuplicate]
    moved_from: QueueRanges
    moved_final: _queue_service_pb2.FinalState
    dropped: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    addressed: _containers.RepeatedScalarFieldContainer[int]
    answers: QueueRanges
    first_ordinal: int
    queue: str
    updated: bool
    group_sequences: _containers.RepeatedScalarFieldContainer[int]
    lasts_in_group: _containers.RepeatedScalarFieldContainer[bool]
    group_bytes: _containers.RepeatedScalarFieldContainer[int]
    staged: int
    kept: KeptKey
    more_moved_from: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    macro_id: int
    ordinals: _containers.RepeatedScalarFieldContainer[int]
    weighed: int
    def __init__(self, queue_id: _Optional[int] = ..., client_id: _Optional[bytes] = ..., first_sequence: _Optional[int] = ..., count: _Optional[int] = ..., first_index: _Optional[int] = ..., refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ..., priorities: _Optional[_Iterable[int]] = ..., expires_at_ms: _Optional[_Iterable[int]] = ..., volatiles: _Optional[_Iterable[int]] = ..., payload_bytes: _Optional[int] = ..., downgraded: bool = ..., internal: bool = ..., deliver_at_ms: _Optional[_Iterable[int]] = ..., groups: _Optional[_Iterable[int]] = ..., dedup_ids: _Optional[_Iterable[str]] = ..., duplicates: _Optional[_Iterable[_Union[_queue_service_pb2.EntryDuplicate, _Mapping]]] = ..., moved_from: _Optional[_Union[QueueRanges, _Mapping]] = ..., moved_final: _Optional[_Union[_queue_service_pb2.FinalState, str]] = ..., dropped: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., addressed: _Optional[_Iterable[int]] = ..., answers: _Optional[_Union[QueueRanges, _Mapping]] = ..., first_ordinal: _Optional[int] = ..., queue: _Optional[str] = ..., updated: bool = ..., group_sequences: _Optional[_Iterable[int]] = ..., lasts_in_group: _Optional[_Iterable[bool]] = ..., group_bytes: _Optional[_Iterable[int]] = ..., staged: _Optional[int] = ..., kept: _Optional[_Union[KeptKey, _Mapping]] = ..., more_moved_from: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ..., macro_id: _Optional[int] = ..., ordinals: _Optional[_Iterable[int]] = ..., weighed: _Optional[int] = ...) -> None: ...

class DealOp(_message.Message):
    __slots__ = ("macro_id", "client_id", "first_sequence", "count", "refusals", "weighed")
    MACRO_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    WEIGHED_FIELD_NUMBER: _ClassVar[int]
    macro_id: int
    client_id: bytes
    first_sequence: int
    count: int
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    weighed: int
    def __init__(self, macro_id: _Optional[int] = ..., client_id: _Optional[bytes] = ..., first_sequence: _Optional[int] = ..., count: _Optional[int] = ..., refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ..., weighed: _Optional[int] = ...) -> None: ...

class TxnOp(_message.Message):
    __slots__ = ("settles", "enqueues", "unit_id", "replies", "removes", "writer", "number", "digest", "query_id", "deal")
    SETTLES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUES_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    REMOVES_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    DEAL_FIELD_NUMBER: _ClassVar[int]
    settles: _containers.RepeatedCompositeFieldContainer[SettleOp]
    enqueues: _containers.RepeatedCompositeFieldContainer[EnqueueOp]
    unit_id: bytes
    replies: _containers.RepeatedCompositeFieldContainer[ReplyOp]
    removes: _containers.RepeatedCompositeFieldContainer[RemoveOp]
    writer: str
    number: int
    digest: int
    query_id: str
    deal: DealOp
    def __init__(self, settles: _Optional[_Iterable[_Union[SettleOp, _Mapping]]] = ..., enqueues: _Optional[_Iterable[_Union[EnqueueOp, _Mapping]]] = ..., unit_id: _Optional[bytes] = ..., replies: _Optional[_Iterable[_Union[ReplyOp, _Mapping]]] = ..., removes: _Optional[_Iterable[_Union[RemoveOp, _Mapping]]] = ..., writer: _Optional[str] = ..., number: _Optional[int] = ..., digest: _Optional[int] = ..., query_id: _Optional[str] = ..., deal: _Optional[_Union[DealOp, _Mapping]] = ...) -> None: ...

class StageOp(_message.Message):
    __slots__ = ("stage_id", "part", "queue_id", "count", "payload_bytes", "expires_at_ms")
    STAGE_ID_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    stage_id: bytes
    part: int
    queue_id: int
    count: int
    payload_bytes: int
    expires_at_ms: int
    def __init__(self, stage_id: _Optional[bytes] = ..., part: _Optional[int] = ..., queue_id: _Optional[int] = ..., count: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class PublishOp(_message.Message):
    __slots__ = ("writer", "query_id", "batch", "stage_ids", "duplicate")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    writer: str
    query_id: str
    batch: int
    stage_ids: _containers.RepeatedScalarFieldContainer[bytes]
    duplicate: bool
    def __init__(self, writer: _Optional[str] = ..., query_id: _Optional[str] = ..., batch: _Optional[int] = ..., stage_ids: _Optional[_Iterable[bytes]] = ..., duplicate: bool = ...) -> None: ...

class UnstageOp(_message.Message):
    __slots__ = ("stage_ids",)
    STAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    stage_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, stage_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ReleaseOp(_message.Message):
    __slots__ = ("writer",)
    WRITER_FIELD_NUMBER: _ClassVar[int]
    writer: str
    def __init__(self, writer: _Optional[str] = ...) -> None: ...

class LeaseOp(_message.Message):
    __slots__ = ("queue_id", "ranges", "client_id", "expires_at_ms", "duration_ms", "immediate", "batch_consumer", "batch_number", "unit", "delivery_counts", "reaction", "macro_id")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_FIELD_NUMBER: _ClassVar[int]
    BATCH_CONSUMER_FIELD_NUMBER: _ClassVar[int]
    BATCH_NUMBER_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    REACTION_FIELD_NUMBER: _ClassVar[int]
    MACRO_ID_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    client_id: bytes
    expires_at_ms: int
    duration_ms: int
    immediate: bool
    batch_consumer: str
    batch_number: int
    unit: bytes
    delivery_counts: _containers.RepeatedScalarFieldContainer[int]
    reaction: bool
    macro_id: int
    def __init__(self, queue_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., client_id: _Optional[bytes] = ..., expires_at_ms: _Optional[int] = ..., duration_ms: _Optional[int] = ..., immediate: bool = ..., batch_consumer: _Optional[str] = ..., batch_number: _Optional[int] = ..., unit: _Optional[bytes] = ..., delivery_counts: _Optional[_Iterable[int]] = ..., reaction: bool = ..., macro_id: _Optional[int] = ...) -> None: ...

class SettleOp(_message.Message):
    __slots__ = ("queue_id", "effects", "results", "batch_consumer", "batch_number")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_CONSUMER_FIELD_NUMBER: _ClassVar[int]
    BATCH_NUMBER_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    effects: _containers.RepeatedCompositeFieldContainer[SettleEffect]
    results: _containers.RepeatedCompositeFieldContainer[_queue_service_pb2.SettleResult]
    batch_consumer: str
    batch_number: int
    def __init__(self, queue_id: _Optional[int] = ..., effects: _Optional[_Iterable[_Union[SettleEffect, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[_queue_service_pb2.SettleResult, _Mapping]]] = ..., batch_consumer: _Optional[str] = ..., batch_number: _Optional[int] = ...) -> None: ...

class SettleEffect(_message.Message):
    __slots__ = ("lease_id", "ranges", "outcome", "expires_at_ms", "duration_ms", "deliver_at_ms", "dead_letter", "reason", "backout", "unlock")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BACKOUT_FIELD_NUMBER: _ClassVar[int]
    UNLOCK_FIELD_NUMBER: _ClassVar[int]
    lease_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    outcome: _queue_service_pb2.Outcome
    expires_at_ms: int
    duration_ms: int
    deliver_at_ms: int
    dead_letter: bool
    reason: str
    backout: bool
    unlock: bool
    def __init__(self, lease_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., outcome: _Optional[_Union[_queue_service_pb2.Outcome, str]] = ..., expires_at_ms: _Optional[int] = ..., duration_ms: _Optional[int] = ..., deliver_at_ms: _Optional[int] = ..., dead_letter: bool = ..., reason: _Optional[str] = ..., backout: bool = ..., unlock: bool = ...) -> None: ...

class ExpireOp(_message.Message):
    __slots__ = ("messages", "lease_ids", "volatile_lost", "matured", "reply_timeouts", "idle_queue_ids", "forgotten", "enabled_queue_ids", "lease_rules", "readers", "stage_ids", "ungathered", "unanswered")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LEASE_IDS_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_LOST_FIELD_NUMBER: _ClassVar[int]
    MATURED_FIELD_NUMBER: _ClassVar[int]
    REPLY_TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    IDLE_QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    ENABLED_QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_RULES_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    STAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    UNGATHERED_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    lease_ids: _containers.RepeatedScalarFieldContainer[int]
    volatile_lost: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    matured: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    reply_timeouts: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    idle_queue_ids: _containers.RepeatedScalarFieldContainer[int]
    forgotten: _containers.RepeatedCompositeFieldContainer[QueueTime]
    enabled_queue_ids: _containers.RepeatedScalarFieldContainer[int]
    lease_rules: bool
    readers: _containers.RepeatedScalarFieldContainer[str]
    stage_ids: _containers.RepeatedScalarFieldContainer[bytes]
    ungathered: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    unanswered: _containers.RepeatedCompositeFieldContainer[QueueRanges]
    def __init__(self, messages: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ..., lease_ids: _Optional[_Iterable[int]] = ..., volatile_lost: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ..., matured: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ..., reply_timeouts: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ..., idle_queue_ids: _Optional[_Iterable[int]] = ..., forgotten: _Optional[_Iterable[_Union[QueueTime, _Mapping]]] = ..., enabled_queue_ids: _Optional[_Iterable[int]] = ..., lease_rules: bool = ..., readers: _Optional[_Iterable[str]] = ..., stage_ids: _Optional[_Iterable[bytes]] = ..., ungathered: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ..., unanswered: _Optional[_Iterable[_Union[QueueRanges, _Mapping]]] = ...) -> None: ...

class QueueTime(_message.Message):
    __slots__ = ("queue_id", "time_ms")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    time_ms: int
    def __init__(self, queue_id: _Optional[int] = ..., time_ms: _Optional[int] = ...) -> None: ...

class QueueRanges(_message.Message):
    __slots__ = ("queue_id", "ranges")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    def __init__(self, queue_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ...) -> None: ...

class QueueOp(_message.Message):
    __slots__ = ("action", "queue_id", "name", "config", "member", "members", "open_members", "removed", "configuring", "save_below", "save_marked", "side_after", "gone", "gone_selected")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    OPEN_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURING_FIELD_NUMBER: _ClassVar[int]
    SAVE_BELOW_FIELD_NUMBER: _ClassVar[int]
    SAVE_MARKED_FIELD_NUMBER: _ClassVar[int]
    SIDE_AFTER_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    GONE_SELECTED_FIELD_NUMBER: _ClassVar[int]
    action: QueueAction
    queue_id: int
    name: str
    config: _queue_admin_service_pb2.QueueConfig
    member: str
    members: _containers.RepeatedScalarFieldContainer[str]
    open_members: _containers.RepeatedScalarFieldContainer[str]
    removed: int
    configuring: bool
    save_below: int
    save_marked: bool
    side_after: int
    gone: _common_pb2.IndexRange
    gone_selected: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    def __init__(self, action: _Optional[_Union[QueueAction, str]] = ..., queue_id: _Optional[int] = ..., name: _Optional[str] = ..., config: _Optional[_Union[_queue_admin_service_pb2.QueueConfig, _Mapping]] = ..., member: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., open_members: _Optional[_Iterable[str]] = ..., removed: _Optional[int] = ..., configuring: bool = ..., save_below: _Optional[int] = ..., save_marked: bool = ..., side_after: _Optional[int] = ..., gone: _Optional[_Union[_common_pb2.IndexRange, _Mapping]] = ..., gone_selected: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ...) -> None: ...

class ReplyOp(_message.Message):
    __slots__ = ("queue_id", "lease_id", "index", "reply_to", "correlation_id", "ordinal", "fingerprint")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    lease_id: int
    index: int
    reply_to: str
    correlation_id: str
    ordinal: int
    fingerprint: int
    def __init__(self, queue_id: _Optional[int] = ..., lease_id: _Optional[int] = ..., index: _Optional[int] = ..., reply_to: _Optional[str] = ..., correlation_id: _Optional[str] = ..., ordinal: _Optional[int] = ..., fingerprint: _Optional[int] = ...) -> None: ...

class AliasOp(_message.Message):
    __slots__ = ("alias", "queue_id")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    alias: str
    queue_id: int
    def __init__(self, alias: _Optional[str] = ..., queue_id: _Optional[int] = ...) -> None: ...

class DefaultsOp(_message.Message):
    __slots__ = ("config",)
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    config: _queue_admin_service_pb2.QueueConfig
    def __init__(self, config: _Optional[_Union[_queue_admin_service_pb2.QueueConfig, _Mapping]] = ...) -> None: ...

class RemoveOp(_message.Message):
    __slots__ = ("queue_id", "ranges", "final_state", "total", "left", "leased", "behind", "reaction", "denied")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    REACTION_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    final_state: _queue_service_pb2.FinalState
    total: int
    left: int
    leased: int
    behind: _containers.RepeatedCompositeFieldContainer[_queue_admin_service_pb2.LeftBehind]
    reaction: ReactionCounts
    denied: DeniedHits
    def __init__(self, queue_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., final_state: _Optional[_Union[_queue_service_pb2.FinalState, str]] = ..., total: _Optional[int] = ..., left: _Optional[int] = ..., leased: _Optional[int] = ..., behind: _Optional[_Iterable[_Union[_queue_admin_service_pb2.LeftBehind, _Mapping]]] = ..., reaction: _Optional[_Union[ReactionCounts, _Mapping]] = ..., denied: _Optional[_Union[DeniedHits, _Mapping]] = ...) -> None: ...

class DeniedHits(_message.Message):
    __slots__ = ("store_id", "index", "ranges", "first_index")
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    store_id: int
    index: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    first_index: int
    def __init__(self, store_id: _Optional[int] = ..., index: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., first_index: _Optional[int] = ...) -> None: ...

class KeptKey(_message.Message):
    __slots__ = ("queue_id", "by", "hashes")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    by: KeptBy
    hashes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, queue_id: _Optional[int] = ..., by: _Optional[_Union[KeptBy, str]] = ..., hashes: _Optional[_Iterable[int]] = ...) -> None: ...

class ReactionCounts(_message.Message):
    __slots__ = ("applied", "locked", "inert", "dying", "refused", "kept", "unreported", "forwarded", "left", "failed", "denied")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    LOCKED_FIELD_NUMBER: _ClassVar[int]
    INERT_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    UNREPORTED_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    applied: int
    locked: int
    inert: int
    dying: int
    refused: int
    kept: bool
    unreported: int
    forwarded: bool
    left: int
    failed: int
    denied: int
    def __init__(self, applied: _Optional[int] = ..., locked: _Optional[int] = ..., inert: _Optional[int] = ..., dying: _Optional[int] = ..., refused: _Optional[int] = ..., kept: bool = ..., unreported: _Optional[int] = ..., forwarded: bool = ..., left: _Optional[int] = ..., failed: _Optional[int] = ..., denied: _Optional[int] = ...) -> None: ...

class SaveOp(_message.Message):
    __slots__ = ("queue_id", "ranges", "bodies", "next_index")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    bodies: _containers.RepeatedCompositeFieldContainer[_common_pb2.IndexRange]
    next_index: int
    def __init__(self, queue_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., bodies: _Optional[_Iterable[_Union[_common_pb2.IndexRange, _Mapping]]] = ..., next_index: _Optional[int] = ...) -> None: ...

class RoleOp(_message.Message):
    __slots__ = ("owner", "in_sync_set", "reason", "forced", "unrecorded", "history_id", "unit_leases")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_SET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    UNRECORDED_FIELD_NUMBER: _ClassVar[int]
    HISTORY_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_LEASES_FIELD_NUMBER: _ClassVar[int]
    owner: str
    in_sync_set: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    forced: bool
    unrecorded: bool
    history_id: bytes
    unit_leases: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, owner: _Optional[str] = ..., in_sync_set: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., forced: bool = ..., unrecorded: bool = ..., history_id: _Optional[bytes] = ..., unit_leases: _Optional[_Iterable[int]] = ...) -> None: ...

class ReaderOp(_message.Message):
    __slots__ = ("action", "name", "log_index", "epoch", "row", "ttl_ms", "because")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    action: ReaderAction
    name: str
    log_index: int
    epoch: int
    row: int
    ttl_ms: int
    because: str
    def __init__(self, action: _Optional[_Union[ReaderAction, str]] = ..., name: _Optional[str] = ..., log_index: _Optional[int] = ..., epoch: _Optional[int] = ..., row: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., because: _Optional[str] = ...) -> None: ...

class WeightsOp(_message.Message):
    __slots__ = ("action", "name", "version", "queue_ids", "weights", "valid_until_ms", "published_by", "computed_from_ms", "computed_until_ms")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_BY_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    action: WeightsAction
    name: str
    version: int
    queue_ids: _containers.RepeatedScalarFieldContainer[int]
    weights: _containers.RepeatedScalarFieldContainer[float]
    valid_until_ms: int
    published_by: str
    computed_from_ms: int
    computed_until_ms: int
    def __init__(self, action: _Optional[_Union[WeightsAction, str]] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., queue_ids: _Optional[_Iterable[int]] = ..., weights: _Optional[_Iterable[float]] = ..., valid_until_ms: _Optional[int] = ..., published_by: _Optional[str] = ..., computed_from_ms: _Optional[int] = ..., computed_until_ms: _Optional[int] = ...) -> None: ...

class RightsOp(_message.Message):
    __slots__ = ("principal", "right", "pattern", "revoked", "version", "by")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    principal: str
    right: int
    pattern: str
    revoked: bool
    version: int
    by: str
    def __init__(self, principal: _Optional[str] = ..., right: _Optional[int] = ..., pattern: _Optional[str] = ..., revoked: bool = ..., version: _Optional[int] = ..., by: _Optional[str] = ...) -> None: ...
