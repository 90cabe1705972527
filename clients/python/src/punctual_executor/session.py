"""One session with one node, from `hello` until the socket is closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from . import packing, wire
from .attempt import Attempt
from .engine import Engine
from .handlers import tell
from .limits import FRAME_MAX
from .sharing import Account
from .wire import Key

logger = logging.getLogger("punctual_executor")

PATH = "/api/v1/executors/connect"


class NodeError(Exception):
    """The node ended the session with an `error` or a `goodbye`."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(f"{reason} ({code})" if code else reason)
        self.code = code


class Hearing(ClientConnection):
    """Notes when any frame was received, including pings, which the library answers itself."""

    heard = 0.0

    def data_received(self, data: bytes) -> None:
        self.heard = self.loop.time()
        super().data_received(data)


class Session:
    def __init__(self, engine: Engine, url: str, token: str | None, hello: dict[str, Any]) -> None:
        self.engine = engine
        self.url = url
        self.node: str | None = None
        self.frame_max = FRAME_MAX
        self.account = Account()
        # Credits that are given but not sent yet.
        self.credits = 0
        self.outbox: dict[Key, Attempt] = {}
        self.wake = asyncio.Event()
        self.drained = False
        self.leaving = False
        self.ended = asyncio.Event()
        # Told of the welcome before credits are given, and of later lists of nodes.
        self.on_nodes: Callable[[Session, list[str]], None] = lambda session, nodes: None
        self._token = token
        self._hello = hello
        self._silence = 0.0
        self._socket: Hearing | None = None

    async def run(self) -> None:
        """Raises the reason of the end; returns if this side ended the session."""
        socket = self._socket = await self._connect()
        tasks: list[asyncio.Task[None]] = []
        try:
            await socket.send(self._first())
            self._open(await self._welcome(socket))
            tasks = [asyncio.create_task(self._write(socket)), asyncio.create_task(self._watch(socket))]
            await self._read(socket)
        except wire.Malformed as error:
            await self._say_error(socket, error)
            raise
        finally:
            for task in tasks:
                task.cancel()
            self._close()
            # A peer that hangs must not delay the next session.
            await self._shut(socket)

    async def _connect(self) -> Hearing:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else None
        return await connect(  # type: ignore[return-value]
            self.url + PATH,
            additional_headers=headers,
            create_connection=Hearing,
            # The protocol has no extensions; the node sends the pings; executors are inside the network.
            compression=None,
            ping_interval=None,
            proxy=None,
            open_timeout=self.engine.timing.answer,
            close_timeout=1,
            max_size=FRAME_MAX,
        )

    def _first(self) -> str:
        return packing.encode({**self._hello, "holds": self.engine.ledger.holds()})

    async def _welcome(self, socket: Hearing) -> wire.Welcome:
        # Not wait_for: before Python 3.12 it may lose a cancellation that comes together with the answer.
        limit = socket.loop.call_later(self.engine.timing.answer, socket.transport.abort)
        try:
            while True:
                message = wire.parse(await socket.recv())
                if isinstance(message, wire.Welcome):
                    return message
                self._check_end(message)
                if message is not None:
                    raise wire.Malformed("the first message is not a welcome")
        finally:
            limit.cancel()

    def _open(self, welcome: wire.Welcome) -> None:
        self.node = welcome.node
        self.frame_max = min(welcome.frame_max, FRAME_MAX)
        self._silence = welcome.silence
        self.on_nodes(self, welcome.nodes)
        self.engine.opened(self, welcome.stale)
        logger.info("connected with node %s at %s", self.node, self.url)
        tell(self.engine.handlers.connected, self.url)

    def _close(self) -> None:
        self.ended.set()
        if self.node is not None:
            self.engine.closed(self)
            tell(self.engine.handlers.disconnected, self.url)

    async def _read(self, socket: Hearing) -> None:
        try:
            while True:
                message = wire.parse(await socket.recv())
                self._check_end(message)
                if isinstance(message, wire.Welcome):
                    raise wire.Malformed("a second welcome")
                if isinstance(message, wire.Nodes):
                    self.on_nodes(self, message.nodes)
                elif message is not None:
                    self.engine.receive(self, message)
        except ConnectionClosed:
            if not self.leaving:
                raise

    @staticmethod
    def _check_end(message: wire.Message | None) -> None:
        if isinstance(message, wire.Failure):
            raise NodeError(message.reason, message.code or "error")
        if isinstance(message, wire.Goodbye):
            raise NodeError(f"the node says goodbye: {message.reason}")

    async def _write(self, socket: Hearing) -> None:
        try:
            while not self.leaving:
                await self.wake.wait()
                # Attempts that end in the same turn of the loop share a message.
                await asyncio.sleep(0)
                self.wake.clear()
                for text in self.engine.gather(self):
                    await socket.send(text)
            await socket.send(packing.encode({"type": "goodbye"}))
            await socket.close()
        except ConnectionClosed:
            # The reader ends the session, after it has read what came before.
            pass
        except Exception:
            logger.exception("writing to %s failed", self.url)
            socket.transport.abort()

    async def _watch(self, socket: Hearing) -> None:
        loop = asyncio.get_running_loop()
        while True:
            left = socket.heard + self._silence - loop.time()
            if left > 0:
                await asyncio.sleep(left)
                continue
            # If something held up the loop, the node's pings wait in the socket: they are read first.
            heard = socket.heard
            await asyncio.sleep(min(0.05, self._silence))
            if socket.heard == heard:
                logger.warning("nothing was heard from %s for %g s", self.url, self._silence)
                socket.transport.abort()
                return

    def leave(self) -> None:
        """Says goodbye and closes."""
        self.leaving = True
        self.wake.set()

    def abort(self) -> None:
        """Ends the session without a goodbye, because the node has ended it already."""
        if self._socket:
            self._socket.transport.abort()

    async def _say_error(self, socket: Hearing, error: wire.Malformed) -> None:
        fields = {"type": "error", "reason": error.reason[:1000], "code": error.code}
        try:
            await asyncio.wait_for(socket.send(packing.encode(fields)), 1)
            await socket.close(1008, error.code)
        except (ConnectionClosed, OSError, TimeoutError, asyncio.TimeoutError):
            pass

    @staticmethod
    async def _shut(socket: Hearing) -> None:
        try:
            await socket.close()
        finally:
            socket.transport.abort()
