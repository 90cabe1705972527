"""Asks cronsim or croniter: `run_python.py cronsim|croniter`.

Reads lines `dialect, expression, zone, after, count` (tabs between), writes for each the answers, or `!` and a reason.
"""

import signal
import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo


def cronsim(expression, after, count):
    from cronsim import CronSim

    it = CronSim(expression, after)
    return [next(it) for _ in range(count)]


def croniter(expression, after, count):
    from croniter import croniter

    it = croniter(expression, after, ret_type=datetime, second_at_beginning=True, implement_cron_bug=True)
    return [it.get_next() for _ in range(count)]


def too_long(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, too_long)
ask = {"cronsim": cronsim, "croniter": croniter}[sys.argv[1]]
for line in sys.stdin:
    _, expression, zone, after, count = line.rstrip("\n").split("\t")
    signal.alarm(5)
    try:
        start = datetime.strptime(after, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        if zone != "UTC":
            start = start.astimezone(ZoneInfo(zone))
        answers = ask(expression, start, int(count))
        print(",".join(t.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") for t in answers))
    except Exception as e:
        print("!" + type(e).__name__)
