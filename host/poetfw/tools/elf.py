# SPDX-License-Identifier: Apache-2.0
"""Section sizes and target processor of ELF files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
                if _is_in_ram(section):
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


def _is_in_ram(section: Any) -> bool:
    """True for sections in RAM; LLVM's linker marks that of the stack read-only."""
    return bool(section["sh_flags"] & _WRITE) or section["sh_type"] == "SHT_NOBITS"


def _word_padded(size: int) -> int:
    """Size of a section plus the largest alignment padding before the next one, in bytes."""
    return -(-size // 8) * 8


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """Function or variable of an ELF file.

    Attributes:
        name: name in the symbol table.
        section: name of its section.
        address: first byte.
        size_bytes: bytes that it takes.
    """

    name: str
    section: str
    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ElfSection:
    """Section that takes memory of the machine.

    Attributes:
        name: name of the section.
        address: first byte.
        size_bytes: bytes that it takes.
        in_flash: true if it takes flash, as initial values do, too.
        in_ram: true if it can be written.
        symbols: what is in it.
    """

    name: str
    address: int
    size_bytes: int
    in_flash: bool
    in_ram: bool
    symbols: tuple[ElfSymbol, ...]


def elf_sections(path: Path) -> tuple[ElfSection, ...]:
    """Sections of an ELF file that `elf_size` counts, with their functions and variables.

    Raises:
        ToolError: The file is not a readable ELF file.
    """
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            even = ~1 if elf["e_machine"] == "EM_ARM" else ~0  # bit 0 marks Thumb code
            table = elf.get_section_by_name(".symtab")
            symbols: dict[Any, list[tuple[str, int, int]]] = {}
            for one in () if table is None else table.iter_symbols():
                if one["st_size"] and one["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT"):
                    place = one.name, one["st_value"] & even, one["st_size"]
                    symbols.setdefault(one["st_shndx"], []).append(place)
            return tuple(
                ElfSection(
                    section.name,
                    section["sh_addr"],
                    section["sh_size"],
                    section["sh_type"] != "SHT_NOBITS",
                    _is_in_ram(section),
                    tuple(
                        ElfSymbol(name, section.name, address, size)
                        for name, address, size in symbols.get(number, ())
                    ),
                )
                for number, section in enumerate(elf.iter_sections())
                if section["sh_flags"] & _ALLOC and section["sh_size"]
            )
    except (OSError, ELFError, ConstructError, ValueError, UnicodeDecodeError) as error:
        raise ToolError(f"{path} is not a readable ELF file: {error}") from error
