"""The core of the executor: takes runs from nodes, runs handlers, and sends reports and credits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import packing, wire
from .attempt import Attempt
from .handlers import Handlers, Result, is_async, perform, result_of
from .ledger import Ledger
from .limits import HELD_MAX
from .sharing import Account, deal
from .timing import Timing
from .wire import Key, Run

if TYPE_CHECKING:
    from .session import Session

logger = logging.getLogger("punctual_executor")


class Engine:
    def __init__(self, handlers: Handlers, capacity: int, timing: Timing) -> None:
        self.handlers = handlers
        self.capacity = min(capacity, HELD_MAX)
        self.timing = timing
        self.ledger = Ledger(timing.memory)
        self.sessions: list[Session] = []
        self.draining = False
        # The number of nodes, including those that cannot be reached, from the fleet.
        self.known: Callable[[], int] = lambda: len(self.sessions)
        # Every attempt whose handler has not ended, also if it is already reported or stale.
        self._busy: set[Attempt] = set()
        self._accounts: dict[str, Account] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    # Sessions

    def opened(self, session: Session, stale: list[Key]) -> None:
        """After a welcome: repeats every report that was not kept, and gives credits."""
        for other in [one for one in self.sessions if one.node == session.node]:
            # The node ended the other session when it received this hello.
            self.closed(other)
        for key in stale:
            self._forget(key)
        session.account = self._account(session)
        self.sessions.append(session)
        for attempt in [*self.ledger.held.values(), *self.ledger.unkept.values()]:
            if attempt.report or attempt.unsaid() and attempt.via is None:
                self._post_to(session, attempt)
        self.deal()
        session.wake.set()

    def closed(self, session: Session) -> None:
        """Its credits are void, and its unsent reports go to another session, or wait for one."""
        if session not in self.sessions:
            return
        self.sessions.remove(session)
        session.account.granted = 0
        for attempt in [*self.ledger.held.values(), *self.ledger.unkept.values()]:
            if attempt.via is session:
                attempt.via = None
                if attempt.unsaid():
                    self._post(attempt)
        self.deal()

    def _account(self, session: Session) -> Account:
        """Running attempts outlive the session; credits and `want` do not."""
        account = self._accounts.setdefault(session.node or "", Account())
        account.granted = account.wanted = 0
        return account

    # Messages

    def receive(self, session: Session, message: wire.Message) -> None:
        if isinstance(message, wire.Runs):
            self._take(session, message.runs)
        elif isinstance(message, wire.Kept):
            for key in message.keys:
                self.ledger.kept(key, self._loop.time())
            self._changed.set()
        elif isinstance(message, wire.Cancel):
            for key, reason in message.runs:
                if attempt := self.ledger.held.get(key):
                    self._interrupt(attempt, "cancelled", reason)
        elif isinstance(message, wire.Want):
            session.account.wanted = message.runs
            self.deal()

    def _take(self, session: Session, runs: list[Run]) -> None:
        if session not in self.sessions:
            # Another session with this node has replaced it, and the node knows that these runs did not arrive.
            return
        account = session.account
        account.granted = max(0, account.granted - len(runs))
        for run in runs:
            self._consider(session, run)
        self.deal()

    def _consider(self, session: Session, run: Run) -> None:
        verdict = self.ledger.judge(run.key, self._loop.time())
        if verdict == "ignore":
            return
        attempt = Attempt(run, session, self._post)
        reason = self._refusal(run, verdict)
        if reason:
            attempt.conclude("refused", reason)
            self._report(attempt)
        else:
            self._start(attempt)

    def _refusal(self, run: Run, verdict: str) -> str | None:
        if verdict == "refuse":
            return "stale token"
        if self.draining:
            return "the executor is shutting down"
        if run.handler not in self.handlers.by_name:
            return f"no handler {run.handler!r} here"
        if len(self._busy) >= self.capacity:
            return "more runs than credits"
        return None

    # Runs

    def _start(self, attempt: Attempt) -> None:
        # A later send of a run that is still here: the node has given the earlier one up.
        if older := self.ledger.older(attempt.key):
            self._forget(older.key)
        self.ledger.hold(attempt)
        self._busy.add(attempt)
        attempt.home.account.running += 1
        attempt.begin()
        if attempt.run.timeout is not None:
            timer = self._loop.call_later(attempt.run.timeout, self._interrupt, attempt, "timed_out", "its time is over")
            attempt.timers.append(timer)
        attempt.task = self._loop.create_task(perform(attempt, self.handlers))
        # A task that is cancelled before its first step runs nothing of its own, only this.
        attempt.task.add_done_callback(lambda task: self._ended(attempt, result_of(attempt, task)))

    def _ended(self, attempt: Attempt, result: Result) -> None:
        attempt.stop_timers()
        self._busy.discard(attempt)
        attempt.home.account.running -= 1
        if attempt.key in self.ledger.held:
            attempt.conclude(result.outcome, result.message, result.retry)
            self._report(attempt)
        self.deal()

    def _interrupt(self, attempt: Attempt, why: str, reason: str) -> None:
        """Asks a handler to end. If it does not, its report is made without it; the place it takes stays taken."""
        if attempt.why is not None or attempt not in self._busy:
            return
        attempt.why = why
        attempt.stop_timers()
        attempt.timers.append(self._loop.call_later(self.timing.grace, self._give_up, attempt))
        attempt.context.cancelled.set(reason)
        # A thread cannot be interrupted; it has to look at `context.cancelled`.
        if attempt.task and is_async(self.handlers.by_name[attempt.run.handler]):
            attempt.task.cancel()

    def _give_up(self, attempt: Attempt) -> None:
        if attempt.key not in self.ledger.held:
            return
        outcome = "failed" if attempt.why == "shutdown" else attempt.why or "cancelled"
        reason = attempt.context.cancelled.reason
        attempt.conclude(outcome, f"{reason}; it did not end within {self.timing.grace:g} s")
        self._report(attempt)

    def _forget(self, key: Key) -> None:
        """Ends a run without a report."""
        attempt = self.ledger.drop(key, self._loop.time())
        if attempt:
            self._interrupt(attempt, "stale", "it is over")
        self._changed.set()

    # What goes out

    def _report(self, attempt: Attempt) -> None:
        self.ledger.reported(attempt)
        self._post(attempt)
        self._changed.set()

    def _post(self, attempt: Attempt) -> None:
        """Passes it to the session of its node, else to any; without a session it waits for a welcome."""
        for session in self.sessions:
            if session.node == attempt.home.node:
                return self._post_to(session, attempt)
        if self.sessions:
            self._post_to(self.sessions[0], attempt)

    def _post_to(self, session: Session, attempt: Attempt) -> None:
        attempt.via = session
        session.outbox[attempt.key] = attempt
        session.wake.set()

    def gather(self, session: Session) -> list[str]:
        """All unsent messages in order: logs, then reports with the new credits."""
        attempts = list(session.outbox.values())
        session.outbox.clear()
        words = [text for one in attempts for text in one.take_words(session.frame_max)]
        unkept = [one for one in attempts if one.key in self.ledger.unkept]
        ready = [report for one in unkept if (report := one.report_now())]
        credits, session.credits = session.credits, 0
        return words + packing.reports(ready, credits, session.frame_max) + self._drain_once(session)

    def _drain_once(self, session: Session) -> list[str]:
        if not self.draining or session.drained:
            return []
        session.drained = True
        return [packing.encode({"type": "drain"})]

    def deal(self) -> None:
        """Distributes the free credits. They count as given from now on."""
        if self.draining:
            return
        accounts = [session.account for session in self.sessions]
        free = self.capacity - len(self._busy) - sum(one.granted for one in accounts)
        for session, gift in zip(self.sessions, deal(self.capacity, free, accounts, self.known())):
            if gift:
                session.account.granted += gift
                session.account.wanted = max(0, session.account.wanted - gift)
                session.credits += gift
                session.wake.set()

    # The end

    async def drain(self, limit: float | None) -> None:
        """Takes no more runs, ends the running ones, and waits until their reports are kept."""
        self.draining = True
        for session in self.sessions:
            session.credits = 0
            session.wake.set()
        if not await self._wait(lambda: not self.ledger.held, limit):
            self.hurry()
            await self._wait(lambda: not self.ledger.held, self.timing.grace + 1)
        if not await self._wait(lambda: not self.ledger.unkept, self.timing.kept):
            logger.error("%d reports were not kept by any node", len(self.ledger.unkept))

    def hurry(self) -> None:
        """Ends every run now."""
        for attempt in list(self.ledger.held.values()):
            self._interrupt(attempt, "shutdown", "the executor is shut down")

    def abandon(self) -> None:
        """Abandons handlers that still run when everything else has ended."""
        for attempt in self._busy:
            attempt.stop_timers()
            attempt.context.cancelled.set("the executor is gone")
            if attempt.task:
                attempt.task.cancel()

    async def _wait(self, done: Callable[[], bool], limit: float | None) -> bool:
        over = False

        def expire() -> None:
            nonlocal over
            over = True
            self._changed.set()

        timer = self._loop.call_later(limit, expire) if limit is not None else None
        while not done() and not over:
            self._changed.clear()
            await self._changed.wait()
        if timer:
            timer.cancel()
        return done()
