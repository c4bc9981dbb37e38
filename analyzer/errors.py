"""Errors that a person can act on: each says what is wrong and what to do about it.

Only what stops the whole run is raised. What merely costs a piece of evidence is a ``Gap``.
"""


class WhyhangError(Exception):
    """The base of all errors that end a run with a message instead of a traceback.

    ``message`` says what is wrong in one sentence, ``remedy`` what the person can do; the
    command line prints both and ends with ``exit_code``.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class TargetError(WhyhangError):
    """What the person pointed at is not there, or is nothing that can be looked at."""

    exit_code = 2


class BundleError(WhyhangError):
    """A bundle cannot be written or is none."""
