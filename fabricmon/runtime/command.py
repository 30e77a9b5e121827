"""The output of a program: without a shell, in its own process group, with limits of time and size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

MAX_WORDS = 2000  # bytes of a command's stderr that are kept
CHUNK = 1 << 20


class CommandError(Exception):
    """The program could not be run, exceeded a limit or failed; the text names which."""


async def output(command: Sequence[str], deadline: float, most: int) -> bytes:
    """The stdout of a program, at most `most` bytes, within `deadline` seconds; else CommandError."""
    program = os.path.basename(command[0])
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandError(f"{program} cannot be run: {error}") from error
    try:
        async with asyncio.timeout(deadline):
            assert process.stdout is not None
            assert process.stderr is not None
            data, words = await asyncio.gather(_all(process.stdout, most), _first(process.stderr))
            status = await process.wait()
    except TimeoutError as error:
        raise CommandError(f"{program} did not finish within {deadline:g} s") from error
    finally:
        if process.returncode is None:  # else its number may belong to another process
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if status:
        text = " ".join((words or data[:MAX_WORDS]).decode(errors="replace").split())
        raise CommandError(f"{program} failed with status {status}{f': {text}' if text else ''}")
    return data


async def _all(stream: asyncio.StreamReader, most: int) -> bytes:
    chunks, size = [], 0
    while chunk := await stream.read(CHUNK):
        size += len(chunk)
        if size > most:
            raise CommandError(f"the command prints more than {most} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _first(stream: asyncio.StreamReader) -> bytes:
    """The first MAX_WORDS bytes of a stream, which is read to its end."""
    kept = b""
    while chunk := await stream.read(CHUNK):
        kept = (kept + chunk)[:MAX_WORDS]
    return kept
