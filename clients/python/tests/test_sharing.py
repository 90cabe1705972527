"""How the capacity is shared: never more than there is, and no node without its share."""

from __future__ import annotations

import asyncio
import random
import unittest
from typing import Any

from punctual_executor import Context, Executor
from punctual_executor.sharing import Account, deal

from .harness import LIMIT, Case, Peer, a_run


class Dealing(unittest.TestCase):
    def test_one_node_gets_everything(self) -> None:
        self.assertEqual(deal(100, 100, [Account()], known=1), [100])

    def test_two_nodes_get_a_share_each(self) -> None:
        self.assertEqual(deal(100, 100, [Account(), Account()], known=2), [33, 33])

    def test_the_rest_goes_to_whoever_wants(self) -> None:
        accounts = [Account(granted=33), Account(granted=33, wanted=300)]
        self.assertEqual(deal(100, 34, accounts, known=2), [0, 34])

    def test_two_that_want_get_the_same(self) -> None:
        accounts = [Account(granted=33, wanted=300), Account(granted=33, wanted=300)]
        self.assertEqual(deal(100, 34, accounts, known=2), [17, 17])

    def test_a_small_capacity_is_given_all_the_same(self) -> None:
        self.assertEqual(sum(deal(1, 1, [Account(), Account()], known=2)), 1)

    def test_something_stays_for_a_node_that_is_away(self) -> None:
        self.assertEqual(deal(100, 67, [Account(granted=33, wanted=300)], known=2), [66])

    def test_never_more_than_is_free(self) -> None:
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        for _ in range(2000):
            capacity = chance.randint(1, 50)
            accounts = [Account(chance.randint(0, 9), chance.randint(0, 9), chance.randint(0, 99)) for _ in range(chance.randint(0, 4))]
            free = chance.randint(-2, capacity)
            gifts = deal(capacity, free, accounts, known=len(accounts) + chance.randint(0, 2))
            self.assertLessEqual(sum(gifts), max(0, free), f"seed {seed}")
            self.assertTrue(all(gift >= 0 for gift in gifts), f"seed {seed}")


class Credits(Case):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.running = 0
        self.most = 0

    def busy(self, *nodes: Any, **options: Any) -> Executor:
        executor = self.executor(*nodes, **options)

        @executor.handler("busy")
        async def busy(context: Context) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            for _ in range(context.payload):
                await asyncio.sleep(0)
            self.running -= 1

        self.serve(executor)
        return executor

    async def test_the_capacity_is_never_exceeded(self) -> None:
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        node = await self.node()
        self.busy(node, capacity=7)
        peer = await node.welcomed()
        sent = 0
        while peer.reported < 500:
            # What the node has, and what it has sent and not heard of, is at most the capacity: always.
            self.assertLessEqual(peer.credits + sent - peer.reported, 7, f"seed {seed}")
            count = chance.randint(0, min(peer.credits, 500 - sent))
            if count:
                sent += count
                await peer.run(*(a_run(sent - one, "busy", chance.randint(0, 5)) for one in range(count)))
            elif peer.reported < sent or not peer.credits:
                message = await asyncio.wait_for(peer.inbox.get(), LIMIT)
                assert message
                await peer.keep(*message.get("reports", []))
        self.assertLessEqual(self.most, 7)
        self.assertEqual(peer.credits, 7)

    async def test_reports_are_gathered(self) -> None:
        node = await self.node()
        self.busy(node, capacity=400)
        peer = await node.welcomed()
        await peer.expect("credit")
        await peer.run(*(a_run(number, "busy", 0) for number in range(400)))
        await peer.reports(400)
        messages = [one for one in peer.messages if one["type"] == "reports"]
        self.assertLess(len(messages), 20)
        self.assertEqual([one["type"] for one in peer.messages[1:]], ["reports"] * len(messages))
        self.assertEqual(peer.credits, 400)

    async def test_many_reports_keep_to_the_limits_of_a_message(self) -> None:
        node = await self.node()
        executor = self.executor(node, capacity=1500)

        @executor.handler("large")
        async def large(context: Context) -> str:
            return "x" * (60_000 if context.run < 100 else 10)

        self.serve(executor)
        peer = await node.welcomed()
        await peer.run(*(a_run(number, "large") for number in range(1500)))
        reports = await peer.reports(1500)
        self.assertEqual(len({one["run"] for one in reports}), 1500)
        self.assertLessEqual(max(len(one.get("reports", [])) for one in peer.messages), 1000)
        peer.break_off()
        again = await node.welcomed()
        await again.reports(1500)
        self.assertLessEqual(max(len(one.get("reports", [])) for one in again.messages), 1000)

    async def test_two_nodes_share(self) -> None:
        one, two = await self.node("n1"), await self.node("n2")
        self.busy(one, two, capacity=90)
        first, second = await one.welcomed(), await two.welcomed()
        for peer in (first, second):
            self.assertEqual((await peer.expect("credit"))["more"], 30)
        await second.send("want", runs=300)
        self.assertEqual((await second.expect("credit"))["more"], 30)
        self.assertEqual(first.credits + second.credits, 90)

    async def test_the_share_of_a_node_that_left_is_free_and_it_gets_one_when_it_returns(self) -> None:
        one, two = await self.node("n1"), await self.node("n2")
        self.busy(one, two, capacity=90)
        first, second = await one.welcomed(), await two.welcomed()
        for peer in (first, second):
            await peer.expect("credit")
        second.break_off()
        back = await two.peer()
        await first.send("want", runs=300)
        self.assertEqual((await first.expect("credit"))["more"], 59)
        await back.welcome()
        self.assertEqual((await back.expect("credit"))["more"], 1)
        await first.run(*(a_run(number, "busy", 0) for number in range(60)))
        await first.reports(60)
        await self.until(back, 30)

    async def until(self, peer: Peer, credits: int) -> None:
        while peer.credits < credits:
            message = await asyncio.wait_for(peer.inbox.get(), LIMIT)
            assert message, "the session ended"


class Nodes(Case):
    def simple(self, *nodes: Any, **options: Any) -> Executor:
        executor = self.executor(*nodes, **options)

        @executor.handler("wait")
        async def wait(context: Context) -> str:
            context.log("begun")
            await asyncio.Event().wait()
            return ""

        self.serve(executor)
        return executor

    async def test_it_connects_with_the_nodes_it_is_told_of(self) -> None:
        one, two, three = await self.node("n1"), await self.node("n2"), await self.node("n3")
        self.simple(one)
        first = await one.welcomed(nodes=[one.url, two.url, "no address"])
        await two.welcomed()
        await first.send("nodes", nodes=[one.url, two.url + "/", three.url])
        await three.welcomed()
        self.assertTrue(one.peers.empty() and two.peers.empty())

    async def test_it_does_not_if_it_shall_not(self) -> None:
        one, two = await self.node("n1"), await self.node("n2")
        self.simple(one, discover=False)
        first = await one.welcomed(nodes=[one.url, two.url])
        self.assertEqual((await first.expect("credit"))["more"], 10)
        self.assertEqual(two.headers, [])

    async def test_two_addresses_of_one_node(self) -> None:
        one, other = await self.node("n1"), await self.node("n1")
        self.simple(one)
        first = await one.welcomed(nodes=[one.url, other.url])
        second = await other.welcomed()
        # The node takes one session of an instance, so the older one is given up, and not opened again.
        await first.gone()
        while second.credits < 10:
            await second.expect("credit")
        self.assertTrue(one.peers.empty())
        second.break_off()
        await one.welcomed()

    async def test_any_node_takes_a_report(self) -> None:
        one, two = await self.node("n1"), await self.node("n2")
        self.simple(one, two)
        first, second = await one.welcomed(), await two.welcomed()
        for peer in (first, second):
            await peer.expect("credit")
        run = a_run(1, "wait")
        await first.run(run)
        await first.expect("log")
        first.break_off()
        await second.cancel(run)
        self.assertEqual((await second.report())["outcome"], "cancelled")

    async def test_a_report_on_its_way_when_the_node_fails_goes_to_another(self) -> None:
        one, two = await self.node("n1"), await self.node("n2")
        self.simple(one, two)
        first, second = await one.welcomed(), await two.welcomed()
        for peer in (first, second):
            await peer.expect("credit")
        await first.run(a_run(1, "nothing"))
        report = await first.report()
        first.break_off()
        self.assertEqual(await second.report(), report)
