"""Makes the vector files: `build.py [source ...]`, run from this folder. See ../README.md for what must be installed.

Each source is asked about candidate cases; whole categories in which it is known to differ from Punctual's decisions
are left out. A category is told from the expression, the zone and the instants alone, never from a comparison with
Punctual's answers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from cases import UTC, ZONES, Case, Change, change_cases, changes, ordinary_cases

HERE = Path(__file__).parent
OUT = HERE.parent
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Answer:
    case: Case
    instants: list[datetime]

    @property
    def near(self) -> list[Change]:
        """The zone's changes from a day before the question to a day after the last answer."""
        return [c for c in changes(self.case.zone) if self.case.after - DAY <= c.at <= self.instants[-1] + DAY]

    @property
    def touched(self) -> list[Change]:
        return [c for c in self.near if c.touches(self.case)]

    @property
    def gaps(self) -> list[Change]:
        return [c for c in self.touched if c.is_gap]

    @property
    def overlaps(self) -> list[Change]:
        return [c for c in self.touched if not c.is_gap]


# ---- categories -----------------------------------------------------------------------------------------------------

def has(field: str, pattern: str) -> Callable[[Answer], bool]:
    return lambda a: re.search(pattern, a.case.fields[field], re.IGNORECASE) is not None


def day_gap(a: Answer) -> bool:
    return any(c.after - c.before > timedelta(hours=3) for c in a.near)


def second_pass(a: Answer) -> bool:
    return any(c.second_pass_holds(a.case.after) for c in changes(a.case.zone))


def starred_days(a: Answer) -> bool:
    f = a.case.fields
    return a.case.both_days_limited and (f["dom"][0] == "*" or f["dow"][0] == "*")


def any_change(a: Answer) -> bool:
    """A change at midnight anywhere near, or any other unless the job keeps to the hours 5 to 21."""
    return any(c.at_midnight for c in a.near) or bool(a.near) and not a.case.values("hour") <= set(range(5, 22))


def near_weekday(a: Answer) -> bool:
    """An nW or L-nW asked from its own day to two days later."""
    for shift in (-DAY, timedelta(0), DAY):
        after = a.case.after + shift
        last = monthrange(after.year, after.month)[1]
        for back, n in re.findall(r"(L-)?(\d+)W", a.case.fields["dom"], re.IGNORECASE):
            day = last - int(n) if back else int(n)
            if day <= after.day <= day + 2:
                return True
    return False


def several_times(a: Answer) -> bool:
    return a.case.times_a_day > 1


def crosses_february(a: Answer) -> bool:
    years = range(a.case.after.year, a.instants[-1].year + 1)
    return any(a.case.after - DAY <= datetime(y, 3, 1, tzinfo=UTC) <= a.instants[-1] + 31 * DAY for y in years)


DAY_GAP = ("a gap of more than 3 hours (Apia, 30 December 2011): fires at its end", day_gap)
STARRED = ("both day fields limited and one begins with `*` (such as `*/2 * MON`): takes either, we take both", starred_days)
ANY_CHANGE = (
    "near a change of offset, unless the job keeps to the hours 5 to 21 and the change is not at midnight: "
    "skips gaps and treats overlaps in its own way", any_change)
MOVED_W = ("nW and L-nW asked from its own day to two days later: misses a fire that moved to Monday", near_weekday)
SHORT_W = ("29W, 30W and 31W: fires in months without that day", has("dom", r"(29|30|31)W"))


def cronsim_takes_as_fixed(a: Answer) -> bool:
    f = a.case.fields
    return len(a.case.expression.split()) == 5 and f["minute"][0] != "*" and f["hour"][0] != "*"


CRONSIM = [
    DAY_GAP,
    ("jobs that it takes for fixed and we for interval or the other way round (all with seconds, `5-50/15 2`), "
     "near a change", lambda a: a.touched and cronsim_takes_as_fixed(a) == a.case.is_interval),
    ("fixed jobs asked in the second pass of an overlap: may answer with an instant of the first",
     lambda a: second_pass(a) and not a.case.is_interval),
    ("interval jobs, and all with seconds, near a change at midnight or not on whole hours: steps whole hours from an "
     "imaginary time", lambda a: not cronsim_takes_as_fixed(a) and any(c.at_midnight or not c.on_whole_hours for c in a.near)),
]

CRONER = [
    STARRED,
    ("fixed jobs with more than one time a day near a change: counts them as interval",
     lambda a: a.touched and not a.case.is_interval and several_times(a)),
    ("gaps of up to 3 hours over midnight: a wall time of the day before is lost",
     lambda a: any(c.low.date() != c.high.date() and c.after - c.before <= timedelta(hours=3) for c in a.gaps)),
    ("LW in a list: read as L", has("dom", r"LW,|,LW")),
    ("30 or 31 among the days of the month, over the end of a February: runs on into March and loses its first days",
     lambda a: a.case.fields["dom"] not in "*?" and {30, 31} & a.case.values("dom") and crosses_february(a)),
    ("`*/n` in the year: counted from year 0", has("year", r"\*/")),
]

CRON_PARSER = [
    STARRED,
    ("changes at midnight or not on whole hours", lambda a: any(c.at_midnight or not c.on_whole_hours for c in a.near)),
    ("shifts of other than one hour", lambda a: any(abs(c.after - c.before) != timedelta(hours=1) for c in a.near)),
    ("gaps for fixed jobs: fires at 03:30, not 03:00", lambda a: a.gaps and not a.case.is_interval),
    ("interval jobs with less than 24 hours, and fixed jobs with all 24, near a change: goes by the number of hours",
     lambda a: a.touched and a.case.is_interval != (len(a.case.values("hour")) == 24)),
    ("fixed jobs asked within two hours of an overlap: knows the overlap only when it walks into it",
     lambda a: not a.case.is_interval and any(c.at - timedelta(hours=2) <= a.case.after <= c.at + timedelta(hours=2) for c in a.overlaps)),
    ("dL in lists", has("dow", r"\dL,|,\w+L")),
]

CRONITER = [
    DAY_GAP, SHORT_W,
    ("overlaps for fixed jobs: fires twice", lambda a: a.overlaps and not a.case.is_interval),
    ("gaps for fixed jobs with more than one time a day", lambda a: a.gaps and not a.case.is_interval and several_times(a)),
    ("gaps for interval jobs with a limited hour field: fires at the gap's end",
     lambda a: a.gaps and a.case.is_interval and a.case.fields["hour"] != "*"),
    ("gaps for fixed jobs with a second other than 0: keeps the second", lambda a: a.gaps and a.case.values("second") != {0}),
    ("interval jobs near an overlap at midnight, or near a change other than one hour on the hour",
     lambda a: a.case.is_interval and (any(c.at_midnight for c in a.overlaps) or any(
         abs(c.after - c.before) != timedelta(hours=1) or not c.on_whole_hours for c in a.touched))),
    ("interval jobs with limited days or months near a gap: may answer with a wall time that does not exist, moved",
     lambda a: a.gaps and a.case.is_interval and any(a.case.fields[f] not in "*?" for f in ("dom", "month", "dow"))),
    ("d#n in a list with a plain weekday: the plain one is lost", has("dow", r"#.*,|,.*#")),
    ("a range of one value (`5-5`): taken for the whole field", lambda a: any(
        x.split("/")[0].split("-")[0] == x.split("/")[0].split("-")[-1] and "-" in x for f in a.case.fields.values() for x in f.split(","))),
    ("d#n or nW with both day fields limited: must match, instead of may", lambda a: a.case.both_days_limited and (
        "#" in a.case.fields["dow"] or "W" in a.case.fields["dom"].upper())),
]

QUARTZ = [
    ANY_CHANGE, MOVED_W,
    ("nW, LW and L-nW with more than one time a day: 2.5.2 loses those before the time of day of the question",
     lambda a: has("dom", "W")(a) and several_times(a)),
]

QUARTZ_OLD = QUARTZ + [
    SHORT_W,
    ("L, LW, L-n or nW in a list", has("dom", r"[LW].*,|,.*[LW]")),
]

SPRING = [
    ANY_CHANGE, MOVED_W,
    ("28W to 31W: lost in a month whose last day it is, if that is a Sunday", has("dom", r"(28|29|30|31)W")),
    ("both day fields limited and neither begins with `*`: takes both, we take either",
     lambda a: a.case.both_days_limited and not starred_days(a)),
    ("`*/n` in the weekday: counted from Monday", has("dow", r"\*/")),
    ("d#5: in a month without one may fire on the first", has("dow", "#5")),
]


# ---- sources --------------------------------------------------------------------------------------------------------

def java(runner: str, jars: str) -> list[str]:
    return ["java", "-cp", os.environ.get(jars, ""), str(HERE / f"{runner}.java")]


@dataclass(frozen=True)
class Source:
    file: str
    title: str
    command: list[str]
    left_out: list
    streams: list[tuple[Callable[[str, str], Iterator[Case]], str, int]]
    """Where cases come from: generator, dialect, and how many lines at most."""


SOURCES = [
    Source("quartz-2.5.2", "Quartz 2.5.2 (Maven)", java("RunQuartz", "QUARTZ_2_5_2"), QUARTZ, [(ordinary_cases, "quartz", 1500)]),
    Source("quartz-2.3.2", "Quartz 2.3.2 (Maven)", java("RunQuartz", "QUARTZ_2_3_2"), QUARTZ_OLD, [(ordinary_cases, "quartz", 900)]),
    Source("spring", "Spring's CronExpression, spring-context 6.2.1 (Maven)", java("RunSpring", "SPRING"), SPRING, [(ordinary_cases, "unix", 800)]),
    Source("cronsim", "cronsim 2.8 (PyPI)", [sys.executable, str(HERE / "run_python.py"), "cronsim"], CRONSIM,
           [(ordinary_cases, "unix", 900), (change_cases, "unix", 700)]),
    Source("croniter", "croniter 6.2.4 (PyPI), with second_at_beginning and implement_cron_bug",
           [sys.executable, str(HERE / "run_python.py"), "croniter"], CRONITER, [(ordinary_cases, "unix", 800), (change_cases, "unix", 400)]),
    Source("croner-js", "croner 11.0.0 (npm); for quartz lines with alternativeWeekdays and sloppyRanges",
           ["node", str(HERE / "run_js.mjs"), "croner"], CRONER,
           [(ordinary_cases, "unix", 600), (change_cases, "unix", 400), (ordinary_cases, "quartz", 200), (change_cases, "quartz", 400)]),
    Source("cron-parser-js", "cron-parser 5.10.4 (npm)", ["node", str(HERE / "run_js.mjs"), "cron-parser"], CRON_PARSER,
           [(ordinary_cases, "unix", 800), (change_cases, "unix", 400)]),
]


def rfc3339(t: datetime) -> str:
    return t.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(t: str) -> datetime:
    return datetime.strptime(t, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def ask(source: Source, cases: list[Case]) -> list[Answer]:
    lines = "".join(f"{c.dialect}\t{c.expression}\t{c.zone}\t{rfc3339(c.after)}\t{c.count}\n" for c in cases)
    out = subprocess.run(source.command, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(out) == len(cases)
    answers = [Answer(c, [parse(t) for t in o.split(",")]) for c, o in zip(cases, out) if o and o[0] != "!"]
    return [a for a in answers if len(a.instants) == a.case.count]


def in_range(a: Answer) -> bool:
    """Whether all instants lie where the tz databases in use agree."""
    return a.instants[-1].year <= ZONES[a.case.zone]


def build(source: Source) -> None:
    lines: list[str] = []
    for generator, dialect, limit in source.streams:
        kept: dict[str, None] = {}
        cases = islice(generator(dialect, f"{source.file} {dialect} {generator.__name__}"), 7 * limit)
        for a in ask(source, list(cases)):
            if in_range(a) and not any(test(a) for _, test in source.left_out):
                c = a.case
                kept[f"{c.dialect}\t{c.expression}\t{c.zone}\t{rfc3339(c.after)}\t{','.join(map(rfc3339, a.instants))}"] = None
        lines += islice(kept, limit)
    head = [
        f"# Source: {source.title}.",
        "# dialect, expression, zone, after, the next instants",
        "# Left out, besides what the source does not accept:",
        *(f"# - {reason}" for reason, _ in source.left_out),
    ]
    (OUT / f"{source.file}.tsv").write_text("\n".join(head + lines) + "\n")
    print(source.file, len(lines))


if __name__ == "__main__":
    for s in SOURCES:
        if not sys.argv[1:] or s.file in sys.argv[1:]:
            build(s)
