from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REGISTER_STATE_UNSPECIFIED: _ClassVar[RegisterState]
    REGISTER_STATE_CLAIMED: _ClassVar[RegisterState]
    REGISTER_STATE_COMMITTED: _ClassVar[RegisterState]
REGISTER_STATE_UNSPECIFIED: RegisterState
REGISTER_STATE_CLAIMED: RegisterState
REGISTER_STATE_COMMITTED: RegisterState

class Register(_message.Message):
    __slots__ = ("version", "epoch", "holder", "in_sync_set", "committed_set", "state", "nonce")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_SET_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_SET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    epoch: int
    holder: str
    in_sync_set: _containers.RepeatedScalarFieldContainer[str]
    committed_set: _containers.RepeatedScalarFieldContainer[str]
    state: RegisterState
    nonce: bytes
    def __init__(self, version: _Optional[int] = ..., epoch: _Optional[int] = ..., holder: _Optional[str] = ..., in_sync_set: _Optional[_Iterable[str]] = ..., committed_set: _Optional[_Iterable[str]] = ..., state: _Optional[_Union[RegisterState, str]] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class GetRegisterRequest(_message.Message):
    __slots__ = ("pair", "domain")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    pair: str
    domain: str
    def __init__(self, pair: _Optional[str] = ..., domain: _Optional[str] = ...) -> None: ...

class GetRegisterResponse(_message.Message):
    __slots__ = ("register",)
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    register: Register
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ...) -> None: ...

class CompareAndSetRequest(_message.Message):
    __slots__ = ("pair", "domain", "expected", "desired", "member")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    pair: str
    domain: str
    expected: Register
    desired: Register
    member: str
    def __init__(self, pair: _Optional[str] = ..., domain: _Optional[str] = ..., expected: _Optional[_Union[Register, _Mapping]] = ..., desired: _Optional[_Union[Register, _Mapping]] = ..., member: _Optional[str] = ...) -> None: ...

class CompareAndSetResponse(_message.Message):
    __slots__ = ("done", "register", "refusal")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    done: bool
    register: Register
    refusal: str
    def __init__(self, done: bool = ..., register: _Optional[_Union[Register, _Mapping]] = ..., refusal: _Optional[str] = ...) -> None: ...

class WatchRegisterRequest(_message.Message):
    __slots__ = ("pair", "domain")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    pair: str
    domain: str
    def __init__(self, pair: _Optional[str] = ..., domain: _Optional[str] = ...) -> None: ...

class WatchRegisterResponse(_message.Message):
    __slots__ = ("register",)
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    register: Register
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ...) -> None: ...

class ListRegistersRequest(_message.Message):
    __slots__ = ("pair",)
    PAIR_FIELD_NUMBER: _ClassVar[int]
    pair: str
    def __init__(self, pair: _Optional[str] = ...) -> None: ...

class ListRegistersResponse(_message.Message):
    __slots__ = ("registers", "register_count_max", "version")
    REGISTERS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_COUNT_MAX_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    registers: _containers.RepeatedCompositeFieldContainer[NamedRegister]
    register_count_max: int
    version: str
    def __init__(self, registers: _Optional[_Iterable[_Union[NamedRegister, _Mapping]]] = ..., register_count_max: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class NamedRegister(_message.Message):
    __slots__ = ("pair", "domain", "register")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    pair: str
    domain: str
    register: Register
    def __init__(self, pair: _Optional[str] = ..., domain: _Optional[str] = ..., register: _Optional[_Union[Register, _Mapping]] = ...) -> None: ...

class ForceRegisterRequest(_message.Message):
    __slots__ = ("pair", "domain", "expected_version", "epoch", "holder", "reason")
    PAIR_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    pair: str
    domain: str
    expected_version: int
    epoch: int
    holder: str
    reason: str
    def __init__(self, pair: _Optional[str] = ..., domain: _Optional[str] = ..., expected_version: _Optional[int] = ..., epoch: _Optional[int] = ..., holder: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ForceRegisterResponse(_message.Message):
    __slots__ = ("done", "register", "refusal")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    done: bool
    register: Register
    refusal: str
    def __init__(self, done: bool = ..., register: _Optional[_Union[Register, _Mapping]] = ..., refusal: _Optional[str] = ...) -> None: ...
