# SPDX-License-Identifier: Apache-2.0
"""Files of problems and answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from poetfw.common.errors import PlanError, ProblemError
from poetfw.common.reading import read_bytes

if TYPE_CHECKING:
    from poetfw.schedule.several import DevicesAnswer


def read_file(path: Path) -> bytes:
    """Read a file that holds a problem or an answer.

    Raises:
        ProblemError: The file cannot be read.
    """
    try:
        return read_bytes(path)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read: {error.strerror}") from error


def read_answer(path: Path) -> DevicesAnswer:
    """Read the plan of an answer, and the tensor sizes of its graph.

    Raises:
        ProblemError: The file cannot be read, or holds no plan.
    """
    from poetfw.schedule.several import devices_answer_from_json

    return devices_answer_from_json(read_file(path), str(path))


@contextlib.contextmanager
def followed(answer: Path | None) -> Iterator[None]:
    """Add an answer's file name and hints to errors of its plan.

    Raises:
        PlanError: The plan is illegal here.
    """
    try:
        yield
    except PlanError as error:
        if answer is None:
            raise
        elsewhere = (
            "give the devices, in the limits, that it was found for",
            "or search: no --replay",
        )
        raise PlanError(f"{answer}: {error.message}", *(error.try_next or elsewhere)) from error
