"""The example that tests from outside use, as a process of its own: each handler, each line, and the signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from .harness import LIMIT, Case, Peer, a_run

SCENARIOS = Path(__file__).parent.parent / "examples" / "scenarios.py"


class Scenarios(Case):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.fake = await self.node()
        command = [str(SCENARIOS), "--url", self.fake.url, "--app", "e2e", "--capacity", "20", "--name", "py"]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            "--more-handlers",
            "3",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PUNCTUAL_EXECUTOR_TOKEN": "from the environment"},
        )
        self.peer = await self.fake.welcomed()

    async def asyncTearDown(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await super().asyncTearDown()

    async def line(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), LIMIT))  # type: ignore[no-any-return]

    async def ended(self, peer: Peer, handler: str, payload: Any = None, **fields: Any) -> tuple[str, str]:
        self.number = getattr(self, "number", 0) + 1
        await peer.run(a_run(self.number, handler, payload, **fields))
        report = await peer.report()
        await peer.keep(report)
        return report["outcome"], report["message"]

    async def test_the_handlers(self) -> None:
        peer = self.peer
        self.assertEqual(self.fake.headers[0]["Authorization"], "Bearer from the environment")
        self.assertEqual(peer.hello["handlers"][-3:], ["h0", "h1", "h2"])
        self.assertEqual((peer.hello["app"], peer.hello["executor"], peer.hello["capacity"]), ("e2e", "py", 20))
        self.assertEqual(await self.ended(peer, "ok"), ("succeeded", "done"))
        self.assertEqual(await self.ended(peer, "echo", {"a": [1, "é"]}), ("succeeded", '{"a":[1,"é"]}'))
        self.assertEqual(await self.ended(peer, "size", "é"), ("succeeded", "4"))
        outcome, message = await self.ended(peer, "fail")
        self.assertEqual((outcome, "it failed" in message), ("failed", True))
        self.assertEqual(await self.ended(peer, "useless"), ("failed", "it is of no use"))
        outcome, message = await self.ended(peer, "panic")
        self.assertEqual((outcome, "it broke" in message), ("failed", True))
        self.assertEqual(await self.ended(peer, "sleep", {"ms": 1}), ("succeeded", "slept"))
        self.assertEqual((await self.ended(peer, "stubborn", {"ms": 1}))[0], "succeeded")
        self.assertEqual(await self.ended(peer, "part", part={"index": 1, "total": 3}), ("succeeded", "1/3"))
        self.assertEqual(await self.ended(peer, "h2"), ("succeeded", ""))
        self.assertEqual((await self.ended(peer, "chatty", {"lines": 3}))[0], "succeeded")
        (log,) = [one for one in peer.messages if one["type"] == "log"]
        self.assertEqual(log["lines"], ["line 1", "line 2", "line 3"])
        (progress,) = [one for one in peer.messages if one["type"] == "progress"]
        self.assertEqual((progress["percent"], progress["note"]), (50, "half"))

    async def test_the_lines(self) -> None:
        self.assertEqual(await self.line(), {"event": "connected"})
        await self.peer.run(a_run(5, "part", part={"index": 0, "total": 2}, possible_duplicate=True))
        start = {"event": "start", "handler": "part", "run": 5, "attempt": 1, "token": 100, "possible_duplicate": True}
        self.assertEqual(await self.line(), {**start, "part": {"index": 0, "total": 2}})
        end = {"event": "end", "handler": "part", "run": 5, "attempt": 1, "outcome": "succeeded"}
        self.assertEqual(await self.line(), end)
        await self.peer.keep(await self.peer.report())
        self.peer.break_off()
        self.assertEqual(await self.line(), {"event": "disconnected"})
        again = await self.fake.welcomed()
        self.assertEqual(await self.line(), {"event": "connected"})
        run = a_run(6, "sleep", {"ms": 1_000_000})
        await again.run(run)
        self.assertEqual((await self.line())["part"], None)
        await again.cancel(run)
        self.assertEqual((await self.line())["outcome"], "cancelled")

    async def test_sigterm_drains(self) -> None:
        await self.line()
        await self.peer.run(a_run(1, "sleep", {"ms": 100}))
        await self.line()
        self.process.send_signal(signal.SIGTERM)
        await self.peer.expect("drain")
        report = await self.peer.report()
        self.assertEqual(report["message"], "slept")
        await self.peer.keep(report)
        await self.peer.expect("goodbye")
        self.assertEqual((await self.line())["event"], "end")
        self.assertEqual((await self.line())["event"], "disconnected")
        self.assertEqual(await self.line(), {"event": "drained"})
        self.assertEqual(await asyncio.wait_for(self.process.wait(), LIMIT), 0)

    async def test_a_second_signal_ends_the_runs(self) -> None:
        await self.line()
        await self.peer.run(a_run(1, "sleep", {"ms": 1_000_000}))
        await self.line()
        self.process.send_signal(signal.SIGTERM)
        await self.peer.expect("drain")
        self.process.send_signal(signal.SIGINT)
        report = await self.peer.report()
        self.assertEqual(report["outcome"], "failed")
        await self.peer.keep(report)
        self.assertEqual(await asyncio.wait_for(self.process.wait(), LIMIT), 0)
