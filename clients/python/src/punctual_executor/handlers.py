"""The handlers and hooks of a program, and how a handler is called: in the event loop, or in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .attempt import Attempt
from .context import Context
from .errors import Cancelled, NoRetry
from .packing import encode

logger = logging.getLogger("punctual_executor")

Function = Callable[..., Any]


@dataclass
class Handlers:
    by_name: dict[str, Function] = field(default_factory=dict)
    before: list[Function] = field(default_factory=list)
    after: list[Function] = field(default_factory=list)
    connected: list[Function] = field(default_factory=list)
    disconnected: list[Function] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    outcome: str
    message: str
    retry: bool = True


def is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def tell(hooks: list[Function], *arguments: Any) -> None:
    """Calls hooks whose errors are only logged."""
    for hook in hooks:
        try:
            hook(*arguments)
        except Exception:
            logger.exception("a hook failed")


async def perform(attempt: Attempt, handlers: Handlers) -> Result:
    """Runs the handler with its hooks. Whatever it raises becomes a result."""
    context = attempt.context
    result = await _outcome(attempt, handlers)
    for hook in handlers.after:
        try:
            outcome = attempt.report["outcome"] if attempt.report else result.outcome
            await _settled(hook(context, outcome, result.message))
        except (Exception, asyncio.CancelledError):
            logger.exception("a hook after run %s failed", context.run)
    return result


def result_of(attempt: Attempt, task: asyncio.Task[Result]) -> Result:
    """The result of a task that is done, however it ended."""
    if task.cancelled():
        return _failed(attempt, asyncio.CancelledError())
    error = task.exception()
    return _failed(attempt, error) if error else task.result()


async def _outcome(attempt: Attempt, handlers: Handlers) -> Result:
    context = attempt.context
    try:
        for hook in handlers.before:
            await _settled(hook(context))
        value, error = await _call(handlers.by_name[context.handler], context)
    except GeneratorExit:
        raise
    except BaseException as raised:
        # SystemExit too: a handler that calls `exit` must not end the other runs.
        value, error = None, raised
    return _failed(attempt, error) if error is not None else _returned(attempt, value)


async def _settled(value: Any) -> None:
    if inspect.isawaitable(value):
        await value


async def _call(function: Function, context: Context) -> tuple[Any, BaseException | None]:
    if is_async(function):
        return await function(context), None
    return await _in_thread(function, context)


async def _in_thread(function: Function, context: Context) -> tuple[Any, BaseException | None]:
    """A thread for each run, and no pool: it is a daemon, so a handler that hangs does not keep the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def body() -> None:
        value, error = None, None
        try:
            value = variables.run(function, context)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            # The loop was closed meanwhile, so the result is not needed.
            pass

    threading.Thread(target=body, name=f"punctual-run-{context.run}", daemon=True).start()
    return await done


def _returned(attempt: Attempt, value: Any) -> Result:
    if attempt.why == "timed_out":
        return Result("timed_out", "it ended after its time was over")
    try:
        return Result("succeeded", as_message(value))
    except (TypeError, ValueError, RecursionError) as error:
        # The work is done, and doing it again would end the same way.
        return Result("failed", f"its result cannot be sent: {describe(error)}", retry=False)


def _failed(attempt: Attempt, error: BaseException) -> Result:
    if attempt.why == "timed_out":
        return Result("timed_out", f"its time was over after {attempt.run.timeout} s")
    if attempt.why == "shutdown":
        return Result("failed", "the executor was shut down")
    if attempt.why is not None:
        return Result("cancelled", attempt.context.cancelled.reason or "cancelled")
    if isinstance(error, NoRetry):
        return Result("failed", str(error), retry=False)
    if isinstance(error, Cancelled):
        return Result("cancelled", describe(error))
    logger.warning("run %s of %s failed", attempt.key.run, attempt.run.handler, exc_info=error)
    return Result("failed", describe(error))


def as_message(value: Any) -> str:
    """The return value of a handler as the message of the report."""
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value)


def describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
