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

# The protocol allows 50,000 holds, which may not fit into a message of 4 MiB beside the handlers, and an attempt that is
# missing in `holds` is given up as lost. So no more credits are given than fit into one `hello`.
HELD_MAX = 40_000
HANDLER_BYTES_MAX = 1024 * 1024


def cut(text: str, limit: int) -> str:
    """The beginning of the text, in at most `limit` bytes of UTF-8. Lone surrogates become `?`."""
    data = text.encode("utf-8", "replace")
    return data[:limit].decode("utf-8", "ignore")
