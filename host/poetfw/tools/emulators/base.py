# SPDX-License-Identifier: Apache-2.0
"""Interface of emulators: a command that runs an ELF and prints the firmware's console.

The command runs in the folder of the storage image (`IMAGE`) and returns the firmware's exit code.
A board file describes its emulator as a `Machine`, that is, by names: it cannot add arguments to
the command.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import ClassVar

from poetfw.boards import Board, Machine, Twin
from poetfw.common.errors import BoardError, ToolError
from poetfw.tools.process import TimedOut, started

_HELP_TIMEOUT_S = 20.0

EMULATORS: dict[str, Emulator] = {}
"""All emulators, by their name in board files."""


class Emulator(ABC):
    """One way to run firmware on this computer.

    Attributes:
        name: name in board files, and of the program if the emulator is one.
        package: Debian or Ubuntu package that installs it; None if nothing needs installing.
        extra: optional extra of poetfw that installs it, for emulators that are Python packages.
        emulates: False if the firmware runs on this computer's own processor.
        options: machine options that a board file may name.
    """

    name: str
    package: str | None = None
    extra: str | None = None
    emulates: ClassVar[bool] = True
    options: ClassVar[Collection[str]] = ()

    @abstractmethod
    def command(self, machine: Machine, elf: Path) -> list[str]:
        """Command that runs an ELF on a machine that passed `check`."""

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """Command that runs an ELF as a device that takes commands on standard input.

        Raises:
            BoardError: The emulator cannot send input to firmware.
        """
        raise BoardError(
            f"nothing can be said to firmware on the emulator {self.name!r}",
            "choose another twin of the board with --emulator (`poetfw boards`)",
        )

    def counting(self, machine: Machine) -> Machine:
        """The machine with its instructions counted, if it can leave that out; else as it is."""
        return machine

    @property
    def installed(self) -> bool:
        """True if the emulator can run firmware on this computer."""
        try:
            self.require()
        except ToolError:
            return False
        return True

    def prepare(self, machine: Machine, image: Path, room_bytes: int) -> None:  # noqa: B027
        """Convert a copy of a storage image to the form the machine needs: by default, none.

        Args:
            machine: the machine that will use the image.
            image: the copy; its beginning must stay as it is.
            room_bytes: bytes behind the content that the firmware may write as well.
        """

    def check(self, machine: Machine) -> None:
        """Check that a board file's description of a machine is valid for this emulator.

        Raises:
            BoardError: The description is invalid.
        """
        for option in machine.options:
            if option not in self.options:
                raise BoardError(
                    f"the emulator {self.name!r} has no option {option!r}",
                    "use one of: " + (", ".join(self.options) or "none at all"),
                )

    def require(self) -> None:
        """Check that the emulator is installed.

        Raises:
            ToolError: The emulator is missing; the message holds the command that installs it.
        """
        if self.package is not None and shutil.which(self.name) is None:
            raise ToolError(
                f"{self.name} is not installed: it runs the firmware on this computer",
                f"on Debian or Ubuntu: sudo apt-get install {self.package}",
                "without root: pip install 'poetfw[portable]', which emulates nrf52840 and mkr1000",
                "or choose a board with another emulator (`poetfw boards`)",
            )


def register(emulator: Emulator) -> None:
    """Add an emulator to `EMULATORS`."""
    assert emulator.name not in EMULATORS, emulator.name
    EMULATORS[emulator.name] = emulator


def emulator_of(machine: Machine) -> Emulator:
    """Emulator of a machine.

    Raises:
        BoardError: The emulator does not exist, or the machine's description is invalid for it.
    """
    if machine.emulator not in EMULATORS:
        raise BoardError(
            f"poetfw knows no emulator {machine.emulator!r}",
            "use one of: " + ", ".join(sorted(EMULATORS)),
        )
    emulator = EMULATORS[machine.emulator]
    emulator.check(machine)
    return emulator


def default_twin(board: Board) -> Twin:
    """First twin of a board whose emulator is installed; its first one without any.

    Raises:
        BoardError: The board has no twin.
    """
    installed = (twin for twin in board.twins if emulator_of(twin.machine).installed)
    return next(installed, None) or board.twin(None)


def check_listed(program: str, option: str, name: str) -> None:
    """Check that a program's help lists a name; passes if the program is not installed.

    Args:
        program: command name of the emulator.
        option: option that takes the name, such as `-M`.
        name: name of a machine or processor.

    Raises:
        BoardError: The program does not list the name.
    """
    known = _listed_by(program, option)
    if known and name not in known:
        raise BoardError(
            f"the emulator {program!r} knows no {name!r} for its option {option}",
            f"use one that `{program} {option} help` lists",
        )


@cache
def _listed_by(program: str, option: str) -> frozenset[str]:
    """First word of each line of an option's help; empty if the program is missing or times out."""
    if shutil.which(program) is None:
        return frozenset()
    with started([program, option, "help"], Path()) as process:
        try:
            lines = [line.decode(errors="replace") for line in process.lines(_HELP_TIMEOUT_S)]
        except TimedOut:
            return frozenset()
    return frozenset(line.split()[0] for line in lines if line.strip())
