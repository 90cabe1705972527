"""An executor with a handler for each way a run can go. It says what happens in lines of JSON, for tests from outside."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from typing import Any

from punctual_executor import Context, Executor, NoRetry


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def ok(context: Context) -> str:
    return "done"


async def echo(context: Context) -> str:
    return compact(context.payload)


async def size(context: Context) -> str:
    return str(len(compact(context.payload).encode()))


async def fail(context: Context) -> None:
    raise RuntimeError("it failed")


async def useless(context: Context) -> None:
    raise NoRetry("it is of no use")


async def panic(context: Context) -> None:
    raise LookupError("it broke")


async def sleep(context: Context) -> str:
    await asyncio.sleep(context.payload["ms"] / 1000)
    return "slept"


async def stubborn(context: Context) -> str:
    loop = asyncio.get_running_loop()
    until = loop.time() + context.payload["ms"] / 1000
    while (left := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            # This is what makes it stubborn.
            pass
    return "stubborn"


async def chatty(context: Context) -> str:
    for number in range(1, context.payload["lines"] + 1):
        context.log(f"line {number}")
    context.progress(50, "half")
    return "done"


async def part(context: Context) -> str:
    return f"{context.part.index}/{context.part.total}" if context.part else "no part"


async def nothing(context: Context) -> None:
    pass


def started(context: Context) -> None:
    part = {"index": context.part.index, "total": context.part.total} if context.part else None
    say(
        "start",
        handler=context.handler,
        run=context.run,
        attempt=context.attempt,
        token=context.token,
        possible_duplicate=context.possible_duplicate,
        part=part,
    )


def ended(context: Context, outcome: str, message: str) -> None:
    say("end", handler=context.handler, run=context.run, attempt=context.attempt, outcome=outcome)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", action="append", required=True)
    parser.add_argument("--app", required=True)
    parser.add_argument("--capacity", type=int, default=100)
    parser.add_argument("--name")
    parser.add_argument("--more-handlers", type=int, default=0)
    return parser.parse_args()


def build(options: argparse.Namespace) -> Executor:
    token = os.environ.get("PUNCTUAL_EXECUTOR_TOKEN")
    executor = Executor(options.app, options.url, token=token, capacity=options.capacity, name=options.name)
    for function in (ok, echo, size, fail, useless, panic, sleep, stubborn, chatty, part):
        executor.handler(function.__name__)(function)
    for number in range(options.more_handlers):
        executor.handler(f"h{number}")(nothing)
    executor.before(started)
    executor.after(ended)
    executor.on_connected(lambda url: say("connected"))
    executor.on_disconnected(lambda url: say("disconnected"))
    return executor


if __name__ == "__main__":
    build(arguments()).run()
    say("drained")
