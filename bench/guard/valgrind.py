"""Tells callgrind, from inside of the process that it runs, when to count; without valgrind each request does nothing.

A request is a sequence of instructions that valgrind knows and that has no effect elsewhere (valgrind.h, amd64). It is
made here by hand, as a compiler may not be there; valgrind's other way in, vgdb, needs the right to trace.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Callable

_START, _TOGGLE, _DUMP_AT, _RUNNING = 0x43540004, 0x43540002, 0x43540003, 0x1001  # callgrind.h, valgrind.h
_CODE_BYTES = 64


def _code(place: int) -> bytes:
    """mov rax, place; xor edx, edx; rol rdi by 3, 13, 61, 51; xchg rbx, rbx; mov rax, rdx; ret"""
    request = bytes.fromhex("31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
    return b"\x48\xb8" + place.to_bytes(8, "little") + request


class Callgrind:
    """The counter: nothing is counted until `start`, then only while it is on, which it is not at first.

    The command must have been started with --instr-atstart=no --collect-atstart=no.
    """

    def __init__(self) -> None:
        if platform.machine() != "x86_64":
            raise RuntimeError(f"counting is written for x86_64, this is {platform.machine()}")
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._arguments = [(ctypes.c_uint64 * 6)() for _ in range(2)]
        self._call = self._function(0)
        self.toggle = self._function(1)
        """Counts from here on, or no more. As little as can be done, for part of it is counted."""
        self._arguments[1][0] = _TOGGLE

    def _function(self, place: int) -> Callable[[], int]:
        code = _code(ctypes.addressof(self._arguments[place]))
        self._page[place * _CODE_BYTES : place * _CODE_BYTES + len(code)] = code
        found: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_uint64)(self._address + place * _CODE_BYTES)
        return found

    def _ask(self, request: int, argument: int = 0) -> int:
        self._arguments[0][0], self._arguments[0][1] = request, argument
        return self._call()

    @property
    def is_running(self) -> bool:
        """Whether valgrind is there."""
        return self._ask(_RUNNING) > 0

    def start(self) -> None:
        """From here on everything takes fifty times as long."""
        self._ask(_START)

    def dump(self, name: str) -> None:
        """What was counted since the last dump goes into the next file, under this name."""
        text = ctypes.create_string_buffer(name.encode())
        self._ask(_DUMP_AT, ctypes.addressof(text))
