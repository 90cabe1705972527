"""The smallest executor: one handler, which says hello. Stop it with Ctrl-C."""

import logging
import os

from punctual_executor import Context, Executor

logging.basicConfig(level=logging.INFO)

executor = Executor(
    app="hello",
    urls=[os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:7070")],
    token=os.environ.get("PUNCTUAL_EXECUTOR_TOKEN"),
)


@executor.handler("hello")
async def hello(context: Context) -> str:
    context.log(f"fired for {context.fire_time:%Y-%m-%d %H:%M:%S}, attempt {context.attempt}")
    return f"hello, {context.payload or 'world'}"


if __name__ == "__main__":
    executor.run()
