"""How runs go: what handlers are given, what they return or raise, and what the node is told."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone
from typing import Any

from punctual_executor import Cancelled, Context, NoRetry

from .harness import Case, Peer, a_run


class Runs(Case):
    async def start(self, handlers: dict[str, Any], **options: Any) -> Peer:
        node = await self.node()
        executor = self.executor(node, **options)
        for name, function in handlers.items():
            executor.handler(name)(function)
        self.configure(executor)
        self.serve(executor)
        return await node.welcomed()

    def configure(self, executor: Any) -> None:
        pass

    async def outcome_of(self, function: Any, payload: Any = None, **fields: Any) -> dict[str, Any]:
        peer = await self.start({"it": function})
        await peer.run(a_run(1, "it", payload, **fields))
        return await peer.report()


class Outcomes(Runs):
    async def test_a_text_is_the_message(self) -> None:
        async def it(context: Context) -> str:
            return "42 rows"

        report = await self.outcome_of(it)
        self.assertEqual((report["outcome"], report["message"]), ("succeeded", "42 rows"))
        self.assertRegex(report["started_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertNotIn("retry", report)

    async def test_none_is_an_empty_message(self) -> None:
        async def it(context: Context) -> None:
            pass

        self.assertEqual((await self.outcome_of(it))["message"], "")

    async def test_anything_else_is_compact_json(self) -> None:
        async def it(context: Context) -> Any:
            return {"rows": [1, 2], "é": None}

        self.assertEqual((await self.outcome_of(it))["message"], '{"rows":[1,2],"é":null}')

    async def test_a_result_that_is_no_json(self) -> None:
        async def it(context: Context) -> Any:
            return object()

        report = await self.outcome_of(it)
        self.assertEqual((report["outcome"], report["retry"]), ("failed", False))

    async def test_a_plain_function_runs_in_a_thread(self) -> None:
        def it(context: Context) -> str:
            context.log("from a thread")
            return threading.current_thread().name

        report = await self.outcome_of(it)
        self.assertEqual(report["message"], "punctual-run-1")

    async def test_an_exception_fails_the_run(self) -> None:
        async def it(context: Context) -> None:
            raise KeyError("day")

        report = await self.outcome_of(it)
        self.assertEqual((report["outcome"], report["message"]), ("failed", "KeyError: 'day'"))
        self.assertNotIn("retry", report)

    async def test_an_exception_in_a_thread(self) -> None:
        def it(context: Context) -> None:
            raise StopIteration("odd")

        self.assertEqual((await self.outcome_of(it))["message"], "StopIteration: odd")

    async def test_leaving_the_process_only_fails_the_run(self) -> None:
        async def it(context: Context) -> None:
            raise SystemExit(3)

        self.assertEqual((await self.outcome_of(it))["message"], "SystemExit: 3")

    async def test_no_retry(self) -> None:
        async def it(context: Context) -> None:
            raise NoRetry("it is of no use")

        report = await self.outcome_of(it)
        self.assertEqual((report["outcome"], report["message"], report["retry"]), ("failed", "it is of no use", False))

    async def test_a_handler_that_is_not_there_is_refused(self) -> None:
        async def other(context: Context) -> None:
            pass

        peer = await self.start({"other": other})
        await peer.run(a_run(1, "it"))
        report = await peer.report()
        self.assertEqual(report["outcome"], "refused")
        self.assertIn("it", report["message"])
        self.assertNotIn("started_at", report)

    async def test_a_long_message_is_cut(self) -> None:
        async def it(context: Context) -> str:
            return "é" * 100_000 + "\ud800"

        self.assertEqual(len((await self.outcome_of(it))["message"].encode()), 65536)

    async def test_a_large_payload(self) -> None:
        async def it(context: Context) -> int:
            return len(context.payload)

        self.assertEqual((await self.outcome_of(it, "x" * 1024 * 1024))["message"], "1048576")


class ContextOfRuns(Runs):
    async def test_it_has_everything(self) -> None:
        seen: list[Context] = []

        async def it(context: Context) -> None:
            seen.append(context)

        await self.outcome_of(it, {"day": 1}, possible_duplicate=True, part={"index": 0, "total": 3}, timeout_ms=1500)
        context = seen[0]
        self.assertEqual((context.run, context.job, context.job_name, context.handler), (1, 17, "a-job", "it"))
        self.assertEqual((context.attempt, context.token, context.payload), (1, 100, {"day": 1}))
        self.assertEqual(context.fire_time, datetime(2026, 11, 15, 9, tzinfo=timezone.utc))
        assert context.part
        self.assertEqual((context.part.index, context.part.total), (0, 3))
        self.assertEqual((context.possible_duplicate, context.timeout), (True, 1.5))

    async def test_what_is_left_out(self) -> None:
        seen: list[Context] = []

        async def it(context: Context) -> None:
            seen.append(context)

        peer = await self.start({"it": it})
        run = a_run(1, "it")
        del run["payload"]
        await peer.run(run)
        await peer.report()
        self.assertEqual((seen[0].payload, seen[0].part, seen[0].possible_duplicate), (None, None, False))

    async def test_lines_are_numbered_and_come_before_the_report(self) -> None:
        go = asyncio.Event()

        async def it(context: Context) -> None:
            context.log("one\ntwo")
            await go.wait()
            context.log("three")
            context.progress(40.4, "42 of 105")

        peer = await self.start({"it": it})
        await peer.run(a_run(1, "it"))
        first = await peer.expect("log")
        self.assertEqual((first["from"], first["lines"]), (1, ["one", "two"]))
        go.set()
        await peer.report()
        kinds = [one["type"] for one in peer.messages if one["type"] != "credit"]
        self.assertEqual(kinds, ["log", "log", "progress", "reports"])
        second, progress = [one for one in peer.messages if one["type"] in ("log", "progress")][1:]
        self.assertEqual((second["from"], second["lines"]), (3, ["three"]))
        self.assertEqual((progress["percent"], progress["note"]), (40, "42 of 105"))

    async def test_a_log_that_is_too_long_for_a_message_is_split(self) -> None:
        async def it(context: Context) -> None:
            for number in range(25_000):
                context.log(f"line {number + 1}")
            for _ in range(200):
                context.log("\x01" * 20_000)

        peer = await self.start({"it": it})
        await peer.run(a_run(1, "it"))
        await peer.report()
        logs = [one for one in peer.messages if one["type"] == "log"]
        following = 1
        for log in logs:
            self.assertEqual(log["from"], following)
            self.assertLessEqual(len(log["lines"]), 10_000)
            self.assertLessEqual(max(len(line) for line in log["lines"]), 16384)
            following += len(log["lines"])
        self.assertEqual(logs[0]["lines"][0], "line 1")
        self.assertGreater(following, 25_000)

    async def test_a_log_beyond_what_the_node_keeps_is_not_sent(self) -> None:
        async def it(context: Context) -> None:
            for _ in range(1000):
                context.log("x" * 16384)

        peer = await self.start({"it": it})
        await peer.run(a_run(1, "it"))
        await peer.report()
        total = sum(len(line) for one in peer.messages if one["type"] == "log" for line in one["lines"])
        self.assertGreater(total, 4 * 1024 * 1024)
        self.assertLess(total, 6 * 1024 * 1024)


class Hooks(Runs):
    def configure(self, executor: Any) -> None:
        self.calls: list[Any] = []

        @executor.before
        async def before(context: Context) -> None:
            self.calls.append(("before", context.run))
            if context.payload == "stop":
                raise PermissionError("not today")

        @executor.after
        def after(context: Context, outcome: str, message: str) -> None:
            self.calls.append(("after", context.run, outcome, message))
            raise ValueError("a hook that fails changes nothing")

    async def test_they_surround_the_handler(self) -> None:
        async def it(context: Context) -> str:
            self.calls.append("it")
            return "done"

        report = await self.outcome_of(it)
        self.assertEqual(self.calls, [("before", 1), "it", ("after", 1, "succeeded", "done")])
        self.assertEqual(report["outcome"], "succeeded")

    async def test_one_that_raises_before_fails_the_run(self) -> None:
        async def it(context: Context) -> str:
            raise AssertionError("it must not be called")

        report = await self.outcome_of(it, "stop")
        self.assertEqual((report["outcome"], report["message"]), ("failed", "PermissionError: not today"))


class Ends(Runs):
    async def test_a_timeout_interrupts_an_async_handler(self) -> None:
        async def it(context: Context) -> None:
            await asyncio.Event().wait()

        report = await self.outcome_of(it, timeout_ms=30)
        self.assertEqual(report["outcome"], "timed_out")

    async def test_a_timeout_of_a_thread_that_does_not_look(self) -> None:
        free = threading.Event()
        self.addCleanup(free.set)

        def it(context: Context) -> None:
            free.wait()

        report = await self.outcome_of(it, timeout_ms=30)
        self.assertEqual(report["outcome"], "timed_out")

    async def begun(self, function: Any) -> tuple[Peer, dict[str, Any]]:
        peer = await self.start({"it": function})
        run = a_run(1, "it")
        await peer.run(run)
        await peer.expect("log")
        return peer, run

    async def test_cancel_interrupts_an_async_handler(self) -> None:
        async def it(context: Context) -> None:
            context.log("begun")
            await asyncio.Event().wait()

        peer, run = await self.begun(it)
        await peer.cancel(run)
        report = await peer.report()
        self.assertEqual((report["outcome"], report["message"]), ("cancelled", "asked by alice"))

    async def test_cancel_is_seen_by_a_thread(self) -> None:
        def it(context: Context) -> None:
            context.log("begun")
            if context.cancelled.wait_in_thread(20):
                raise Cancelled

        peer, run = await self.begun(it)
        await peer.cancel(run)
        self.assertEqual((await peer.report())["outcome"], "cancelled")

    async def test_who_ends_well_in_spite_of_it_has_succeeded(self) -> None:
        async def it(context: Context) -> str:
            context.log("begun")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "it was done already"
            return ""

        peer, run = await self.begun(it)
        await peer.cancel(run)
        report = await peer.report()
        self.assertEqual((report["outcome"], report["message"]), ("succeeded", "it was done already"))

    async def test_who_does_not_end_is_reported_after_the_grace_and_keeps_its_place(self) -> None:
        free = asyncio.Event()
        self.addCleanup(free.set)

        async def it(context: Context) -> str:
            context.log("begun")
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    pass
            return "late"

        peer, run = await self.begun(it)
        await peer.cancel(run)
        report = await peer.report()
        self.assertEqual(report["outcome"], "cancelled")
        self.assertEqual(peer.credits, 9)
        free.set()
        await peer.expect("credit")
        self.assertEqual(peer.credits, 10)

    async def test_cancel_of_another_send_does_nothing(self) -> None:
        go = asyncio.Event()

        async def it(context: Context) -> str:
            context.log("begun")
            await go.wait()
            return "done"

        peer, run = await self.begun(it)
        await peer.cancel({**run, "token": 99})
        await peer.cancel(a_run(2, "it"))
        # An unknown handler is refused at once, so the cancels before it have been read.
        await peer.run(a_run(3, "nothing"))
        self.assertEqual((await peer.report())["outcome"], "refused")
        go.set()
        self.assertEqual((await peer.report())["message"], "done")

    async def test_cancel_in_the_same_breath(self) -> None:
        async def it(context: Context) -> None:
            await asyncio.Event().wait()

        peer = await self.start({"it": it})
        run = a_run(1, "it")
        # The handler may have begun or not when the second is read. The report is the same.
        await asyncio.gather(peer.run(run), peer.cancel(run))
        self.assertEqual((await peer.report())["outcome"], "cancelled")
        await peer.run(a_run(2, "nothing"))
        await peer.report()
        self.assertEqual(peer.credits, 10)


class Tokens(Runs):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.started: list[int] = []
        self.go = asyncio.Event()

    async def it(self, context: Context) -> str:
        self.started.append(context.token)
        await self.go.wait()
        return "done"

    async def test_a_smaller_token_is_refused(self) -> None:
        peer = await self.start({"it": self.it})
        await peer.run(a_run(1, "it", token=100))
        await peer.run(a_run(1, "it", token=99))
        report = await peer.report()
        self.assertEqual((report["outcome"], report["token"]), ("refused", 99))
        self.go.set()
        self.assertEqual((await peer.report())["token"], 100)
        self.assertEqual(self.started, [100])

    async def test_the_same_again_is_ignored(self) -> None:
        peer = await self.start({"it": self.it})
        self.go.set()
        await peer.run(a_run(1, "it"), a_run(1, "it"))
        report = await peer.report()
        await peer.run(a_run(1, "it"))
        await peer.keep(report)
        await peer.run(a_run(1, "it"))
        await peer.run(a_run(2, "it", token=7))
        self.assertEqual((await peer.report())["run"], 2)
        self.assertEqual(self.started, [100, 7])
        self.assertEqual(peer.credits, 10)

    async def test_a_greater_token_replaces_what_is_held(self) -> None:
        peer = await self.start({"it": self.it})
        await peer.run(a_run(1, "it"))
        await peer.run(a_run(1, "it", token=101, attempt=2))
        self.go.set()
        report = await peer.report()
        self.assertEqual((report["token"], report["attempt"], report["outcome"]), (101, 2, "succeeded"))
        self.assertEqual([one["token"] for m in peer.messages for one in m.get("reports", [])], [101])
