"""procrastinate: inserted with batch_defer, executed by a worker with many at once that deletes what succeeded."""

import asyncio
import json
import sys
import time

import procrastinate

ADDRESS, COUNT, BATCH = sys.argv[1], int(sys.argv[2]), 1000
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=ADDRESS, min_size=4, max_size=12))
seen = set()


@app.task(name="noop")
async def noop(number, **rest):
    seen.add(number)


def payload(number):
    note = "a no-op of a hundred bytes"
    return {"order": "0123456789abcdef", "amount": "17.90", "currency": "EUR", "number": number, "note": note}


def tell(what, begun, done):
    seconds = time.monotonic() - begun
    figure = {"peer": "procrastinate", "what": what, "count": done, "seconds": seconds, "rate": done / seconds}
    print(json.dumps(figure), flush=True)
    if done != COUNT:
        sys.exit(f"procrastinate: of {COUNT} jobs {done} were done")


async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        begun = time.monotonic()
        starts = iter(range(0, COUNT, BATCH))

        async def insert():
            for start in starts:
                numbers = range(start, min(start + BATCH, COUNT))
                await noop.batch_defer_async(*[payload(number) for number in numbers])

        # As many requests at once as ours.
        await asyncio.gather(*[insert() for _ in range(4)])
        tell("insert", begun, COUNT)
        begun = time.monotonic()
        await app.run_worker_async(
            concurrency=100, wait=False, delete_jobs="successful", install_signal_handlers=False
        )
        tell("execute", begun, len(seen))


asyncio.run(main())
