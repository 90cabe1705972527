"""Writes consistent_hash.csv: where XXL-JOB's hash ring puts jobs, computed the way its documentation says.

    python3 consistent_hash.py > consistent_hash.csv

A line `list,a|b|c` names the addresses for the lines below it; a line `job,17,2` says that job 17 belongs to the
third of them. The cases are drawn from a fixed seed, so the file is the same every time.
"""

import bisect
import hashlib
import random

POINTS = 100
JOB_MAX = 2**31 - 1
dice = random.Random(20_270_301)


def ring_hash(key):
    return int.from_bytes(hashlib.md5(key.encode("utf-8")).digest()[:4], "little")


def owner(addresses, job):
    ring = {ring_hash(f"SHARD-{address}-NODE-{point}"): address for address in addresses for point in range(POINTS)}
    hashes = sorted(ring)
    place = bisect.bisect_left(hashes, ring_hash(str(job)))
    return ring[hashes[place % len(hashes)]]


def plain(n):
    return f"http://10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(256)}:{9999 + n}"


KINDS = [
    plain,
    lambda n: plain(n) + "/",
    lambda n: f"http://executor-{n}.jobs.svc.cluster.local:9999/job",
    lambda n: f"https://example.com/apps/{n}/xxl-job/",
    lambda n: f"http://[2001:db8::{dice.randrange(65536):x}]:{9999 + n}/",
    lambda n: f"http://[fe80::1%25eth{n}]:9999",
    lambda n: f"http://执行器-{n}.示例:9999/",
    lambda n: f"http://bücher-{n}.example/é",
    lambda n: f"http://🦀{n}:9999",
    lambda n: f"executor {n} without a scheme",
    lambda n: f"{n}",
]

FIXED = [
    ["http://127.0.0.1:9999/"],
    ["http://127.0.0.1:9999/", "http://127.0.0.1:9998/"],
    ["http://127.0.0.1:9999", "http://127.0.0.1:9999/", "http://127.0.0.1:9999//"],
    ["http://b:1", "http://a:1", "http://c:1"],
    ["a"],
]


def lists():
    yield from FIXED
    for kind in KINDS:
        for count in (2, 3, 7):
            yield sorted(kind(n) for n in range(count))
    for count in (4, 10, 25, 60):
        yield [dice.choice(KINDS)(n) for n in range(count)]


def jobs():
    yield from (0, 1, 2, 9, 10, JOB_MAX, JOB_MAX - 1, 2**30)
    for bits in range(1, 32):
        yield dice.randrange(2 ** (bits - 1), 2**bits)


for addresses in lists():
    assert len(set(addresses)) == len(addresses)
    assert not any(sign in address for address in addresses for sign in "|,\n")
    print("list," + "|".join(addresses))
    for job in jobs():
        print(f"job,{job},{addresses.index(owner(addresses, job))}")
