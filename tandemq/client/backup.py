"""Takes a backup of one member over the network; says whether every byte of it came, never what is in it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from tandemq.channels import Open, open_channel
from tandemq.errors import TandemqError, TimedOut, from_rpc_error
from tandemq.v1 import manager_admin_service_pb2 as pb
from tandemq.v1 import manager_admin_service_pb2_grpc

DIGEST_BYTES = 32
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 16 << 20),
)


async def take_backup(
    endpoint: str,
    write: Callable[[bytes], object],
    *,
    any_copy: bool = False,
    silence_s: float = 30.0,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    opener: Open = open_channel,
) -> pb.BackupHeader:
    """Hand every byte to `write`, in order. Raises TandemqError: what was written until then is no backup.

    Never repeated: another call gives another moment's backup, from its first byte.
    """
    async with opener(endpoint, CHANNEL_OPTIONS) as channel:
        stub: Any = manager_admin_service_pb2_grpc.ManagerAdminServiceStub(channel)
        call = stub.Backup(pb.BackupRequest(any_copy=any_copy))
        try:
            return await _receive(call, endpoint, write, silence_s, on_progress)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except TimeoutError as error:
            raise TimedOut("DEADLINE_EXCEEDED", f"{endpoint} sent nothing for {silence_s:g} s") from error
        finally:
            call.cancel()


async def _receive(
    call: Any,
    endpoint: str,
    write: Callable[[bytes], object],
    silence_s: float,
    on_progress: Callable[[int, int], None],
) -> pb.BackupHeader:
    header, size = pb.BackupHeader(), 0
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    while True:
        async with asyncio.timeout(silence_s):
            frame = await call.read()
        if not isinstance(frame, pb.BackupResponse):
            await call  # raises what ended the stream
            raise TandemqError("UNREACHABLE", f"{endpoint} ended the backup after {size} bytes, before its end")
        match frame.WhichOneof("frame"):
            case "header":
                header = frame.header
            case "chunk":
                digest.update(frame.chunk)
                size += len(frame.chunk)
                await asyncio.to_thread(write, frame.chunk)  # a disk may be slow; the connection is not to be lost
                on_progress(size, max(header.bytes_estimate, size))
            case "footer":
                if (frame.footer.bytes, frame.footer.blake2b) != (size, digest.digest()):
                    what = f"{endpoint} sent {frame.footer.bytes} bytes, and {size} or others came"
                    raise TandemqError("DIGEST_MISMATCH", f"{what}; take the backup again")
                return header
