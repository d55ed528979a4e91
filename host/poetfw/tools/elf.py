# SPDX-License-Identifier: Apache-2.0
"""Sizes of an ELF file's parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poetfw.common.errors import ToolError

_WRITE, _ALLOC = 0x1, 0x2


@dataclass(frozen=True, slots=True)
class ElfSize:
    """Bytes an ELF occupies.

    Attributes:
        flash_bytes: code, constants and the initial values of variables.
        ram_bytes: variables, zeroed ones and the stack's section included.
    """

    flash_bytes: int
    ram_bytes: int


def elf_size(path: Path) -> ElfSize:
    """The size of a linked firmware or of an object file.

    Raises:
        ToolError: the file is not an ELF.
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
    """The processor that an ELF is for, in ELF's word for it, such as `EM_ARM`.

    Raises:
        ToolError: the file is not an ELF.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            return str(ELFFile(file)["e_machine"])
    except (OSError, ELFError) as error:
        raise ToolError(f"{path} is not a readable ELF file: {error}") from error


def _word_padded(size: int) -> int:
    """A section's size with the padding that its successor's alignment may need."""
    return -(-size // 8) * 8
