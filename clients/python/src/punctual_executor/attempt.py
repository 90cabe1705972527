"""One attempt that this executor was given, with its unsent log, progress and report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from . import packing
from .context import Cancellation, Context, Part
from .limits import LINE_BYTES, LOG_BYTES, MESSAGE_BYTES, cut
from .wire import Key, Run

if TYPE_CHECKING:
    from .session import Session

# The node drops lines beyond its limit. A little more is sent, so that the node notices and notes it in the log.
LOG_ENOUGH = LOG_BYTES + 64 * LINE_BYTES

# An attempt whose report follows its end this soon has ended when the report comes.
AT_ONCE_MS = 100


class Attempt:
    def __init__(self, run: Run, home: Session, changed: Callable[[Attempt], None]) -> None:
        self.run = run
        self.key: Key = run.key
        # Logs and reports go to the node that sent the run, as long as there is a session with it.
        self.home = home
        self.via: Session | None = None
        self.report: dict[str, Any] | None = None
        self.task: asyncio.Task[Any] | None = None
        self.timers: list[asyncio.TimerHandle] = []
        # Why it should end: cancelled, timed_out, stale or shutdown.
        self.why: str | None = None
        self.context = self._context()
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._lines: list[str] = []
        self._next_line = 1
        self._logged = 0
        self._progress: tuple[int, str] | None = None
        self._started_at: str | None = None
        self._ended = 0.0

    def _context(self) -> Context:
        run = self.run
        return Context(
            run=run.key.run,
            job=run.job,
            job_name=run.name,
            handler=run.handler,
            fire_time=run.fire_time,
            attempt=run.key.attempt,
            token=run.key.token,
            payload=run.payload,
            part=Part(*run.part) if run.part else None,
            possible_duplicate=run.possible_duplicate,
            timeout=run.timeout,
            cancelled=Cancellation(),
            _voice=self,
        )

    def begin(self) -> None:
        self._started_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def conclude(self, outcome: str, message: str, retry: bool = True) -> None:
        """Makes the report. Later log lines are dropped."""
        report = {**packing.key_fields(self.key), "outcome": outcome, "message": cut(message, MESSAGE_BYTES)}
        if self._started_at:
            report["started_at"] = self._started_at
        if not retry:
            report["retry"] = False
        self.report = report
        self._ended = self._loop.time()

    def report_now(self) -> dict[str, Any] | None:
        """The report as it is sent now: one that comes late says how long ago the attempt ended."""
        late = round((self._loop.time() - self._ended) * 1000)
        if self.report is None or late < AT_ONCE_MS:
            return self.report
        return {**self.report, "ended_ms_ago": late}

    def stop_timers(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def say(self, line: str) -> None:
        self._in_loop(self._say, line)

    def advance(self, percent: float, note: str) -> None:
        whole = min(100, max(0, round(percent)))
        self._in_loop(self._advance, whole, cut(note, LINE_BYTES))

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            inside = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            inside = False
        if inside:
            function(*arguments)
            return
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed because the process ends.
            pass

    def _say(self, text: str) -> None:
        if self.report or self.why == "stale":
            return
        for line in text.split("\n"):
            if self._logged > LOG_ENOUGH:
                return
            line = cut(line, LINE_BYTES)
            self._logged += len(line.encode()) + 1
            self._lines.append(line)
        self._changed(self)

    def _advance(self, percent: int, note: str) -> None:
        if self.report or self.why == "stale":
            return
        self._progress = percent, note
        self._changed(self)

    def unsaid(self) -> bool:
        return bool(self._lines or self._progress or self.report)

    def take_words(self, frame_max: int) -> list[str]:
        """The messages with unsent lines and progress."""
        messages = packing.log(self.key, self._next_line, self._lines, frame_max)
        self._next_line += len(self._lines)
        self._lines.clear()
        if self._progress:
            messages.append(packing.progress(self.key, *self._progress))
            self._progress = None
        return messages
