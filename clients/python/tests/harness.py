"""A small node for tests, an executor to go with it, and a limit on how long anything may take."""

from __future__ import annotations

import asyncio
import http
import json
import logging
import unittest
from typing import Any

from punctual_executor import Executor, Timing
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

LIMIT = 20
QUICK = Timing(retry_first=0.01, retry_most=0.05, retry_slow=0.3, grace=0.2, kept=5)


class Peer:
    """One session, as the node sees it."""

    def __init__(self, node: Node, socket: ServerConnection, hello: dict[str, Any]) -> None:
        self.node = node
        self.socket = socket
        self.hello = hello
        self.credits = 0
        self.reported = 0
        self.messages: list[dict[str, Any]] = []
        self.inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def read(self) -> None:
        try:
            async for text in self.socket:
                self.note(json.loads(text))
        except ConnectionClosed:
            pass
        self.inbox.put_nowait(None)

    def note(self, message: dict[str, Any]) -> None:
        self.credits += message.get("more", 0) + message.get("credits", 0)
        self.reported += len(message.get("reports", []))
        self.messages.append(message)
        self.inbox.put_nowait(message)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def welcome(self, **fields: Any) -> None:
        usual = {"version": 1, "node": self.node.name, "ping_ms": 2000, "silence_ms": 60_000, "resume_ms": 3000}
        await self.send("welcome", **{**usual, "frame_max": 4194304, "nodes": [], "stale": [], **fields})

    async def run(self, *runs: dict[str, Any]) -> None:
        self.credits -= len(runs)
        await self.send("runs", runs=list(runs))

    async def keep(self, *reports: dict[str, Any]) -> None:
        await self.send("kept", reports=[key(one) for one in reports])

    async def cancel(self, run: dict[str, Any], reason: str = "asked by alice") -> None:
        await self.send("cancel", runs=[{**key(run), "reason": reason}])

    async def expect(self, kind: str) -> dict[str, Any]:
        """The next message of that type; what comes before it stays in `messages`."""
        while True:
            message = await asyncio.wait_for(self.inbox.get(), LIMIT)
            if message is None:
                raise AssertionError(f"the session ended before {kind}; it had {self.messages[-5:]}")
            if message["type"] == kind:
                return message

    async def reports(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += (await self.expect("reports"))["reports"]
        return found

    async def report(self) -> dict[str, Any]:
        (only,) = await self.reports(1)
        return only

    async def gone(self) -> None:
        """Waits until the executor has closed the session."""
        await asyncio.wait_for(self.socket.wait_closed(), LIMIT)

    def break_off(self) -> None:
        """As when a cable is cut."""
        self.socket.transport.abort()


class Node:
    def __init__(self, name: str = "n1") -> None:
        self.name = name
        self.peers: asyncio.Queue[Peer] = asyncio.Queue()
        self.refuse: http.HTTPStatus | None = None
        self.refused: asyncio.Queue[float] = asyncio.Queue()
        self.headers: list[dict[str, str]] = []

    async def start(self, port: int = 0) -> Node:
        self.server = await serve(
            self._session, "127.0.0.1", port, process_request=self._check, ping_interval=None, max_size=4 * 1024 * 1024
        )
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def stop(self) -> None:
        self.server.close()
        await self.server.wait_closed()

    def _check(self, socket: ServerConnection, request: Any) -> Any:
        self.headers.append({**dict(request.headers.raw_items()), "path": request.path})
        if self.refuse:
            self.refused.put_nowait(asyncio.get_running_loop().time())
            return socket.respond(self.refuse, "no\n")
        return None

    async def _session(self, socket: ServerConnection) -> None:
        try:
            hello = json.loads(await socket.recv())
        except ConnectionClosed:
            return
        peer = Peer(self, socket, hello)
        self.peers.put_nowait(peer)
        await peer.read()

    async def peer(self) -> Peer:
        return await asyncio.wait_for(self.peers.get(), LIMIT)

    async def welcomed(self, **fields: Any) -> Peer:
        peer = await self.peer()
        await peer.welcome(**fields)
        return peer


def key(of: dict[str, Any]) -> dict[str, int]:
    return {"run": of["run"], "attempt": of["attempt"], "token": of["token"]}


def a_run(run: int, handler: str, payload: Any = None, **fields: Any) -> dict[str, Any]:
    usual = {"run": run, "job": 17, "name": "a-job", "handler": handler, "fire_time": "2026-11-15T09:00:00.000Z"}
    return {**usual, "attempt": 1, "token": 100, "timeout_ms": 60_000, "payload": payload, **fields}


class Case(unittest.IsolatedAsyncioTestCase):
    """Starts nodes and an executor, and takes them down again."""

    async def asyncSetUp(self) -> None:
        logging.getLogger("punctual_executor").addHandler(logging.NullHandler())
        logging.getLogger("punctual_executor").propagate = False
        # In debug mode asyncio complains of slow steps, and large messages are slow.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        self.stop = asyncio.Event()
        self.serving: asyncio.Task[None] | None = None

    async def asyncTearDown(self) -> None:
        if self.serving:
            self.serving.cancel()
            await asyncio.gather(self.serving, return_exceptions=True)

    async def node(self, name: str = "n1") -> Node:
        node = await Node(name).start()
        self.addAsyncCleanup(node.stop)
        return node

    def executor(self, *nodes: Node, **options: Any) -> Executor:
        settings = {"timing": QUICK, "name": "worker-7", "token": "secret", "capacity": 10, **options}
        return Executor("reports", [node.url for node in nodes], **settings)

    def serve(self, executor: Executor) -> None:
        self.serving = asyncio.create_task(executor.serve(self.stop))

    async def served(self) -> None:
        """Waits until the executor has drained."""
        assert self.serving
        await asyncio.wait_for(self.serving, LIMIT)
