# SPDX-License-Identifier: Apache-2.0
"""Programs of a toolchain, as the section `toolchain` of platformio.ini names them."""

import os
import shutil
from importlib.util import find_spec


def find_program(command):
    """Path of a command's program; None if it is not installed.

    PACKAGE:PROGRAM is a program in a Python package, any other is on PATH.
    """
    package, _, program = command.split()[0].rpartition(":")
    if not package:
        return shutil.which(program)
    found = find_spec(package)
    return found and shutil.which(program, path=os.path.dirname(found.origin))


def command_line(command):
    """A command with the path of its program, as SCons takes it; as it is if none is found."""
    program, *arguments = command.split()
    path = find_program(command) if ":" in program else program
    return " ".join([f'"{path}"' if path and " " in path else path or program, *arguments])
