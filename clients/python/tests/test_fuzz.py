"""Whatever a node sends, the executor neither ends nor stops working. The seed is printed, so that a failure can be repeated."""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

from punctual_executor import Context
from websockets.exceptions import ConnectionClosed

from .harness import LIMIT, Case, a_run

ROUNDS = 60


def valid(chance: random.Random) -> dict[str, Any]:
    one = a_run(chance.randrange(50), chance.choice(["ok", "other"]), chance.choice([None, 1, "x", [], {}]))
    one.update(token=chance.randrange(200), attempt=chance.randrange(3), timeout_ms=chance.choice([0, 1, 60_000]))
    keys = [{"run": chance.randrange(50), "attempt": 1, "token": chance.randrange(200), "reason": "why"}]
    return chance.choice(
        [
            {"type": "runs", "runs": [one, one]},
            {"type": "kept", "reports": keys},
            {"type": "cancel", "runs": keys},
            {"type": "want", "runs": chance.randrange(1000)},
            {"type": "nodes", "nodes": []},
            {"type": "weather"},
        ]
    )


def junk(chance: random.Random) -> Any:
    return chance.choice([None, True, -1, 0, 2**53, 1e300, 0.5, "", "\x00", "é\ud83d\ude00", [], {}, [None], {"run": {}}, "x" * 5000])


def spoil(chance: random.Random, value: Any) -> Any:
    """The same with one place of it changed."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        changed = {**value, name: spoil(chance, value[name])}
        if chance.random() < 0.2:
            del changed[name]
        return changed
    if isinstance(value, list) and value and chance.random() < 0.9:
        index = chance.randrange(len(value))
        return value[:index] + [spoil(chance, value[index])] + value[index + 1 :]
    return junk(chance)


def frame(chance: random.Random) -> str | bytes:
    kind = chance.random()
    if kind < 0.05:
        return chance.randbytes(chance.randrange(200))
    text = json.dumps(valid(chance) if kind < 0.4 else spoil(chance, valid(chance)))
    if kind > 0.9:
        place = chance.randrange(len(text))
        return text[:place] + chance.choice('{}[]",:\\0e') + text[place + 1 :]
    return text


class Fuzz(Case):
    async def test_it_survives(self) -> None:
        seed = int(os.environ.get("FUZZ_SEED", random.randrange(2**32)))
        print(f"FUZZ_SEED={seed}", flush=True)
        chance = random.Random(seed)
        node = await self.node()
        executor = self.executor(node)

        @executor.handler("ok")
        async def ok(context: Context) -> str:
            context.log(str(context.payload))
            return "done"

        self.serve(executor)
        for round in range(ROUNDS):
            peer = await node.peer()
            try:
                if chance.random() < 0.2:
                    await peer.socket.send(frame(chance))
                await peer.welcome()
                for _ in range(chance.randrange(40)):
                    await peer.socket.send(frame(chance))
                if chance.random() < 0.2:
                    # No frame of a WebSocket at all.
                    peer.socket.transport.write(chance.randbytes(50))
                peer.break_off()
            except ConnectionClosed:
                pass
            assert self.serving
            self.assertFalse(self.serving.done(), f"round {round}")
        await self.still_works(node)

    async def still_works(self, node: Any) -> None:
        peer = await node.welcomed()
        await peer.run(a_run(999, "ok", token=999))
        await peer.expect("log")
        self.stop.set()
        outcomes = {}
        while (message := await asyncio.wait_for(peer.inbox.get(), LIMIT)) and message["type"] != "goodbye":
            for report in message.get("reports", []):
                outcomes[report["run"]] = report["outcome"]
                await peer.keep(report)
        self.assertEqual(outcomes[999], "succeeded")
        await self.served()
