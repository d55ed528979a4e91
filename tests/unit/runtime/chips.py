# SPDX-License-Identifier: Apache-2.0
"""A family's drivers, compiled for this computer, on a strict model of its chip."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import ClassVar, Generic, Protocol, TypeVar

from sd_card import BLOCK, Card

from emulator.firmware_tools import (
    SAMPLE,
    TEMPLATES,
    compile_c,
    compile_sample,
    run_program,
    sample_image,
    slot_offset,
)

CORE = Path(__file__).parent / "chip"


class Model(Protocol):
    """What a model of a chip has for all."""

    card: Card
    console: bytes
    misuse: list[str]

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""


ChipT = TypeVar("ChipT", bound=Model)


def compile_drivers(folder: Path, family: str, *flags: str) -> Path:
    """The sample project with a family's drivers as a shared library; it listens if told to."""
    listens = any(flag.startswith("-DPOET_LISTEN_TICKS") for flag in flags)
    quiet = () if listens else ("-DPOET_LISTEN_TICKS=0u",)
    templates = [TEMPLATES / d for d in ("storage", "runtime", f"hal/{family}")]
    folders = [*templates, SAMPLE / "src/generated"]
    sources = [file for folder in folders for file in sorted(folder.glob("*.c"))]
    sources = [file for file in sources if file.name != "poet_memory.c"]
    return compile_c(
        folder / f"{family}.so",
        [CORE / "core.c", *sources],
        [CORE, *folders, TEMPLATES / "hal", TEMPLATES / "hal/cortex_m"],
        *("-include", str(CORE / "core.h"), "-shared", "-fPIC", *quiet, *flags),
    )


def connect(library: ctypes.CDLL, callbacks: Mapping[str, object]) -> list[object]:
    """Have the library call these; what is returned must be kept as long as it is used."""
    for name, callback in callbacks.items():
        address = ctypes.cast(callback, ctypes.c_void_p).value  # type: ignore[arg-type]
        ctypes.c_void_p.in_dll(library, name).value = address
    return list(callbacks.values())


@dataclass(frozen=True)
class Trained:
    """What the sample project comes to."""

    lines: list[str]
    weight: bytes


def trained_here(folder: Path, steps: int) -> Trained:
    """The sample project run as a program of this computer."""
    native = compile_sample(folder / "native", "posix")
    image = folder / "storage.img"
    image.write_bytes(sample_image(steps=steps))
    code, lines = run_program([str(native), str(image)], folder)
    assert code == 0
    content = image.read_bytes()
    lines = [line for line in lines if not line.startswith("@storage ")]  # it is a file here only
    return Trained(lines, content[slot_offset(content, "weight") :][:4])


class Board(Generic[ChipT]):
    """The drivers on a chip, with variables of their own.

    Attributes:
        steps: how many `run` trains.
    """

    steps: ClassVar[int] = 1

    def __init__(self, library: Path, chip: ChipT) -> None:
        with NamedTemporaryFile(suffix=".so") as copy:
            copy.write(library.read_bytes())
            copy.flush()
            self.library = ctypes.CDLL(copy.name)
        self.chip = chip
        self._kept = chip.install(self.library)

    def start(self) -> int:
        return self.call("poet_hal_init")

    def call(self, name: str, *arguments: object) -> int:
        status: int = self.library[name](*arguments)
        assert self.chip.misuse == []
        return status

    def run(self) -> list[str]:
        """Run the sample project on a card with its image; the console's lines."""
        image = bytes(sample_image(steps=self.steps))
        blocks = range(len(image) // BLOCK)
        self.chip.card.content = {i: image[i * BLOCK :][:BLOCK] for i in blocks}
        self.call("test_run")
        return self.chip.console.decode().splitlines()

    @property
    def weight(self) -> bytes:
        """What was trained, on the card."""
        return self.chip.card.block(slot_offset(sample_image(), "weight") // BLOCK)[:4]
