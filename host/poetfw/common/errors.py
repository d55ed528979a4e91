# SPDX-License-Identifier: Apache-2.0
"""One class per kind of user error, each with the exit code it ends the command with.

A message is a sentence that names the file or object, the place in it, what was expected and
what to do. Anything that is not a `PoetfwError` is a bug and ends in exit code 70.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

_LONGEST_MESSAGE = 4_500
"""Characters; a path may have 4,096 of them."""


def cut(text: str, most: int = _LONGEST_MESSAGE) -> str:
    """A text shortened to at most `most` characters by leaving out its middle."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def listed(items: Sequence[str], separator: str = ", ", most: int = 20) -> str:
    """The first few items, and the number of the others."""
    shown = separator.join(cut(item, 400) for item in items[:most])
    more = len(items) - most
    return shown if more <= 0 else f"{shown}{separator}… and {more:,} more"


def is_out_of_memory(error: BaseException) -> bool:
    """True for an error that a shortage of memory raises, also while a library is loaded."""
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    texts = ("failed to map segment", "annot allocate memory", "can't start new thread")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


class PoetfwError(Exception):
    """An error the user can act on.

    Args:
        message: what is wrong, where, and what was expected. It is one line, and may hold text
            from files: whoever prints it escapes control characters.
        try_next: things to try, each a short imperative sentence.
        said: the last lines of a program's or a device's output, unchanged.
    """

    exit_code = 1

    def __init__(self, message: str, *try_next: str, said: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = cut(message)
        self.try_next = tuple(map(cut, try_next))
        self.said = tuple(map(cut, said))


class ConfigError(PoetfwError):
    """A setting (flag, environment variable or `poetfw.toml`) has no usable value."""


class BoardError(PoetfwError):
    """A board is unknown, or its TOML file is malformed."""


class ModelError(PoetfwError):
    """A model is unknown, malformed, or uses what poetfw has no operator for."""


class DataError(PoetfwError):
    """A data set is malformed, or does not fit the model."""


class CostsError(PoetfwError):
    """Measured costs cannot be read or written, or are impossible values."""


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


class PortError(PoetfwError):
    """A name is not a serial port, or several ports could be meant."""


class PortBusyError(DeviceError):
    """Another program uses the serial port."""


class PortLostError(DeviceError):
    """The serial port is gone while it is used."""


class NoAnswerError(DeviceError):
    """Nothing comes back over the line."""


class NoisyLineError(DeviceError):
    """A serial line corrupts messages again and again."""


class WrongBoardError(DeviceError):
    """Another board's firmware answers, or that of another build."""


class WrongCardError(DeviceError):
    """The board's storage holds the image of another build."""


class ForeignCardError(DeviceError):
    """The board's storage holds data that poetfw did not write."""


class UnfinishedUploadError(DeviceError):
    """The board's storage holds a part of an image."""


class MixedImagesError(DeviceError):
    """A storage holds parts of two images, one of which was not wholly written over the other."""

    WRITE_WHOLE = (
        "write one image whole: `poetfw flash --storage`, or its file with `dd` to the end",
    )

    def __init__(self, what: str, *try_next: str) -> None:
        super().__init__(
            f"{what} holds parts of two images: writing one over the other was not finished",
            *(try_next or self.WRITE_WHOLE),
        )


class HostError(DeviceError):
    """A computer cannot be reached by ssh, or a command on it failed."""


class HostFullError(HostError):
    """A computer has no room for what is copied there."""


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
