from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FrameOutline(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: BatchOutline
    def __init__(self, batch: _Optional[_Union[BatchOutline, _Mapping]] = ...) -> None: ...

class BatchOutline(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: ColumnsOutline
    def __init__(self, messages: _Optional[_Union[ColumnsOutline, _Mapping]] = ...) -> None: ...

class ColumnsOutline(_message.Message):
    __slots__ = ("properties",)
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    properties: _containers.RepeatedCompositeFieldContainer[PropertiesOutline]
    def __init__(self, properties: _Optional[_Iterable[_Union[PropertiesOutline, _Mapping]]] = ...) -> None: ...

class PropertiesOutline(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, entries: _Optional[_Iterable[bytes]] = ...) -> None: ...

class EnqueueOutline(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[MessageOutline]
    def __init__(self, messages: _Optional[_Iterable[_Union[MessageOutline, _Mapping]]] = ...) -> None: ...

class EnqueueSum(_message.Message):
    __slots__ = ("messages", "reaction")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REACTION_FIELD_NUMBER: _ClassVar[int]
    messages: MessageOutline
    reaction: ReactionOutline
    def __init__(self, messages: _Optional[_Union[MessageOutline, _Mapping]] = ..., reaction: _Optional[_Union[ReactionOutline, _Mapping]] = ...) -> None: ...

class TransactOutline(_message.Message):
    __slots__ = ("puts",)
    PUTS_FIELD_NUMBER: _ClassVar[int]
    puts: _containers.RepeatedCompositeFieldContainer[PutOutline]
    def __init__(self, puts: _Optional[_Iterable[_Union[PutOutline, _Mapping]]] = ...) -> None: ...

class TransactManyOutline(_message.Message):
    __slots__ = ("units",)
    UNITS_FIELD_NUMBER: _ClassVar[int]
    units: _containers.RepeatedCompositeFieldContainer[TransactOutline]
    def __init__(self, units: _Optional[_Iterable[_Union[TransactOutline, _Mapping]]] = ...) -> None: ...

class PutOutline(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[MessageOutline]
    def __init__(self, messages: _Optional[_Iterable[_Union[MessageOutline, _Mapping]]] = ...) -> None: ...

class CommitOutline(_message.Message):
    __slots__ = ("puts",)
    PUTS_FIELD_NUMBER: _ClassVar[int]
    puts: _containers.RepeatedCompositeFieldContainer[EnqueueOutline]
    def __init__(self, puts: _Optional[_Iterable[_Union[EnqueueOutline, _Mapping]]] = ...) -> None: ...

class ReactOutline(_message.Message):
    __slots__ = ("reaction",)
    REACTION_FIELD_NUMBER: _ClassVar[int]
    reaction: ReactionOutline
    def __init__(self, reaction: _Optional[_Union[ReactionOutline, _Mapping]] = ...) -> None: ...

class ReactionOutline(_message.Message):
    __slots__ = ("update", "custom")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_FIELD_NUMBER: _ClassVar[int]
    update: UpdateOutline
    custom: CustomOutline
    def __init__(self, update: _Optional[_Union[UpdateOutline, _Mapping]] = ..., custom: _Optional[_Union[CustomOutline, _Mapping]] = ...) -> None: ...

class CustomOutline(_message.Message):
    __slots__ = ("properties",)
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    properties: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, properties: _Optional[_Iterable[bytes]] = ...) -> None: ...

class UpdateOutline(_message.Message):
    __slots__ = ("set_properties",)
    SET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    set_properties: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, set_properties: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ReplyOutline(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: MessageOutline
    def __init__(self, message: _Optional[_Union[MessageOutline, _Mapping]] = ...) -> None: ...

class MessageOutline(_message.Message):
    __slots__ = ("properties",)
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    properties: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, properties: _Optional[_Iterable[bytes]] = ...) -> None: ...
