"""The context of a handler: its run, its log and its progress."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class Part:
    """The part of a broadcast that a run is."""

    index: int
    total: int


class Cancellation:
    """Set once the run should end. Like asyncio.Event, and usable in threads too."""

    def __init__(self) -> None:
        self._loop_side = asyncio.Event()
        self._thread_side = threading.Event()
        self.reason = ""

    def is_set(self) -> bool:
        return self._thread_side.is_set()

    # `if context.cancelled:` would otherwise always be true.
    __bool__ = is_set

    async def wait(self) -> bool:
        """For async handlers. Those are interrupted as well, so few need it."""
        return await self._loop_side.wait()

    def wait_in_thread(self, timeout: float | None = None) -> bool:
        """For plain handlers: sleeps for that long, and returns whether the run should end."""
        return self._thread_side.wait(timeout)

    def set(self, reason: str = "") -> None:
        """Only the client calls this, in the event loop."""
        self.reason = reason
        self._thread_side.set()
        self._loop_side.set()


class Voice(Protocol):
    """Receives a context's lines and progress."""

    def say(self, line: str) -> None: ...

    def advance(self, percent: float, note: str) -> None: ...


@dataclass(frozen=True)
class Context:
    """One attempt at a run. `token` is the fencing token: pass it to the systems that the handler changes."""

    run: int
    job: int
    job_name: str
    handler: str
    fire_time: datetime
    attempt: int
    token: int
    payload: Any
    part: Part | None
    possible_duplicate: bool
    # In seconds, counted from when the run was received; None for no timeout.
    timeout: float | None
    cancelled: Cancellation = field(repr=False, compare=False)
    _voice: Voice = field(repr=False, compare=False)

    def log(self, line: object) -> None:
        """Adds to the log of this attempt. From any thread; text with line breaks becomes several lines."""
        self._voice.say(str(line))

    def progress(self, percent: float, note: str = "") -> None:
        """Reports the progress of the run. From any thread; only the newest value counts."""
        self._voice.advance(percent, note)
