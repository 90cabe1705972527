"""The limits of protocol version 1, and texts that are cut to fit them."""

from __future__ import annotations

FRAME_MAX = 4 * 1024 * 1024
REPORTS_MAX = 1000
LINES_MAX = 10_000
LINE_BYTES = 16 * 1024
MESSAGE_BYTES = 64 * 1024
LOG_BYTES = 4 * 1024 * 1024
CAPACITY_MAX = 40_000
HANDLERS_MAX = 20_000
NUMBER_MAX = 2**53

# The protocol allows 100,000 holds, but so many do not fit into a message of 4 MiB next to the handlers, and a run
# that is missing in `holds` is taken for lost. So no more credits are given than can be said in one `hello`.
HELD_MAX = 40_000
HANDLER_BYTES_MAX = 1024 * 1024


def cut(text: str, limit: int) -> str:
    """The beginning of the text, in at most so many bytes of UTF-8. Lone surrogates, which are no text, become `?`."""
    data = text.encode("utf-8", "replace")
    return data[:limit].decode("utf-8", "ignore")
