"""Reads figures, one JSON object a line, and prints how many jobs each inserts and executes a second, beside ours on PostgreSQL."""

import json
import sys

rows = {}
for line in sys.stdin:
    figure = json.loads(line)
    if "peer" in figure:
        name, what = figure["peer"], figure["what"]
    elif figure.get("scenario") == "submit" and figure["case"].startswith("1000 a request"):
        name, what = f"punctual on {figure['database']}", "insert"
    elif figure.get("scenario") == "execute" and figure["case"].startswith("sent"):
        name, what = f"punctual on {figure['database']}", "execute"
    else:
        continue
    if figure.get("lost") or figure.get("doubled"):
        sys.exit(f"{name} lost or doubled jobs: {line}")
    best = max(figure["rate"], rows.get(name, {}).get(what, 0))
    rows.setdefault(name, {})[what] = best

ours = rows.get("punctual on PostgreSQL", {})


def shown(name, what):
    rate = rows[name].get(what)
    if rate is None:
        return "–", "–"
    ratio = f"{ours[what] / rate:.2f}" if ours.get(what) else "–"
    return f"{rate:,.0f}", ratio


print("| | inserted a second | ours is so many times that | executed a second | ours is so many times that |")
print("|---|---|---|---|---|")
for name in rows:
    print("| " + " | ".join([name, *shown(name, "insert"), *shown(name, "execute")]) + " |")
