"""Distributes free credits: all to a single node; a share to each of several, and the rest to those that ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(eq=False)
class Account:
    """The part of the capacity that one node holds."""

    granted: int = 0
    running: int = 0
    wanted: int = 0

    @property
    def load(self) -> int:
        return self.granted + self.running


def deal(capacity: int, free: int, accounts: Sequence[Account], known: int) -> list[int]:
    """The new credits for each account. `known` counts the nodes without a session as well."""
    gifts = [0] * len(accounts)
    if free <= 0 or not accounts:
        return gifts
    if known <= 1:
        gifts[0] = free
        return gifts
    free = _shares(capacity, free, accounts, known, gifts)
    # Credits cannot be taken back from a node that does not use them, so some stay for nodes that may return.
    absent = min(known - len(accounts), capacity // 4)
    _wants(free - absent, accounts, gifts)
    return gifts


def _shares(capacity: int, free: int, accounts: Sequence[Account], known: int, gifts: list[int]) -> int:
    # One share more than there are nodes: it is the part for nodes that ask for more.
    share = max(1, capacity // (known + 1))
    for index in sorted(range(len(accounts)), key=lambda one: accounts[one].load):
        gift = max(0, min(free, share - accounts[index].load))
        gifts[index] += gift
        free -= gift
    return free


def _wants(free: int, accounts: Sequence[Account], gifts: list[int]) -> None:
    wanting = [index for index, account in enumerate(accounts) if account.wanted > gifts[index]]
    while free > 0 and wanting:
        each = max(1, free // len(wanting))
        for index in wanting:
            gift = min(each, free, accounts[index].wanted - gifts[index])
            gifts[index] += gift
            free -= gift
        wanting = [index for index in wanting if accounts[index].wanted > gifts[index]]
