# SPDX-License-Identifier: Apache-2.0
"""PlatformIO, compilers and emulators: the only code that starts processes."""

from poetfw.tools.console import Event
from poetfw.tools.elf import ElfSection, ElfSize, elf_machine, elf_sections, elf_size
from poetfw.tools.emulators import default_twin, emulator_of
from poetfw.tools.platformio import build_environments, require_toolchain, upload_firmware
from poetfw.tools.runner import MeterEnergy, RunLog, run_firmware
from poetfw.tools.slices import Slices, run_slices
from poetfw.tools.static_ram import static_ram_bytes
from poetfw.tools.step_size import step_bytes
from poetfw.tools.toolchains import choose_toolchain, compiler_name

__all__ = [
    "ElfSection",
    "ElfSize",
    "Event",
    "MeterEnergy",
    "RunLog",
    "Slices",
    "build_environments",
    "choose_toolchain",
    "compiler_name",
    "default_twin",
    "elf_machine",
    "elf_sections",
    "elf_size",
    "emulator_of",
    "require_toolchain",
    "run_firmware",
    "run_slices",
    "static_ram_bytes",
    "step_bytes",
    "upload_firmware",
]
