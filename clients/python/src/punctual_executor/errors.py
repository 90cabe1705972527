"""Exceptions that a handler raises to report more than a failure."""


class NoRetry(Exception):
    """The run failed, and another attempt is of no use."""


class Cancelled(Exception):
    """The handler ended because of a cancel. For handlers in threads, which cannot be interrupted."""
