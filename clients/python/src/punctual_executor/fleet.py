"""The nodes that this executor knows, and the session that it keeps with each of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from websockets.exceptions import InvalidStatus, WebSocketException

from .engine import Engine
from .session import NodeError, Session
from .timing import Backoff
from .wire import Malformed

logger = logging.getLogger("punctual_executor")

SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
REFUSALS = {
    400: "it does not take this for a WebSocket",
    401: "no token, or a wrong one",
    403: "the token does not reach this app",
    429: "too many wrong tokens",
}


def socket_url(url: str) -> str:
    """The address of a node as a WebSocket address, always written in the same way."""
    parts = urlsplit(url.strip())
    if parts.scheme.lower() not in SCHEMES or not parts.hostname:
        raise ValueError(f"{url!r} is not the address of a node")
    # Reading the port is what checks it.
    _ = parts.port
    return f"{SCHEMES[parts.scheme.lower()]}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


class Link:
    """One address. `node` is the name of the node that was last found there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.node: str | None = None
        self.session: Session | None = None
        self.told: list[str] = []
        self.trouble = ""
        self.task: asyncio.Task[None] | None = None


class Fleet:
    def __init__(self, engine: Engine, urls: list[str], discover: bool, make: Callable[[str], Session]) -> None:
        self.engine = engine
        self.configured = [socket_url(url) for url in urls]
        self.discover = discover
        self.make = make
        self.links: dict[str, Link] = {}
        self.closing = False
        engine.known = self._known

    def start(self) -> None:
        self._follow()

    async def close(self) -> None:
        """Says goodbye to every node, and stops."""
        self.closing = True
        tasks = [link.task for link in self.links.values() if link.task]
        for link in self.links.values():
            if link.session and link.session in self.engine.sessions:
                link.session.leave()
            elif link.task:
                link.task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self) -> int:
        """Nodes, not addresses: those that turned out to be the same node count once."""
        return len({link.node or link.url for link in self.links.values()})

    def _wanted(self) -> set[str]:
        told = {url for link in self.links.values() for url in link.told}
        return {*self.configured, *told}

    def _follow(self) -> None:
        if self.closing:
            return
        for url in self._wanted() - self.links.keys():
            link = self.links[url] = Link(url)
            link.task = asyncio.create_task(self._keep(link))

    def _heard(self, link: Link, session: Session, nodes: list[str]) -> None:
        """A node sent its name, or the list of nodes."""
        link.node, link.session, link.trouble = session.node, session, ""
        for other in self.links.values():
            # Two addresses of one node: with our hello it has ended the session on the other.
            if other is not link and other.node == link.node and other.session in self.engine.sessions:
                assert other.session is not None
                other.session.abort()
        # If there is only one node it is this one, by whatever name.
        link.told = self._usable(nodes) if self.discover and len(nodes) > 1 else []
        self._follow()

    def _usable(self, nodes: list[str]) -> list[str]:
        secure = all(url.startswith("wss:") for url in self.configured)
        usable = []
        for one in nodes:
            try:
                url = socket_url(one)
            except ValueError as error:
                logger.warning("a node told of an address that is none: %s", error)
                continue
            # The token of an encrypted connection is not sent over a plain one.
            if url.startswith("wss:") or not secure:
                usable.append(url)
        return usable

    async def _keep(self, link: Link) -> None:
        """Keeps a session with the address for as long as it is wanted."""
        backoff = Backoff(self.engine.timing)
        while not self.closing and link.url in self._wanted():
            await self._elsewhere(link)
            began = asyncio.get_running_loop().time()
            delay = await self._session(link, backoff)
            # The backoff starts anew only after a session that lasted.
            if asyncio.get_running_loop().time() - began > self.engine.timing.retry_most:
                backoff.reset()
            if not self.closing:
                await asyncio.sleep(backoff.next() if delay is None else delay)
        self.links.pop(link.url, None)
        self.engine.deal()

    async def _elsewhere(self, link: Link) -> None:
        """Waits while the node of this address is reached by another one. A second session would end the first."""
        while True:
            others = (one.session for one in self.links.values() if one is not link and one.node == link.node)
            live = [one for one in others if one and one in self.engine.sessions] if link.node else []
            if not live:
                return
            await live[0].ended.wait()

    async def _session(self, link: Link, backoff: Backoff) -> float | None:
        """One session. Returns the wait before the next one, if it is not the usual one."""
        session = self.make(link.url)
        session.on_nodes = lambda one, nodes: self._heard(link, one, nodes)
        try:
            await session.run()
        except InvalidStatus as error:
            status = error.response.status_code
            if status in REFUSALS:
                self._tell(link, f"{status}: {REFUSALS[status]}", logging.ERROR)
                return backoff.slow()
            self._tell(link, f"it answered {status}")
        except NodeError as error:
            hopeless = error.code in ("version", "refused")
            self._tell(link, str(error), logging.ERROR if hopeless else logging.WARNING)
            return backoff.slow() if hopeless else None
        except Malformed as error:
            self._tell(link, f"it broke the protocol: {error.reason}")
            return backoff.slow() if error.code == "version" else None
        except (OSError, WebSocketException, TimeoutError, asyncio.TimeoutError) as error:
            self._tell(link, f"{type(error).__name__}: {error}")
        except Exception:
            # A bug in this client. The runs go on, and the next session may work.
            logger.exception("the session with %s failed", link.url)
        return None

    def _tell(self, link: Link, trouble: str, level: int = logging.WARNING) -> None:
        """Logs a problem, once for as long as it stays the same."""
        if self.closing:
            return
        logger.log(level if trouble != link.trouble else logging.DEBUG, "node at %s: %s", link.url, trouble)
        link.trouble = trouble
