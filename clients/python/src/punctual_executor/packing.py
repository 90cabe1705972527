"""Messages of the executor: JSON, and batches within the limits of a message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .limits import LINES_MAX, REPORTS_MAX
from .wire import Key

# What surrounds the items of a batch is far smaller than this.
ENVELOPE = 1024


def encode(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def key_fields(key: Key) -> dict[str, int]:
    return {"run": key.run, "attempt": key.attempt, "token": key.token}


def batches(items: Iterable[Any], most: int, frame_max: int) -> list[list[str]]:
    """The items as JSON, in order, in groups that fit into a message each."""
    groups: list[list[str]] = []
    room = 0
    for item in items:
        text = encode(item)
        size = len(text.encode()) + 1
        if not groups or len(groups[-1]) == most or size > room:
            groups.append([])
            room = frame_max - ENVELOPE
        groups[-1].append(text)
        room -= size
    return groups


def reports(items: Iterable[dict[str, Any]], credits: int, frame_max: int) -> list[str]:
    """The messages that bring the reports, the last of them with the credits; or a `credit` alone; or nothing."""
    groups = batches(items, REPORTS_MAX, frame_max)
    if not groups:
        return [encode({"type": "credit", "more": credits})] if credits else []
    messages = ['{"type":"reports","reports":[' + ",".join(group) + "]" for group in groups]
    last = f',"credits":{credits}}}' if credits else "}"
    return [one + "}" for one in messages[:-1]] + [messages[-1] + last]


def log(key: Key, first: int, lines: Iterable[str], frame_max: int) -> list[str]:
    """The messages that bring the lines, the first of which has the number `first`."""
    messages = []
    for group in batches(lines, LINES_MAX, frame_max):
        head = f'{{"type":"log","run":{key.run},"attempt":{key.attempt},"from":{first},"lines":['
        messages.append(head + ",".join(group) + "]}")
        first += len(group)
    return messages


def progress(key: Key, percent: int, note: str) -> str:
    fields = {"type": "progress", "run": key.run, "attempt": key.attempt, "percent": percent}
    return encode({**fields, "note": note} if note else fields)
