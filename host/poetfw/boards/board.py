# SPDX-License-Identifier: Apache-2.0
"""A board's description: plain, checked values.

Every figure comes from the board's TOML file and keeps the source it names there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from poetfw.boards.toolchain import Toolchain
from poetfw.common.errors import BoardError, DataError
from poetfw.common.transfer import Transfer


@dataclass(frozen=True, slots=True)
class Price:
    """The cycles that an operator's kernel takes on a core.

    Attributes:
        fixed: of a call.
        mac: of a multiply-accumulate.
        byte: of a byte that it reads or writes.
    """

    fixed: float
    mac: float
    byte: float


class Arithmetic(StrEnum):
    """Rounding of sums of products: of convolutions, dense layers and matrix products."""

    SEPARATE = "separate"
    """Each product, and each sum."""

    FMA = "fma"
    """A product and the sum it is added to at once, where the core does both in one instruction."""

    INTEGERS = "integers"
    """Once, at the end of a result: for cores without a floating-point unit."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Speed of the board's core.

    Attributes:
        macs_per_s: 32-bit floating-point multiply-accumulates per second.
        ram_bandwidth_bytes_per_s: bytes per second between core and RAM.
        arithmetic: how sums of products are rounded. Boards of one class have the same bits.
        prices: what operators take, by kind; of those without one, the two figures above decide.
        instructions: instructions that the core executes for each unit of a feature of
            `poetfw.costs.features`, by feature, by C function or C file.
        threads: that kernels divide their results among, to the same bits.
    """

    macs_per_s: float
    ram_bandwidth_bytes_per_s: float
    arithmetic: Arithmetic = Arithmetic.SEPARATE
    prices: Mapping[str, Price] = field(default_factory=dict)
    instructions: Mapping[str, Mapping[str, float]] = field(default_factory=dict, repr=False)
    threads: int = 1

    @property
    def exact(self) -> bool:
        """True if sums of products have the bits that they have on most boards."""
        return self.arithmetic is Arithmetic.SEPARATE


@dataclass(frozen=True, slots=True)
class Power:
    """The watts that the board draws in each of its states, without its storage.

    Attributes:
        active_w: while it computes.
        idle_w: while it waits for an event.
        standby_w: in its deepest state that keeps RAM.
    """

    active_w: float
    idle_w: float
    standby_w: float


@dataclass(frozen=True, slots=True)
class BoardStorage:
    """The auxiliary storage (AUX) of a board.

    Attributes:
        kind: what it is: `sd-spi`, `qspi`, `file`.
        block_bytes: bytes of the smallest transfer.
        page_in: from storage to RAM.
        page_out: from RAM to storage.
        standby_power_w: what it draws while nothing is transferred.
        overlap: True if a transfer runs while the core computes.
        size_bytes: how much it holds; None for as much as is put into it.
        erase_bytes: what is erased at once before it can be written; None where nothing is.
    """

    kind: str
    block_bytes: int
    page_in: Transfer
    page_out: Transfer
    standby_power_w: float
    overlap: bool
    size_bytes: int | None = None
    erase_bytes: int | None = None

    def require_room(self, image_bytes: int) -> None:
        """Check that it can hold an image.

        Raises:
            DataError: It is too small.
        """
        if self.size_bytes is not None and image_bytes > self.size_bytes:
            raise DataError(
                f"the storage image has {image_bytes:,} bytes, and the storage {self.kind!r} holds "
                f"{self.size_bytes:,}",
                "give fewer samples",
                "or choose another storage of the board (`poetfw boards`)",
            )


@dataclass(frozen=True, slots=True)
class FirmwareSupport:
    """Build settings of a board's firmware.

    Attributes:
        hal: the HAL family that drives it.
        platformio_env: the PlatformIO environment that builds for it.
        toolchain: the compiler, and what it must be told of the processor.
        transfers: how many may be under way while the core computes, on the board and on its
            twins; 0 where the firmware waits for each.
        dcdc_inductor: True if the board has the inductor of the chip's DC/DC converter.
        console_baud: bits per second on its serial line.
    """

    hal: str
    platformio_env: str
    toolchain: Toolchain
    transfers: int = 0
    dcdc_inductor: bool = False
    console_baud: int = 115_200


@dataclass(frozen=True, slots=True)
class TrainingDefaults:
    """Settings that a build for a board trains with by default; None for no opinion.

    Attributes:
        batch: samples in a batch.
        momentum: the optimizer's.
    """

    batch: int | None = None
    momentum: float | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that runs firmware in a board's place.

    Attributes:
        emulator: name of the emulator that it is a machine of.
        machine: the emulator's name for it; None where the emulator has only one.
        cpu: the emulator's name for the processor; None for the machine's own.
        options: what else the emulator is asked for, in poetfw's words.
        hal: the HAL family that drives it.
        platformio_env: the PlatformIO environment that builds for it; None where it runs the very
            program that runs on the board.
        ram_bytes: RAM that firmware may use there; None for as much as the board has.
        threads: that kernels divide their results among there; None for as many as the build says.
    """

    emulator: str
    machine: str | None
    cpu: str | None
    options: tuple[str, ...]
    hal: str
    platformio_env: str | None
    ram_bytes: int | None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Twin:
    """The machine on which a board's firmware is tested.

    Attributes:
        name: what `--emulator` calls it.
        machine: itself, limited to what the board has.
        reference: the one with RAM enough to train without a schedule, for comparison.
    """

    name: str
    machine: Machine
    reference: Machine


@dataclass(frozen=True, slots=True)
class Board:
    """A board.

    Attributes:
        name: its name, which is also that of its file.
        description: one line for people.
        core: the processor core, such as `Cortex-M4F`.
        clock_hz: the core's clock.
        ram_bytes: all RAM.
        flash_bytes: all flash for programs.
        reserved_flash_bytes: flash from its start that a bootloader or the like keeps for itself.
        reserved_ram_bytes: RAM that a bootloader or the like keeps for itself.
        stack_bytes: RAM set aside for the stack.
        firmware: how firmware is built for it; None where it can only be scheduled for.
        compute: how fast it works.
        power: what it draws.
        storage: what tensors are paged to, or None.
        twins: the machines on which its firmware is tested, the one to take first.
        training: what builds for it train with unless they are told otherwise.
        sources: where each figure comes from, by its key path, such as `power.active_w`.
        path: the file it was read from.
        storages: the kinds of storage that the file has, the one to take first.
    """

    name: str
    description: str
    core: str
    clock_hz: int
    ram_bytes: int
    flash_bytes: int
    reserved_flash_bytes: int
    reserved_ram_bytes: int
    stack_bytes: int
    firmware: FirmwareSupport | None
    compute: Compute
    power: Power
    storage: BoardStorage | None
    twins: tuple[Twin, ...]
    path: Path
    training: TrainingDefaults = TrainingDefaults()
    sources: Mapping[str, str] = field(default_factory=dict)
    storages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    @property
    def label(self) -> str:
        """The name that `--board` takes, with its storage where that is not the first."""
        if self.storage is None or self.storage.kind == self.storages[0]:
            return self.name
        return f"{self.name}:{self.storage.kind}"

    @property
    def processor(self) -> str:
        """The core, and how many threads share an op: what the time of one depends on."""
        threads = self.compute.threads
        return self.core if threads == 1 else f"{self.core}, {threads} threads"

    @property
    def unreserved_bytes(self) -> int:
        """RAM for arena and static data: without what a bootloader and the stack take."""
        return self.ram_bytes - self.reserved_ram_bytes - self.stack_bytes

    def with_threads(self, threads: int | None) -> Board:
        """The board with another number of threads; itself where that is None.

        Raises:
            BoardError: There is no operating system for several.
        """
        if threads is None or threads == self.compute.threads:
            return self
        if not self.toolchain.hosted:
            raise BoardError(
                f"board {self.name!r} has no operating system: its kernels run on 1 thread",
                "leave --threads out",
            )
        return replace(self, compute=replace(self.compute, threads=threads))

    def require_firmware(self) -> FirmwareSupport:
        """Return the build settings of the board's firmware.

        Raises:
            BoardError: It can only be scheduled for.
        """
        if self.firmware is None:
            raise BoardError(
                f"board {self.name!r} has no firmware support yet; `poetfw schedule` works",
                "choose a board with firmware support (`poetfw boards`)",
            )
        return self.firmware

    @property
    def hal(self) -> str:
        """The HAL family that drives it; raises `BoardError` without firmware support."""
        return self.require_firmware().hal

    @property
    def platformio_env(self) -> str:
        """The PlatformIO environment for it; raises `BoardError` without firmware support."""
        return self.require_firmware().platformio_env

    @property
    def console_baud(self) -> int:
        """Bits per second on its serial line; raises `BoardError` without firmware support."""
        return self.require_firmware().console_baud

    @property
    def overlaps(self) -> bool:
        """True if transfers run while the core computes."""
        return self.storage is not None and self.storage.overlap

    @property
    def erase_bytes(self) -> int | None:
        """Bytes of its storage that are erased at once before they are written, or None."""
        return None if self.storage is None else self.storage.erase_bytes

    @property
    def toolchain(self) -> Toolchain:
        """The compiler for it; raises `BoardError` without firmware support."""
        return self.require_firmware().toolchain

    def twin(self, name: str | None = None) -> Twin:
        """One of its twins.

        Args:
            name: which one; None for the first.

        Raises:
            BoardError: It has no twin, or no twin of that name.
        """
        self.require_firmware()
        if not self.twins:
            raise BoardError(
                f"board {self.name!r} has no twin: nothing on this computer runs its firmware",
                "add a [[twin]] table to its file",
            )
        for twin in self.twins:
            if name in (None, twin.name):
                return twin
        raise BoardError(
            f"board {self.name!r} has no emulator called {name!r:.60}",
            "use one of: " + ", ".join(twin.name for twin in self.twins),
        )
