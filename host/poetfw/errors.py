"""One class per kind of user error, each with the exit code it ends the command with.

A message is a sentence that names the file or object, the place in it, what was expected and
what to do. Anything that is not a `PoetfwError` is a bug and ends in exit code 70.
"""

from __future__ import annotations


class PoetfwError(Exception):
    """An error the user can act on.

    Args:
        message: what is wrong, where, and what was expected.
        try_next: things to try, each a short imperative sentence.
    """

    exit_code = 1

    def __init__(self, message: str, *try_next: str) -> None:
        super().__init__(message)
        self.message = message
        self.try_next = try_next


class ConfigError(PoetfwError):
    """A setting (flag, environment variable or `poetfw.toml`) has no usable value."""


class BoardError(PoetfwError):
    """A board is unknown, or its TOML file is malformed."""


class ModelError(PoetfwError):
    """A model is unknown, malformed, or uses what poetfw has no operator for."""


class DataError(PoetfwError):
    """A data set is malformed, or does not fit the model."""


class ProblemError(PoetfwError):
    """A schedule problem, or a placement problem, is malformed."""


class PlanError(PoetfwError):
    """A plan is illegal: the simulator or the placement validator refused it."""


class OutputError(PoetfwError):
    """The output folder cannot be used: it is not poetfw's, or cannot be written."""


class ToolError(PoetfwError):
    """A compiler, PlatformIO or a solver is missing or failed."""

    exit_code = 3


class DeviceError(PoetfwError):
    """The device, its emulator or the link to it failed."""

    exit_code = 4


class InfeasibleError(PoetfwError):
    """No plan exists within the budget or the deadline.

    Args:
        message: which limit cannot be met, and by what.
        try_next: things to try.
        minimum_budget_bytes: the smallest feasible budget, where it is known.
    """

    exit_code = 5

    def __init__(
        self, message: str, *try_next: str, minimum_budget_bytes: int | None = None
    ) -> None:
        super().__init__(message, *try_next)
        self.minimum_budget_bytes = minimum_budget_bytes


class UnsuitableError(InfeasibleError):
    """A baseline's method does not apply to a problem, or does not get within its budget.

    Args:
        method: the name of the baseline.
        reason: why it has no plan.
    """

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"{method} has no schedule: {reason}", "choose another scheduler")
        self.method = method
        self.reason = reason
