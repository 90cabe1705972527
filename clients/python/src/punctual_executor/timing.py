"""The timeouts of the client. The defaults are those of the protocol; tests use shorter ones."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """All in seconds."""

    retry_first: float = 0.1
    retry_most: float = 1.0
    # A wrong token or version does not become right by asking often.
    retry_slow: float = 30.0
    # For the TCP connection with its upgrade, and again for the answer to `hello`.
    answer: float = 5.0
    # How long a handler may take to end after a cancel.
    grace: float = 5.0
    # How long fencing tokens are remembered after the report was kept.
    memory: float = 600.0
    # How long a drain waits for `kept` after the last handler has ended: by then the node has given the attempts up.
    kept: float = 10.0


class Backoff:
    """The pauses between attempts to connect: doubling, with jitter."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.step = timing.retry_first

    def reset(self) -> None:
        self.step = self.timing.retry_first

    def next(self) -> float:
        step, self.step = self.step, min(self.step * 2, self.timing.retry_most)
        return step * random.uniform(0.5, 1.0)

    def slow(self) -> float:
        return self.timing.retry_slow * random.uniform(1.0, 1.25)
