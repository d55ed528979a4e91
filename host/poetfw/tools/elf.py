# SPDX-License-Identifier: Apache-2.0
"""Section sizes and target processor of ELF files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poetfw.common.errors import ToolError

_WRITE, _ALLOC = 0x1, 0x2


@dataclass(frozen=True, slots=True)
class ElfSize:
    """Memory that an ELF file occupies, in bytes.

    Attributes:
        flash_bytes: code, constants and initial values of variables.
        ram_bytes: initialised and zeroed variables, and the stack's section.
    """

    flash_bytes: int
    ram_bytes: int


def elf_size(path: Path) -> ElfSize:
    """Memory that a linked firmware or an object file occupies.

    Raises:
        ToolError: The file is not a readable ELF file.
    """
    from elftools.common.exceptions import ELFError  # slow to import
    from elftools.elf.elffile import ELFFile

    flash = ram = 0
    try:
        with path.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                flags, size = section["sh_flags"], section["sh_size"]
                if not flags & _ALLOC:
                    continue
                if flags & _WRITE:
                    ram += _word_padded(size)
                if section["sh_type"] != "SHT_NOBITS":
                    flash += size
    except (OSError, ELFError) as error:
        raise ToolError(f"{path} is not a readable ELF file: {error}") from error
    return ElfSize(flash, ram)


def elf_machine(path: Path) -> str:
    """Target processor of an ELF file by its ELF name, such as `EM_ARM`.

    Raises:
        ToolError: The file is not a readable ELF file.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            return str(ELFFile(file)["e_machine"])
    except (OSError, ELFError) as error:
        raise ToolError(f"{path} is not a readable ELF file: {error}") from error


def _word_padded(size: int) -> int:
    """Size of a section plus the largest alignment padding before the next one, in bytes."""
    return -(-size // 8) * 8
