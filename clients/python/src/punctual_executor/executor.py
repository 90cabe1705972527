"""The interface for programs: settings, handlers and hooks, and serving until it is stopped."""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .engine import Engine
from .fleet import Fleet, socket_url
from .handlers import Handlers
from .limits import CAPACITY_MAX, HANDLER_BYTES_MAX, HANDLERS_MAX
from .session import Session
from .timing import Timing
from .version import CLIENT

F = TypeVar("F", bound=Callable[..., Any])


class Executor:
    """Offers handlers to every node of a Punctual cluster.

    `discover` follows the addresses that the nodes tell of each other; without it only `urls` are used.
    `drain_timeout` is how long (in seconds) runs may go on once the executor should stop; None is for as long as they need.
    """

    def __init__(
        self,
        app: str,
        urls: Sequence[str],
        *,
        token: str | None = None,
        capacity: int = 100,
        name: str | None = None,
        discover: bool = True,
        drain_timeout: float | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.app = _checked_app(app)
        self.urls = _checked_urls(urls)
        self.name = _checked_name(name) if name is not None else _host_name()
        if not 1 <= capacity <= CAPACITY_MAX:
            raise ValueError(f"the capacity must be from 1 to {CAPACITY_MAX}")
        self.capacity = capacity
        self.instance = secrets.token_hex(8)
        self._token = token
        self._discover = discover
        self._drain_timeout = drain_timeout
        self._timing = timing or Timing()
        self._handlers = Handlers()
        self._engine: Engine | None = None

    def handler(self, name: str) -> Callable[[F], F]:
        """Registers a function of one argument, the context. A plain `def` runs in a thread."""
        if not 1 <= len(name) <= 200:
            raise ValueError("the name of a handler has 1 to 200 characters")
        if name in self._handlers.by_name:
            raise ValueError(f"there is a handler {name!r} already")

        def register(function: F) -> F:
            self._handlers.by_name[name] = function
            return function

        return register

    def before(self, hook: F) -> F:
        """Called with the context before each handler. If it raises, the run fails with that."""
        self._handlers.before.append(hook)
        return hook

    def after(self, hook: F) -> F:
        """Called with the context, the outcome and the message after each handler."""
        self._handlers.after.append(hook)
        return hook

    def on_connected(self, hook: F) -> F:
        """Called with the address after each welcome."""
        self._handlers.connected.append(hook)
        return hook

    def on_disconnected(self, hook: F) -> F:
        """Called with the address after each session that was welcomed."""
        self._handlers.disconnected.append(hook)
        return hook

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then drains. A second signal ends the runs that are left."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def asked() -> None:
            if stop.is_set() and self._engine:
                self._engine.hurry()
            stop.set()

        for one in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(one, asked)
            except NotImplementedError:
                # On Windows there is only this, and it comes in the main thread.
                signal.signal(one, lambda *_: loop.call_soon_threadsafe(asked))
        await self.serve(stop)

    async def serve(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set, then drains. If it is cancelled, it leaves at once and its runs are lost."""
        if self._engine:
            raise RuntimeError("this executor serves already")
        hello = self._hello()
        engine = self._engine = Engine(self._handlers, self.capacity, self._timing)
        fleet = Fleet(engine, self.urls, self._discover, lambda url: Session(engine, url, self._token, hello))
        try:
            fleet.start()
            await stop.wait()
            await engine.drain(self._drain_timeout)
        finally:
            await fleet.close()
            engine.abandon()
            self._engine = None

    def _hello(self) -> dict[str, Any]:
        names = list(self._handlers.by_name)
        # An empty list would mean any handler, and each of its runs would have to be refused.
        if not 1 <= len(names) <= HANDLERS_MAX:
            raise ValueError(f"there must be 1 to {HANDLERS_MAX} handlers")
        if sum(len(name.encode()) + 3 for name in names) > HANDLER_BYTES_MAX:
            raise ValueError("the names of the handlers are too long to be said in one message")
        return {
            "type": "hello",
            "version": 1,
            "app": self.app,
            "executor": self.name,
            "instance": self.instance,
            "handlers": names,
            "capacity": self.capacity,
            "client": CLIENT,
        }


def _checked_app(app: str) -> str:
    if not 1 <= len(app) <= 200 or "/" in app or any(ord(one) < 32 or 127 <= ord(one) < 160 for one in app):
        raise ValueError("an app has 1 to 200 characters, no / and no control characters")
    return app


def _checked_urls(urls: Sequence[str]) -> list[str]:
    if isinstance(urls, str) or not urls:
        raise ValueError("urls must be a list with the address of at least one node")
    for url in urls:
        socket_url(url)
    return list(urls)


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", name):
        raise ValueError("a name has 1 to 200 letters, digits, '.', '_' and '-'")
    return name


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:200] or "executor"
