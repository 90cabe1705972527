"""The Python client of Punctual's executor protocol: what a program imports."""

from .context import Cancellation, Context, Part
from .errors import Cancelled, NoRetry
from .executor import Executor
from .timing import Timing
from .version import __version__

__all__ = ["Cancellation", "Cancelled", "Context", "Executor", "NoRetry", "Part", "Timing", "__version__"]
