# SPDX-License-Identifier: Apache-2.0
"""The interface of emulators: a command that runs an ELF, whose output is the firmware's console.

The command runs in the folder that holds the storage image, called `IMAGE`, and ends with the exit
code of the firmware. What a board file says reaches it as a `Machine`: names, never arguments.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import ClassVar

from poetfw.boards import Machine
from poetfw.common.errors import BoardError, ToolError
from poetfw.tools.process import TimedOut, started

_HELP_TIMEOUT_S = 20.0

EMULATORS: dict[str, Emulator] = {}
"""Every emulator, by the name that board files call it."""


class Emulator(ABC):
    """One way to run firmware on this computer.

    Attributes:
        name: what board files call it; the program, where it is one.
        package: what to install on Debian or Ubuntu; None where nothing need be installed.
        extra: of poetfw, where the emulator is a Python package that it brings.
        emulates: whether it stands for another processor than this computer's.
        options: what a machine may ask for.
    """

    name: str
    package: str | None = None
    extra: str | None = None
    emulates: ClassVar[bool] = True
    options: ClassVar[Collection[str]] = ()

    @abstractmethod
    def command(self, machine: Machine, elf: Path) -> list[str]:
        """The command that runs an ELF on a machine that passed `check`."""

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """The command that runs an ELF which listens, with its console on standard input, too.

        Raises:
            BoardError: nothing can be said to firmware there.
        """
        raise BoardError(
            f"nothing can be said to firmware on the emulator {self.name!r}",
            "choose another twin of the board with --emulator (`poetfw boards`)",
        )

    def prepare(self, machine: Machine, image: Path, room_bytes: int) -> None:  # noqa: B027
        """Make a copy of a storage image what the machine takes for its storage: most take a file.

        Args:
            machine: what it is for.
            image: the copy; its beginning must stay as it is.
            room_bytes: bytes behind it that the firmware may write too.
        """

    def check(self, machine: Machine) -> None:
        """Check that what a board file says of a machine means something here.

        Raises:
            BoardError: it does not.
        """
        for option in machine.options:
            if option not in self.options:
                raise BoardError(
                    f"the emulator {self.name!r} has no option {option!r}",
                    "use one of: " + (", ".join(self.options) or "none at all"),
                )

    def require(self) -> None:
        """Check that it is installed.

        Raises:
            ToolError: it is not; the message holds the line that installs it.
        """
        if self.package is not None and shutil.which(self.name) is None:
            raise ToolError(
                f"{self.name} is not installed: it runs the firmware on this computer",
                f"on Debian or Ubuntu: sudo apt-get install {self.package}",
                "or choose a board with another emulator (`poetfw boards`)",
            )


def register(emulator: Emulator) -> None:
    """Make an emulator known by its name."""
    assert emulator.name not in EMULATORS, emulator.name
    EMULATORS[emulator.name] = emulator


def emulator_of(machine: Machine) -> Emulator:
    """The emulator of a machine.

    Raises:
        BoardError: there is no such emulator, or it has not what the machine asks for.
    """
    if machine.emulator not in EMULATORS:
        raise BoardError(
            f"poetfw knows no emulator {machine.emulator!r}",
            "use one of: " + ", ".join(sorted(EMULATORS)),
        )
    emulator = EMULATORS[machine.emulator]
    emulator.check(machine)
    return emulator


def check_listed(program: str, option: str, name: str) -> None:
    """Check that a program lists a name where it is asked for help; without the program, nothing.

    Args:
        program: the emulator.
        option: what takes the name.
        name: a machine's, or a processor's.

    Raises:
        BoardError: it does not.
    """
    known = _listed_by(program, option)
    if known and name not in known:
        raise BoardError(
            f"the emulator {program!r} knows no {name!r} for its option {option}",
            f"use one that `{program} {option} help` lists",
        )


@cache
def _listed_by(program: str, option: str) -> frozenset[str]:
    """The first word of each line; none where the program is not there, or says nothing."""
    if shutil.which(program) is None:
        return frozenset()
    with started([program, option, "help"], Path()) as process:
        try:
            lines = [line.decode(errors="replace") for line in process.lines(_HELP_TIMEOUT_S)]
        except TimedOut:
            return frozenset()
    return frozenset(line.split()[0] for line in lines if line.strip())
