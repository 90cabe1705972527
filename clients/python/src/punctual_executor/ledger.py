"""The attempts of this executor: those it holds, those whose reports are not kept yet, and the fencing tokens seen."""

from __future__ import annotations

from collections import deque
from itertools import chain, islice

from . import packing
from .attempt import Attempt
from .limits import HELD_MAX
from .wire import Key


class Ledger:
    def __init__(self, memory: float) -> None:
        self.held: dict[Key, Attempt] = {}
        self.unkept: dict[Key, Attempt] = {}
        self._memory = memory
        # For each run the send with the greatest token, and whether it was reported.
        self._greatest: dict[int, tuple[Key, bool]] = {}
        self._fading: deque[tuple[float, Key]] = deque()

    def judge(self, key: Key, now: float) -> str:
        """Whether a run should be started, ignored (its report follows or was sent) or refused (it is stale)."""
        self._forget(now)
        if key in self.held or key in self.unkept:
            return "ignore"
        greatest, reported = self._greatest.get(key.run, (None, False))
        if greatest is None or key.token > greatest.token:
            return "start"
        return "ignore" if greatest == key and reported else "refuse"

    def older(self, key: Key) -> Attempt | None:
        """What is still held of the same run from an earlier send."""
        greatest, _ = self._greatest.get(key.run, (None, False))
        return self.held.get(greatest) if greatest else None

    def hold(self, attempt: Attempt) -> None:
        self.held[attempt.key] = attempt
        self._note(attempt.key)

    def reported(self, attempt: Attempt) -> None:
        """The report is made. It stays until it is kept."""
        self.held.pop(attempt.key, None)
        self.unkept[attempt.key] = attempt
        self._note(attempt.key, reported=True)

    def kept(self, key: Key, now: float) -> None:
        if self.unkept.pop(key, None):
            self._fading.append((now + self._memory, key))

    def drop(self, key: Key, now: float) -> Attempt | None:
        """Forgets a run without a report. Returns what was still held."""
        attempt = self.held.pop(key, None)
        if attempt or self.unkept.pop(key, None):
            self._fading.append((now + self._memory, key))
        return attempt

    def holds(self) -> list[dict[str, int]]:
        """The `holds` of `hello`: every attempt until a node has kept its report."""
        return [packing.key_fields(key) for key in islice(chain(self.held, self.unkept), HELD_MAX)]

    def _note(self, key: Key, reported: bool = False) -> None:
        greatest, _ = self._greatest.get(key.run, (None, False))
        if greatest is None or key.token > greatest.token or key == greatest:
            self._greatest[key.run] = key, reported

    def _forget(self, now: float) -> None:
        while self._fading and self._fading[0][0] <= now:
            _, key = self._fading.popleft()
            greatest, _ = self._greatest.get(key.run, (None, False))
            if greatest == key and key not in self.held and key not in self.unkept:
                del self._greatest[key.run]
