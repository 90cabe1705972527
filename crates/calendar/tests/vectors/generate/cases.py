"""Candidate cases: expressions of both dialects, zones and instants, drawn from a seeded generator.

Nothing here knows what the answer is; the implementations that `build.py` runs give it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

UTC = timezone.utc
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
NICKNAMES = "@yearly @annually @monthly @weekly @daily @midnight @hourly".split()

# zone: last year used. Zones whose rules are politics end before the databases in use part ways.
ZONES = {
    "UTC": 2100,
    "America/New_York": 2100,
    "Europe/Berlin": 2100,
    "Europe/London": 2100,
    "Europe/Dublin": 2100,
    "Australia/Lord_Howe": 2100,
    "Pacific/Chatham": 2100,
    "Antarctica/Troll": 2100,
    "Atlantic/Azores": 2100,
    "America/St_Johns": 2100,
    "Asia/Kathmandu": 2100,
    "Asia/Kolkata": 2100,
    "Asia/Tokyo": 2100,
    "Australia/Adelaide": 2100,
    "America/Santiago": 2024,
    "America/Sao_Paulo": 2024,
    "America/Caracas": 2024,
    "America/Havana": 2024,
    "America/Mexico_City": 2024,
    "Asia/Beirut": 2024,
    "Asia/Gaza": 2024,
    "Asia/Pyongyang": 2024,
    "Asia/Tehran": 2024,
    "Africa/Cairo": 2024,
    "Africa/Casablanca": 2024,
    "Europe/Istanbul": 2024,
    "Europe/Moscow": 2024,
    "Pacific/Apia": 2024,
}


@dataclass(frozen=True)
class Case:
    dialect: str
    expression: str
    zone: str
    after: datetime
    count: int

    @property
    def fields(self) -> dict[str, str]:
        """The fields by name; a nickname counts as the five fields it stands for."""
        text = {
            "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
            "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
            "@hourly": "0 * * * *",
        }.get(self.expression, self.expression)
        parts = text.split()
        if len(parts) == 5:
            parts.insert(0, "0")
        if len(parts) == 6:
            parts.append("*")
        return dict(zip(("second", "minute", "hour", "dom", "month", "dow", "year"), parts))

    @property
    def is_interval(self) -> bool:
        f = self.fields
        return any(c in f[k] for k in ("second", "minute", "hour") for c in "*/")

    def values(self, field: str) -> set[int]:
        """The numbers that a second, minute, hour or day-of-month field names; L and W are passed over."""
        low, size = {"hour": (0, 24), "dom": (1, 31)}.get(field, (0, 60))
        out: set[int] = set()
        for item in self.fields[field].upper().split(","):
            body, _, step = item.partition("/")
            if "L" in body or "W" in body:
                continue
            if body in "*?":
                first, last = low, low + size - 1
            elif "-" in body:
                first, last = map(int, body.split("-"))
            else:
                first = int(body)
                last = low + size - 1 if step else first
            if last < first:
                last += size
            out.update((v - low) % size + low for v in range(first, last + 1, int(step or 1)))
        return out

    @property
    def times_a_day(self) -> int:
        return len(self.values("second")) * len(self.values("minute")) * len(self.values("hour"))

    @property
    def both_days_limited(self) -> bool:
        return self.fields["dom"] not in "*?" and self.fields["dow"] not in "*?"


@dataclass(frozen=True)
class Change:
    """A change of a zone's offset. Wall times from `low` up to `high` are lost or repeated."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def low(self) -> datetime:
        return (self.at + min(self.before, self.after)).replace(tzinfo=None)

    @property
    def high(self) -> datetime:
        return (self.at + max(self.before, self.after)).replace(tzinfo=None)

    @property
    def on_whole_hours(self) -> bool:
        return self.low.minute == 0 and self.high.minute == 0

    @property
    def at_midnight(self) -> bool:
        return self.low.date() != self.high.date() or self.low.hour == 0

    def touches(self, case: Case) -> bool:
        """Whether the hour field names an hour near the lost or repeated ones, on whatever day."""
        hour = self.low - timedelta(hours=1)
        near = set()
        while hour <= self.high + timedelta(hours=1):
            near.add(hour.hour)
            hour += timedelta(hours=1)
        return bool(near & case.values("hour"))

    def second_pass_holds(self, instant: datetime) -> bool:
        return not self.is_gap and self.at <= instant < self.at + (self.before - self.after)


@cache
def changes(zone: str) -> list[Change]:
    info = ZoneInfo(zone)
    offset = lambda t: t.astimezone(info).utcoffset()
    out, week = [], timedelta(days=7)
    t = datetime(1999, 1, 1, tzinfo=UTC)
    while t.year < 2102:
        if offset(t) != offset(t + week):
            low, high = t, t + week
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if offset(middle) == offset(t) else (low, middle)
            out.append(Change(high, offset(t), offset(high)))
        t += week
    return out


class Draw:
    """Draws expressions of one dialect."""

    LIMITS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "dom": (1, 31), "month": (1, 12)}

    def __init__(self, dialect: str, seed: str):
        self.dialect = dialect
        self.rng = random.Random(seed)
        self.quartz = dialect == "quartz"

    def limits(self, field: str) -> tuple[int, int]:
        return self.LIMITS.get(field) or ((1, 7) if self.quartz else (0, 7))

    def name(self, field: str, value: int) -> str:
        r = self.rng
        if field == "month" and r.random() < 0.4:
            name = MONTHS[value - 1]
        elif field == "dow" and r.random() < 0.5:
            name = DAYS[value - 1 if self.quartz else value % 7]
        else:
            return f"{value:02}" if r.random() < 0.05 else str(value)
        return r.choice([name, name, name.lower(), name.title()])

    def item(self, field: str) -> str:
        r = self.rng
        low, high = self.limits(field)
        kind = r.choices(["one", "range", "step", "wrap", "from"], [5, 3, 2, 1, 1])[0]
        a, b = sorted(r.sample(range(low, high + 1), 2))
        if kind == "wrap" and self.quartz:
            step = f"/{r.randint(2, 5)}" if r.random() < 0.3 else ""
            return f"{b}-{a}{step}" if step else f"{self.name(field, b)}-{self.name(field, a)}"
        if kind == "from" and self.quartz:
            return f"{a}/{r.randint(1, high - low + 1)}"
        if kind == "range":
            last = self.name(field, b)
            # A range that ends in Sunday by name is left open by the grammar.
            return f"{self.name(field, a)}-{b if last.upper() == 'SUN' else last}"
        if kind == "step":
            first, last = (a, b) if self.quartz else (self.name(field, a), self.name(field, b))
            if str(last).upper() == "SUN":
                last = b
            return f"{first}-{last}/{r.randint(1, max(2, (high - low) // 3))}"
        return self.name(field, r.randint(low, high))

    def field(self, field: str) -> str:
        r = self.rng
        low, high = self.limits(field)
        kind = r.choices(["item", "list", "star step", "mixed"], [6, 3, 3, 1])[0]
        if kind == "star step":
            n = r.choice([1, 2, 3, 4, 5, 6, 7, 10, 15, 20, 30])
            return f"*/{min(n, high - low)}"
        if kind == "list":
            values = r.sample(range(low, high + 1), r.randint(2, 4))
            return ",".join(self.name(field, v) for v in values)
        if kind == "mixed":
            return f"{self.item(field)},{self.item(field)}"
        return self.item(field)

    def one(self, field: str) -> str:
        return str(self.rng.randint(*self.limits(field)))

    def special_dom(self) -> str:
        r = self.rng
        kinds = ["L", "LW", f"{r.randint(1, 31)}W", f"{r.choice([1, 1, 15, 28, 30, 31])}W"]
        kinds += [f"{r.randint(1, 27)},L", f"L,{r.randint(1, 27)}", "1W,15W", f"{r.randint(3, 9)},LW", f"{r.randint(10, 20)},1W"]
        if self.quartz:
            n = r.randint(1, 27)
            kinds += [f"L-{n}", f"L-{n}W", f"L-{r.randint(1, 6)}", f"L-{r.randint(1, 6)}W", f"{r.randint(1, 9)},L-{r.randint(1, 9)}"]
        return r.choice(kinds)

    def special_dow(self) -> str:
        r = self.rng
        low, high = self.limits("dow")
        day = lambda: self.name("dow", r.randint(low, high))
        kinds = [f"{day()}L", f"{r.randint(low, high)}L", f"{day()}#{r.randint(1, 5)}", f"{day()}#{r.randint(1, 5)}"]
        if self.quartz:
            kinds.append("L")
        else:
            kinds += [f"{day()}#1,{day()}#3", f"{day()}L,{day()}L", f"{day()},{day()}#2"]
        return r.choice(kinds)

    def year(self) -> str:
        r = self.rng
        a = r.randint(2000, 2090)
        kinds = [str(a), f"{a}-{a + r.randint(1, 9)}", f"{a},{a + 3},{a + 4}", f"{a}-{a + 8}/{r.randint(2, 4)}"]
        if self.quartz:
            kinds += [f"*/{r.choice([2, 3, 4, 5, 7, 10])}", f"{a}/{r.choice([2, 3, 4])}"]
        return r.choice(kinds)

    def join(self, second, minute, hour, dom, month, dow, year=None) -> str:
        r = self.rng
        if self.quartz:
            if dow in "*?":
                dow = "?"
            else:
                dom = "?"
            return " ".join([second, minute, hour, dom, month, dow] + ([year] if year else []))
        if r.random() < 0.06:
            dom = "?" if dom == "*" else dom
            dow = "?" if dow == "*" else dow
        if year:
            return " ".join([second, minute, hour, dom, month, dow, year])
        if second == "0" and r.random() < 0.85:
            return " ".join([minute, hour, dom, month, dow])
        return " ".join([second, minute, hour, dom, month, dow])

    def ordinary(self) -> str:
        r = self.rng
        second = "0" if r.random() < 0.75 else self.field("second")
        minute = self.one("minute") if r.random() < 0.5 else self.field("minute")
        hour = self.one("hour") if r.random() < 0.4 else "*" if r.random() < 0.2 else self.field("hour")
        if r.random() < 0.03:
            minute = "*"
        dom = dow = month = "*"
        year = None
        kind = r.choices(
            ["time", "dom", "month", "dow", "month dom", "month dow", "both", "special", "leap", "year", "star and", "nickname"],
            [12, 9, 6, 9, 7, 6, 8, 28, 4, 12, 5, 2],
        )[0]
        if "dom" in kind:
            dom = self.field("dom")
        if "dow" in kind:
            dow = self.field("dow")
        if "month" in kind:
            month = self.field("month")
        if kind == "both":
            dom, dow = self.field("dom"), self.field("dow")
            if r.random() < 0.3:
                dom = self.special_dom()
            elif r.random() < 0.3:
                dow = self.special_dow()
        if kind == "special":
            # Mostly by day, where every source can be asked in every zone.
            second, minute, hour = "0", self.one("minute"), str(r.randint(5, 21))
            if r.random() < 0.25:
                hour = self.field("hour")
            if r.random() < 0.6:
                dom = self.special_dom()
            else:
                dow = self.special_dow()
            if r.random() < 0.25:
                month = self.field("month")
        if kind == "leap":
            dom = r.choice(["29", "29", "28,29", "29-31", "29,30", "31", "30"])
            month = r.choice(["2", "FEB", "2", "2,4", "1-3"]) if dom.startswith("2") else r.choice(["*", "*/2", "4,5,6"])
            second, minute, hour = "0", self.one("minute"), self.one("hour")
        if kind == "year":
            year, hour = self.year(), str(r.randint(5, 21))
            month = r.choice(["*", self.field("month"), self.one("month")])
            if r.random() < 0.4:
                dow = self.special_dow() if r.random() < 0.4 else self.field("dow")
            else:
                dom = self.special_dom() if r.random() < 0.4 else self.field("dom")
        if kind == "star and":
            dom, dow = f"*/{r.randint(2, 10)}", self.field("dow")
            if r.random() < 0.4:
                dom, dow = self.field("dom"), f"*/{r.randint(2, 5)}"
        if kind == "nickname" and not self.quartz:
            return r.choice(NICKNAMES)
        return self.join(second, minute, hour, dom, month, dow, year)

    def near(self, change: Change) -> str:
        """An expression whose hours lie at or near a change."""
        r = self.rng
        hours = [(change.low + timedelta(minutes=30 * k)).hour for k in range(-3, int((change.high - change.low).seconds / 1800) + 4)]
        hour = r.choice(hours)
        other = sorted({hour, r.choice(hours)})
        minute = r.choice([0, 0, 1, 15, 29, 30, 30, 31, 45, 59])
        pair = ",".join(map(str, sorted({minute, r.randrange(60)})))
        days = r.choice(["* * *"] * 8 + ["* * MON-FRI", "* * SUN", "*/2 * *", "1-15 * *", "L * *", "* * SUN#2", "* * SUNL", "* * SAT"])
        kind = r.choices(
            ["one", "minutes", "hours", "range", "hourly", "every", "every in hour", "each n hours", "stepped range", "seconds"],
            [14, 5, 5, 3, 6, 8, 6, 4, 3, 3],
        )[0]
        time = {
            "one": f"0 {minute} {hour}",
            "minutes": f"0 {pair} {hour}",
            "hours": f"0 {minute} {','.join(map(str, other))}",
            "range": f"0 {minute} {other[0]}-{other[-1]}" if len(other) > 1 else f"0 {minute} {hour}",
            "hourly": f"0 {minute} *",
            "every": f"0 */{r.choice([1, 2, 5, 7, 10, 15, 20, 30])} *",
            "every in hour": f"0 */{r.choice([5, 10, 15, 20, 30])} {hour}",
            "each n hours": f"0 {minute} */{r.choice([2, 3, 4, 6, 12])}",
            "stepped range": f"0 {r.choice(['0-59/15', '5-50/15', '10-40/10'])} {r.choice(['*', str(hour)])}",
            "seconds": r.choice([f"*/{r.choice([10, 15, 30])} * *", f"{r.randrange(60)} {minute} {hour}", f"{r.randrange(60)} {minute} *"]),
        }[kind]
        second, minute, hour = time.split()
        return self.join(second, minute, hour, *days.split())


def ordinary_after(r: random.Random, zone: str, expression: str) -> datetime:
    last = ZONES[zone]
    parts = expression.split()
    year = r.randint(2000, last - 10 if last == 2100 else last - 3)
    if len(parts) == 7 and parts[6][:4].isdigit():
        year = max(2000, int(parts[6][:4]) - r.randint(0, 1))
    kind = r.choices(["any", "month end", "leap", "round"], [6, 2, 1, 2])[0]
    t = datetime(year, 1, 1, tzinfo=UTC) + timedelta(seconds=r.randrange(365 * 86400))
    if kind == "month end":
        first = t.replace(day=1, hour=0, minute=0, second=0)
        t = first + timedelta(seconds=r.choice([-1, 0, 1, -3600, -86400, 86400 * 28, 86400 * 2]))
    elif kind == "leap":
        leap = max(2000, year // 4 * 4)
        if leap != 2100:
            t = datetime(leap, 2, r.choice([28, 29]), r.randrange(24), r.choice([0, 59]), r.choice([0, 59]), tzinfo=UTC)
    elif kind == "round":
        t = t.replace(minute=r.choice([0, 15, 30, 45]), second=0)
    return max(t, datetime(2000, 1, 1, tzinfo=UTC))


def ordinary_cases(dialect: str, seed: str):
    draw = Draw(dialect, seed)
    r = draw.rng
    zones = list(ZONES)
    while True:
        expression = draw.ordinary()
        zone = "UTC" if r.random() < 0.15 else r.choice(zones)
        yield Case(dialect, expression, zone, ordinary_after(r, zone, expression), r.choice([3, 3, 4]))


def change_cases(dialect: str, seed: str):
    """Cases asked from a day and a half before a change up to a few hours after it."""
    draw = Draw(dialect, seed)
    r = draw.rng
    zones = [z for z in ZONES if changes(z)]
    while True:
        zone = r.choice(zones)
        known = [c for c in changes(zone) if 2000 <= c.at.year <= min(2060, ZONES[zone] - 1)]
        long_gaps = [c for c in known if c.after - c.before > timedelta(hours=3)]
        change = r.choice(long_gaps if long_gaps and r.random() < 0.4 else known)
        minutes = r.choice([-1800, -600, -240, -120, -90, -60, -45, -30, -15, -1, 0, 10, 40, 60, 120])
        after = change.at + timedelta(minutes=minutes, seconds=r.choice([0, 0, 0, -1, 1]))
        yield Case(dialect, draw.near(change), zone, after, 5)
