"""The version of this client. It is also what `hello` tells the node."""

__version__ = "0.1.0"

CLIENT = f"punctual-python/{__version__}"
