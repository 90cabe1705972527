"""How sessions begin, break, are resumed and end."""

from __future__ import annotations

import asyncio
import http
import json
from typing import Any

from punctual_executor import Context, Executor, Timing

from .harness import LIMIT, QUICK, Case, Node, a_run, key


class Sessions(Case):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.go = asyncio.Event()
        self.started: asyncio.Queue[int] = asyncio.Queue()

    def simple(self, *nodes: Node, **options: Any) -> Executor:
        """`ok` ends at once, `wait` when it is told to."""
        executor = self.executor(*nodes, **options)

        @executor.handler("ok")
        async def ok(context: Context) -> str:
            return "done"

        @executor.handler("wait")
        async def wait(context: Context) -> str:
            self.started.put_nowait(context.run)
            await self.go.wait()
            return "waited"

        self.serve(executor)
        return executor

    async def begun(self) -> int:
        return await asyncio.wait_for(self.started.get(), LIMIT)


class Beginning(Sessions):
    async def test_hello_and_credit(self) -> None:
        node = await self.node()
        executor = self.simple(node)
        peer = await node.peer()
        hello = peer.hello
        self.assertEqual((hello["type"], hello["version"], hello["app"]), ("hello", 1, "reports"))
        self.assertEqual((hello["executor"], hello["instance"]), ("worker-7", executor.instance))
        self.assertEqual((hello["handlers"], hello["capacity"], hello["holds"]), (["ok", "wait"], 10, []))
        self.assertTrue(hello["client"].startswith("punctual-python/"))
        self.assertEqual(node.headers[0]["Authorization"], "Bearer secret")
        self.assertEqual(node.headers[0]["path"], "/api/v1/executors/connect")
        self.assertNotIn("Sec-WebSocket-Extensions", node.headers[0])
        await peer.welcome()
        self.assertEqual((await peer.expect("credit"))["more"], 10)
        self.assertEqual(len(peer.messages), 1)

    async def test_what_is_not_known_is_ignored(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.peer()
        await peer.send("weather", sunny=True)
        await peer.welcome(mood="good")
        await peer.send("weather", sunny=False)
        await peer.run(a_run(1, "ok", colour="red"))
        self.assertEqual((await peer.report())["outcome"], "succeeded")

    async def test_a_wrong_token_is_told_and_tried_again_slowly(self) -> None:
        node = await self.node()
        node.refuse = http.HTTPStatus.UNAUTHORIZED
        with self.assertLogs("punctual_executor", "ERROR") as logs:
            self.simple(node)
            first = await asyncio.wait_for(node.refused.get(), LIMIT)
            second = await asyncio.wait_for(node.refused.get(), LIMIT)
        self.assertGreaterEqual(second - first, QUICK.retry_slow * 0.99)
        self.assertIn("401", logs.output[0])
        node.refuse = None
        await node.welcomed()

    async def test_a_node_that_is_not_ready_is_tried_again_soon(self) -> None:
        node = await self.node()
        node.refuse = http.HTTPStatus.SERVICE_UNAVAILABLE
        self.simple(node, timing=Timing(retry_first=0.01, retry_most=0.05, retry_slow=1000))
        for _ in range(4):
            await asyncio.wait_for(node.refused.get(), LIMIT)
        node.refuse = None
        await node.welcomed()

    async def test_refused_is_tried_again_slowly(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.peer()
        with self.assertLogs("punctual_executor", "ERROR"):
            await peer.send("error", code="refused", reason="the token does not reach this app")
            refused = asyncio.get_running_loop().time()
            await peer.gone()
        await node.peer()
        self.assertGreaterEqual(asyncio.get_running_loop().time() - refused, QUICK.retry_slow * 0.99)

    async def test_a_node_that_does_not_answer_hello(self) -> None:
        node = await self.node()
        self.simple(node, timing=Timing(answer=0.1, retry_first=0.01, retry_most=0.05))
        await node.peer()
        await node.welcomed()


class Breaking(Sessions):
    async def test_what_is_held_is_said_and_goes_on(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        run = a_run(1, "wait")
        await peer.run(run)
        await self.begun()
        peer.break_off()
        again = await node.peer()
        self.assertEqual(again.hello["holds"], [key(run)])
        self.assertEqual(again.hello["instance"], peer.hello["instance"])
        await again.welcome()
        self.assertEqual((await again.expect("credit"))["more"], 9)
        self.go.set()
        self.assertEqual((await again.report())["message"], "waited")
        self.assertEqual(again.credits, 10)

    async def test_a_report_is_repeated_until_it_is_kept(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.run(a_run(1, "ok"))
        report = await peer.report()
        for _ in range(3):
            peer.break_off()
            peer = await node.peer()
            # Until the report is kept the node cannot know that the run arrived, unless this says so.
            self.assertEqual(peer.hello["holds"], [key(report)])
            await peer.welcome()
            first = await peer.expect("reports")
            repeated = [{**one, "ended_ms_ago": 0} for one in first["reports"]]
            self.assertEqual(repeated, [{**report, "ended_ms_ago": 0}])
            self.assertEqual(first["credits"], 10)
        await peer.keep(report)
        await peer.run(a_run(2, "ok"))
        await peer.keep(await peer.report())
        await peer.run(a_run(3, "nothing"))
        await peer.keep(await peer.report())
        await peer.send("goodbye", reason="it stops")
        peer = await node.peer()
        self.assertEqual(peer.hello["holds"], [])

    async def test_what_ends_while_there_is_no_node(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.run(a_run(1, "wait"))
        await self.begun()
        peer.break_off()
        again = await node.peer()
        self.go.set()
        await asyncio.sleep(0.2)
        # Before the welcome nothing may be sent.
        await again.welcome()
        report = await again.report()
        self.assertEqual(report["message"], "waited")
        self.assertGreaterEqual(report["ended_ms_ago"], 100)

    async def test_what_is_stale_is_ended_and_not_reported(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        run = a_run(1, "wait")
        await peer.run(run)
        await self.begun()
        peer.break_off()
        again = await node.welcomed(stale=[key(run)])
        # The place is free again when the handler was interrupted.
        while again.credits < 10:
            await again.expect("credit")
        await again.run(a_run(2, "ok"))
        await again.report()
        self.assertEqual([one["run"] for m in again.messages for one in m.get("reports", [])], [2])
        # And it must not be started by a send that is late.
        await again.run(run)
        self.assertEqual((await again.report())["outcome"], "refused")

    async def test_goodbye_of_the_node(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.run(a_run(1, "wait"))
        await self.begun()
        await peer.send("goodbye", reason="a new version")
        await peer.gone()
        again = await node.welcomed()
        self.go.set()
        self.assertEqual((await again.report())["message"], "waited")

    async def test_silence_ends_a_session(self) -> None:
        node = await self.node()
        self.simple(node)
        first = await node.welcomed(silence_ms=100)
        await node.peer()
        await first.gone()

    async def test_pings_are_no_silence(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed(silence_ms=1000)
        loop = asyncio.get_running_loop()
        until = loop.time() + 1.5
        while loop.time() < until:
            await asyncio.wait_for(await peer.socket.ping(), LIMIT)
            await asyncio.sleep(0.1)
        await peer.run(a_run(1, "ok"))
        await peer.report()

    async def test_malformed_messages_end_the_session_and_it_comes_back(self) -> None:
        node = await self.node()
        self.simple(node)
        good = a_run(1, "ok")
        for bad in (
            "{",
            "[]",
            '{"type":7}',
            b"\x00\x01",
            '{"type":"welcome"}',
            '{"type":"kept"}',
            '{"type":"runs","runs":[{"run":true}]}',
            json.dumps({"type": "runs", "runs": [{**good, "token": 2**53}]}),
            json.dumps({"type": "runs", "runs": [{**good, "fire_time": "tomorrow"}]}),
            json.dumps({"type": "runs", "runs": [{**good, "part": [0, 3]}]}),
            '{"type":"want","runs":NaN}',
            "[" * 100_000,
        ):
            with self.subTest(bad=bad[:40]):
                peer = await node.welcomed()
                await peer.expect("credit")
                await peer.socket.send(bad)
                self.assertEqual((await peer.expect("error"))["code"], "malformed")
                await peer.gone()
                self.assertEqual(peer.socket.close_code, 1008)
        peer = await node.welcomed()
        await peer.run(good)
        await peer.report()

    async def test_a_message_that_is_too_long(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.expect("credit")
        await peer.socket.send('"' + "x" * 4194304 + '"')
        await peer.gone()
        self.assertEqual(peer.socket.close_code, 1009)
        await node.welcomed()

    async def test_another_version(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed(version=2)
        self.assertEqual((await peer.expect("error"))["code"], "version")

    async def test_a_node_that_sends_more_than_it_may(self) -> None:
        node = await self.node()
        self.simple(node, capacity=2)
        peer = await node.welcomed()
        await peer.run(*(a_run(number, "wait") for number in range(1, 4)))
        report = await peer.report()
        self.assertEqual((report["run"], report["outcome"]), (3, "refused"))
        self.go.set()
        await peer.reports(2)


class Ending(Sessions):
    async def test_drain_while_busy(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.expect("credit")
        await peer.run(a_run(1, "wait"))
        await self.begun()
        self.stop.set()
        await peer.expect("drain")
        await peer.run(a_run(2, "ok"))
        refused = await peer.report()
        self.assertEqual((refused["run"], refused["outcome"]), (2, "refused"))
        await peer.keep(refused)
        self.go.set()
        last = await peer.expect("reports")
        self.assertNotIn("credits", last)
        self.assertFalse(any(one["type"] == "goodbye" for one in peer.messages))
        await peer.keep(*last["reports"])
        await peer.expect("goodbye")
        await self.served()

    async def test_drain_when_idle(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.expect("credit")
        self.stop.set()
        await peer.expect("goodbye")
        await self.served()
        self.assertEqual([one["type"] for one in peer.messages], ["credit", "drain", "goodbye"])

    async def test_drain_over_a_broken_connection(self) -> None:
        node = await self.node()
        self.simple(node)
        peer = await node.welcomed()
        await peer.run(a_run(1, "wait"))
        await self.begun()
        self.stop.set()
        await peer.expect("drain")
        peer.break_off()
        again = await node.welcomed()
        await again.expect("drain")
        self.go.set()
        await again.keep(await again.report())
        await again.expect("goodbye")
        await self.served()
        self.assertEqual(again.credits, 0)

    async def test_a_drain_has_a_limit_if_one_was_given(self) -> None:
        node = await self.node()
        self.simple(node, drain_timeout=0.05)
        peer = await node.welcomed()
        await peer.run(a_run(1, "wait"))
        await self.begun()
        self.stop.set()
        report = await peer.report()
        self.assertEqual((report["outcome"], report["message"]), ("failed", "the executor was shut down"))
        await peer.keep(report)
        await self.served()

    async def test_stop_without_a_node(self) -> None:
        node = await self.node()
        await node.stop()
        self.simple(node)
        self.stop.set()
        await self.served()
