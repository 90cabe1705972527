"""Messages of a node, read and checked. Unknown fields are ignored, invalid ones are errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Union

from .limits import NUMBER_MAX


class Malformed(Exception):
    """The node broke the protocol. The session ends with this."""

    def __init__(self, reason: str, code: str = "malformed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Key(NamedTuple):
    """Names one send of one run."""

    run: int
    attempt: int
    token: int


@dataclass(frozen=True)
class Welcome:
    node: str
    silence: float
    frame_max: int
    nodes: list[str]
    stale: list[Key]


@dataclass(frozen=True)
class Run:
    key: Key
    job: int
    name: str
    handler: str
    fire_time: datetime
    timeout: float | None
    payload: Any
    possible_duplicate: bool
    part: tuple[int, int] | None


@dataclass(frozen=True)
class Runs:
    runs: list[Run]


@dataclass(frozen=True)
class Kept:
    keys: list[Key]


@dataclass(frozen=True)
class Cancel:
    runs: list[tuple[Key, str]]


@dataclass(frozen=True)
class Want:
    runs: int


@dataclass(frozen=True)
class Nodes:
    nodes: list[str]


@dataclass(frozen=True)
class Goodbye:
    reason: str


@dataclass(frozen=True)
class Failure:
    reason: str
    code: str


Message = Union[Welcome, Runs, Kept, Cancel, Want, Nodes, Goodbye, Failure]


def parse(data: str | bytes) -> Message | None:
    """The message, or None if its type is not known."""
    if not isinstance(data, str):
        raise Malformed("a binary message")
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    fields = _object(value, "the message")
    reader = _READERS.get(_text(fields, "type"))
    return reader(fields) if reader else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Malformed(f"{what} is not an object")
    return value


def _objects(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [_object(one, f"an item of {name}") for one in _list(fields, name)]


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise Malformed(f"{name} is not a list")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise Malformed(f"{name} is not a text")
    return value


def _texts(fields: dict[str, Any], name: str) -> list[str]:
    values = _list(fields, name)
    if not all(isinstance(one, str) for one in values):
        raise Malformed(f"{name} has something that is not a text")
    return values


def _number(fields: dict[str, Any], name: str, least: int = 0) -> int:
    value = fields.get(name)
    # In Python, true is an int as well.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < NUMBER_MAX:
        raise Malformed(f"{name} is not a number from {least} to 2^53")
    return value


def _key(fields: dict[str, Any]) -> Key:
    return Key(_number(fields, "run"), _number(fields, "attempt"), _number(fields, "token"))


def _instant(fields: dict[str, Any], name: str) -> datetime:
    text = _text(fields, name)
    try:
        # Python 3.10 does not know the Z.
        value = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise Malformed(f"{name} is not a time") from None
    if value.tzinfo is None:
        raise Malformed(f"{name} has no zone")
    return value


def _left_out(fields: dict[str, Any], name: str) -> bool:
    return fields.get(name) is None


def _welcome(fields: dict[str, Any]) -> Welcome:
    version = _number(fields, "version")
    if version != 1:
        raise Malformed(f"version {version} is not known; this client speaks 1", "version")
    return Welcome(
        node=_text(fields, "node"),
        silence=_number(fields, "silence_ms", 1) / 1000,
        frame_max=_number(fields, "frame_max", 1),
        nodes=[] if _left_out(fields, "nodes") else _texts(fields, "nodes"),
        stale=[] if _left_out(fields, "stale") else [_key(one) for one in _objects(fields, "stale")],
    )


def _run(fields: dict[str, Any]) -> Run:
    return Run(
        key=_key(fields),
        job=_number(fields, "job"),
        name=_text(fields, "name"),
        handler=_text(fields, "handler"),
        fire_time=_instant(fields, "fire_time"),
        timeout=_timeout(fields),
        payload=fields.get("payload"),
        possible_duplicate=_flag(fields, "possible_duplicate"),
        part=_part(fields),
    )


def _timeout(fields: dict[str, Any]) -> float | None:
    # A timeout of zero means no timeout.
    milliseconds = 0 if _left_out(fields, "timeout_ms") else _number(fields, "timeout_ms")
    return milliseconds / 1000 or None


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise Malformed(f"{name} is not true or false")
    return bool(value)


def _part(fields: dict[str, Any]) -> tuple[int, int] | None:
    if _left_out(fields, "part"):
        return None
    part = _object(fields["part"], "part")
    return _number(part, "index"), _number(part, "total")


def _cancel(fields: dict[str, Any]) -> Cancel:
    return Cancel([(_key(one), _reason(one)) for one in _objects(fields, "runs")])


def _reason(fields: dict[str, Any]) -> str:
    return "" if _left_out(fields, "reason") else _text(fields, "reason")


def _failure(fields: dict[str, Any]) -> Failure:
    return Failure(_reason(fields), "" if _left_out(fields, "code") else _text(fields, "code"))


_READERS: dict[str, Callable[[dict[str, Any]], Message]] = {
    "welcome": _welcome,
    "runs": lambda fields: Runs([_run(one) for one in _objects(fields, "runs")]),
    "kept": lambda fields: Kept([_key(one) for one in _objects(fields, "reports")]),
    "cancel": _cancel,
    "want": lambda fields: Want(_number(fields, "runs")),
    "nodes": lambda fields: Nodes(_texts(fields, "nodes")),
    "goodbye": lambda fields: Goodbye(_reason(fields)),
    "error": _failure,
}
