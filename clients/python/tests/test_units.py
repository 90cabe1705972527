"""The parts that need no node: what is remembered, what is packed, what is accepted as an address or a name."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any, cast

from punctual_executor import Executor, Timing, packing
from punctual_executor.attempt import Attempt
from punctual_executor.fleet import socket_url
from punctual_executor.ledger import Ledger
from punctual_executor.limits import cut
from punctual_executor.timing import Backoff
from punctual_executor.wire import Key


class Given:
    """As much of an attempt as the ledger looks at."""

    def __init__(self, *numbers: int) -> None:
        self.key = Key(*numbers)


def given(*numbers: int) -> Attempt:
    return cast(Attempt, Given(*numbers))


class Remembering(unittest.TestCase):
    def setUp(self) -> None:
        self.ledger = Ledger(memory=600)
        self.ledger.hold(given(1, 1, 100))

    def test_tokens_are_remembered_for_ten_minutes(self) -> None:
        self.ledger.reported(given(1, 1, 100))
        self.ledger.kept(Key(1, 1, 100), now=50)
        self.assertEqual(self.ledger.judge(Key(1, 1, 100), now=649), "ignore")
        self.assertEqual(self.ledger.judge(Key(1, 1, 99), now=649), "refuse")
        self.assertEqual(self.ledger.judge(Key(1, 1, 99), now=650), "start")

    def test_a_token_is_remembered_while_the_run_is_held(self) -> None:
        self.ledger.hold(given(1, 2, 101))
        self.ledger.drop(Key(1, 1, 100), now=0)
        self.assertEqual(self.ledger.judge(Key(1, 1, 100), now=10_000), "refuse")
        self.assertEqual(self.ledger.judge(Key(1, 2, 101), now=10_000), "ignore")

    def test_what_was_dropped_is_refused(self) -> None:
        self.ledger.drop(Key(1, 1, 100), now=0)
        self.assertEqual(self.ledger.judge(Key(1, 1, 100), now=1), "refuse")
        self.assertEqual(self.ledger.holds(), [])

    def test_nothing_stays_for_ever(self) -> None:
        for number in range(1000):
            self.ledger.hold(given(number, 1, 5))
            self.ledger.reported(given(number, 1, 5))
            self.ledger.kept(Key(number, 1, 5), now=number)
        self.ledger.judge(Key(5000, 1, 1), now=10_000)
        self.assertEqual(list(self.ledger._greatest), [1])

    def test_holds_are_what_is_not_kept(self) -> None:
        self.ledger.hold(given(2, 1, 7))
        self.ledger.reported(given(2, 1, 7))
        self.assertEqual([one["run"] for one in self.ledger.holds()], [1, 2])


class Packing(unittest.TestCase):
    def test_batches_keep_to_bytes_and_count(self) -> None:
        items = ["é" * 100] * 100
        groups = packing.batches(items, most=7, frame_max=packing.ENVELOPE + 1000)
        self.assertEqual(sum(len(group) for group in groups), 100)
        self.assertTrue(all(len(",".join(group).encode()) <= 1000 for group in groups))
        self.assertEqual(max(len(group) for group in packing.batches(items, 7, 10**6)), 7)

    def test_the_credits_are_in_the_last_message_only(self) -> None:
        messages = [json.loads(one) for one in packing.reports([{"run": 1}] * 1500, 9, 10**6)]
        self.assertEqual([len(one["reports"]) for one in messages], [1000, 500])
        self.assertEqual([one.get("credits") for one in messages], [None, 9])

    def test_credits_alone(self) -> None:
        self.assertEqual(packing.reports([], 9, 10**6), ['{"type":"credit","more":9}'])
        self.assertEqual(packing.reports([], 0, 10**6), [])

    def test_a_text_is_cut_between_characters(self) -> None:
        self.assertEqual(cut("aéé", 4), "aé")
        self.assertEqual(cut("\udcff", 10), "?")


class Settings(unittest.TestCase):
    def test_addresses(self) -> None:
        self.assertEqual(socket_url("http://A:7070/"), "ws://a:7070")
        self.assertEqual(socket_url("https://a/prefix/"), "wss://a/prefix")
        for wrong in ("a:7070", "ftp://a", "http://", "http://a:x", "http://[::1"):
            with self.assertRaises(ValueError):
                socket_url(wrong)

    def test_what_is_wrong_is_said_at_once(self) -> None:
        good: dict[str, Any] = {"app": "reports", "urls": ["http://a"], "name": "w"}
        Executor(**good)
        for wrong in ({"app": "a/b"}, {"app": ""}, {"app": "a\n"}, {"urls": []}, {"urls": "http://a"}, {"name": "a b"}, {"capacity": 0}):
            with self.assertRaises(ValueError, msg=str(wrong)):
                Executor(**{**good, **wrong})

    def test_a_handler_has_one_name_of_its_own(self) -> None:
        executor = Executor("reports", ["http://a"])
        executor.handler("it")(print)
        with self.assertRaises(ValueError):
            executor.handler("it")

    def test_pauses_double_up_to_the_most(self) -> None:
        backoff = Backoff(Timing())
        pauses = [backoff.next() for _ in range(10)]
        for pause, step in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1, 1, 1]):
            self.assertTrue(step / 2 <= pause <= step)


class Serving(unittest.IsolatedAsyncioTestCase):
    async def test_without_handlers_it_does_not_serve(self) -> None:
        with self.assertRaises(ValueError):
            await Executor("reports", ["http://a"]).serve(asyncio.Event())
