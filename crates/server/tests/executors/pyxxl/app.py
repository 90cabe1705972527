"""An executor made with pyxxl, old or new: the two differ only in how they are told their own address."""

import asyncio
import dataclasses
import json
import os
import pathlib
import time

from pyxxl import ExecutorConfig, JobHandler, PyxxlRunner
from pyxxl.ctx import g

STEP = 0.05

handlers = JobHandler()


def record(handler: str) -> str:
    """Writes down that a handler was called, and answers its params."""
    run = g.xxl_run_data
    shard = f"{run.broadcastIndex}/{run.broadcastTotal}"
    line = {
        "handler": handler,
        "logId": run.logId,
        "jobId": run.jobId,
        "params": run.executorParams,
        "shard": shard,
        "at": int(time.time() * 1000),
    }
    with open(os.environ["RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    g.logger.info("params %s, shard %s", run.executorParams, shard)
    return run.executorParams


async def pause(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(STEP)


@handlers.register(name="ok")
async def ok() -> str:
    return f"did {record('ok')}"


@handlers.register(name="fail")
async def fail() -> None:
    raise RuntimeError(f"cannot do {record('fail')}")


@handlers.register(name="sleep")
async def sleep() -> str:
    seconds = record("sleep")
    await pause(float(seconds))
    return f"slept {seconds}"


@handlers.register(name="chatty")
async def chatty() -> str:
    count = int(record("chatty"))
    for number in range(1, count + 1):
        g.logger.info("line %d of %d", number, count)
        await pause(0.1)
    return f"said {count}"


@handlers.register(name="crash")
async def crash() -> None:
    record("crash")
    os._exit(3)


def main() -> None:
    host, port = os.environ["HOST"], int(os.environ["PORT"])
    logs = pathlib.Path(os.environ["LOGS"])
    logs.mkdir(parents=True, exist_ok=True)
    known = {field.name for field in dataclasses.fields(ExecutorConfig)}
    if "executor_listen_host" in known:
        address = {"executor_listen_host": host, "executor_listen_port": port}
    else:
        address = {"executor_host": host, "executor_port": port}
    config = ExecutorConfig(
        xxl_admin_baseurl=os.environ["ADMIN"] + "/api/",
        executor_app_name=os.environ["APP"],
        access_token=os.environ.get("TOKEN") or None,
        executor_log_path=str(logs / "executor.log"),
        log_local_dir=str(logs / "runs"),
        **address,
    )
    PyxxlRunner(config, handler=handlers).run_executor()


if __name__ == "__main__":
    main()
