"""What a handler raises to say more than that it failed."""


class NoRetry(Exception):
    """The run failed, and another attempt is of no use."""


class Cancelled(Exception):
    """The handler ended because it was asked to. For handlers in threads, which nobody can interrupt."""
