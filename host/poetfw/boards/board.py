# SPDX-License-Identifier: Apache-2.0
"""Description of a board as checked values.

Figures come from the board's TOML file; each keeps its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from poetfw.boards.environments import SYSTEM_SUFFIX, known_environments
from poetfw.boards.toolchain import STOCK, Toolchain
from poetfw.common.errors import BoardError, DataError
from poetfw.common.transfer import Transfer


class Arithmetic(StrEnum):
    """Rounding of sums of products in convolutions, dense layers and matrix products."""

    SEPARATE = "separate"
    """Products and sums are rounded separately."""

    FMA = "fma"
    """Fused multiply-add: a product and its addition are rounded once, by one instruction."""

    INTEGERS = "integers"
    """A result is rounded once, at its end, on cores without a floating-point unit."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Speed of the board's core.

    Attributes:
        macs_per_s: 32-bit floating-point multiply-accumulates per second.
        ram_bandwidth_bytes_per_s: bytes per second between core and RAM.
        arithmetic: rounding of sums of products. Boards of one class compute the same bits.
        cycles: estimated cycles that the core takes for each unit of a feature of
            `poetfw.costs.features`, by feature, by C function or C file; ops of others are
            estimated from the rates above.
        instructions: instructions that it executes, likewise.
        threads: number of threads among which kernels divide their results, with the same bits.
    """

    macs_per_s: float
    ram_bandwidth_bytes_per_s: float
    arithmetic: Arithmetic = Arithmetic.SEPARATE
    cycles: Mapping[str, Mapping[str, float]] = field(default_factory=dict, repr=False)
    instructions: Mapping[str, Mapping[str, float]] = field(default_factory=dict, repr=False)
    threads: int = 1

    @property
    def exact(self) -> bool:
        """True if sums of products have the same bits as on most boards."""
        return self.arithmetic is Arithmetic.SEPARATE


@dataclass(frozen=True, slots=True)
class Power:
    """Power of a board without its storage, in watts.

    Attributes:
        active_w: while the core computes.
        idle_w: while the core waits for an event.
        standby_w: in the deepest sleep state that retains RAM.
    """

    active_w: float
    idle_w: float
    standby_w: float


@dataclass(frozen=True, slots=True)
class BoardStorage:
    """Auxiliary storage (AUX) of a board.

    Attributes:
        kind: `sd-spi`, `qspi` or `file`.
        block_bytes: size of the smallest transfer.
        page_in: costs of transfers from storage to RAM.
        page_out: costs of transfers from RAM to storage.
        standby_power_w: power in watts while nothing is transferred.
        overlap: True if transfers overlap with computing.
        size_bytes: capacity; None for no limit.
        erase_bytes: size of the unit that must be erased before writing; None without erasing.
        endurance_bytes: bytes that may be written in its life, as it is rated; None if not known.
    """

    kind: str
    block_bytes: int
    page_in: Transfer
    page_out: Transfer
    standby_power_w: float
    overlap: bool
    size_bytes: int | None = None
    erase_bytes: int | None = None
    endurance_bytes: int | None = None

    def require_room(self, image_bytes: int) -> None:
        """Check that an image fits the storage.

        Raises:
            DataError: The image exceeds the capacity.
        """
        if self.size_bytes is not None and image_bytes > self.size_bytes:
            raise DataError(
                f"the storage image has {image_bytes:,} bytes, and the storage {self.kind!r} holds "
                f"{self.size_bytes:,}",
                "give fewer samples, or a smaller network",
                "or choose another storage of the board (`poetfw boards`)",
            )


@dataclass(frozen=True, slots=True)
class FirmwareSupport:
    """Build settings of a board's firmware.

    Attributes:
        hal: HAL family with the board's drivers.
        platformio_env: PlatformIO environment that builds the firmware.
        toolchain: compiler and its flags for the processor.
        transfers: maximum number of transfers that overlap with computing, on the board and on its
            twins; 0 if the firmware waits for each.
        dcdc_inductor: True if the board has the inductor of the chip's DC/DC converter.
        console_baud: bit rate of the serial line.
    """

    hal: str
    platformio_env: str
    toolchain: Toolchain
    transfers: int = 0
    dcdc_inductor: bool = False
    console_baud: int = 115_200


@dataclass(frozen=True, slots=True)
class TrainingDefaults:
    """Default training settings of builds for a board; None for the general defaults.

    Attributes:
        batch: samples in a batch.
        momentum: momentum of the optimizer.
    """

    batch: int | None = None
    momentum: float | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Emulated machine that runs firmware instead of a board.

    Attributes:
        emulator: name of the emulator.
        machine: the emulator's name of the machine; None if it has only one.
        cpu: the emulator's name of the processor; None for the machine's default.
        options: further options of the emulator, by poetfw's names.
        hal: HAL family with the machine's drivers.
        platformio_env: PlatformIO environment that builds for the machine; None if it runs the
            board's firmware.
        ram_bytes: RAM available to firmware; None for the board's RAM.
        threads: number of threads of the kernels; None for the build's.
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
    """Emulated machine on which a board's firmware is tested.

    Attributes:
        name: name, as in `--emulator`.
        machine: the machine with the board's memory sizes.
        reference: the machine with enough RAM to train without a schedule, for comparison.
    """

    name: str
    machine: Machine
    reference: Machine


@dataclass(frozen=True, slots=True)
class Board:
    """Description of a board.

    Attributes:
        name: name of the board and of its file.
        description: description in one line.
        core: processor core, such as `Cortex-M4F`.
        clock_hz: clock of the core.
        ram_bytes: total RAM.
        flash_bytes: total flash for programs.
        reserved_flash_bytes: flash at its start that is reserved, such as for a bootloader.
        reserved_ram_bytes: RAM that is reserved, such as for a bootloader.
        stack_bytes: RAM reserved for the stack.
        firmware: build settings; None for a board that can only be scheduled for.
        compute: speed of the core.
        power: power in each state.
        storage: storage for paged tensors, or None.
        twins: emulated machines for its firmware; the first is the default.
        training: default training settings.
        sources: source of each figure by key path, such as `power.active_w`.
        path: file of the description.
        storages: kinds of storage in the file; the first is the default.
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
        """Name as in `--board`, with the storage if it is not the default."""
        if self.storage is None or self.storage.kind == self.storages[0]:
            return self.name
        return f"{self.name}:{self.storage.kind}"

    @property
    def processor(self) -> str:
        """Core and number of threads, on which the time of an op depends."""
        threads = self.compute.threads
        return self.core if threads == 1 else f"{self.core}, {threads} threads"

    @property
    def unreserved_bytes(self) -> int:
        """RAM for arena and static data: the total without reserved RAM and the stack."""
        return self.ram_bytes - self.reserved_ram_bytes - self.stack_bytes

    def with_threads(self, threads: int | None) -> Board:
        """The board with another number of threads; unchanged for None.

        Raises:
            BoardError: Several threads are given, and the board has no operating system.
        """
        if threads is None or threads == self.compute.threads:
            return self
        if not self.toolchain.hosted:
            raise BoardError(
                f"board {self.name!r} has no operating system: its kernels run on 1 thread",
                "leave --threads out",
            )
        return replace(self, compute=replace(self.compute, threads=threads))

    def with_toolchain(self, name: str) -> Board:
        """The board with another toolchain of `toolchains.toml`, or with `stock`.

        Raises:
            BoardError: The toolchain does not build for the board.
        """
        firmware = self.require_firmware()
        try:
            toolchain = firmware.toolchain.of(name)
            if not toolchain.links:
                raise ValueError(f"{name} compiles for its processor, but does not link")
        except ValueError as error:
            known = ", ".join(each.name for each in (firmware.toolchain, *self.toolchain.others))
            raise BoardError(
                f"board {self.name!r}: {error}", f"use another --toolchain: {known}"
            ) from None
        return replace(self, firmware=replace(firmware, toolchain=toolchain))

    def require_firmware(self) -> FirmwareSupport:
        """Return the build settings of the board's firmware.

        Raises:
            BoardError: The board has no firmware support.
        """
        if self.firmware is None:
            raise BoardError(
                f"board {self.name!r} has no firmware support yet; `poetfw schedule` works",
                "choose a board with firmware support (`poetfw boards`)",
            )
        return self.firmware

    @property
    def hal(self) -> str:
        """HAL family; raises `BoardError` without firmware support."""
        return self.require_firmware().hal

    @property
    def platformio_env(self) -> str:
        """PlatformIO environment; raises `BoardError` without firmware support."""
        return self.require_firmware().platformio_env

    @property
    def own_environment(self) -> str:
        """PlatformIO environment that builds for the board with its toolchain."""
        system = self.platformio_env + SYSTEM_SUFFIX
        stock = self.toolchain.name == STOCK or system not in known_environments()
        return self.platformio_env if stock else system

    @property
    def console_baud(self) -> int:
        """Bit rate of the serial line; raises `BoardError` without firmware support."""
        return self.require_firmware().console_baud

    @property
    def overlaps(self) -> bool:
        """True if transfers overlap with computing."""
        return self.storage is not None and self.storage.overlap

    @property
    def erase_bytes(self) -> int | None:
        """Size of the storage's unit that is erased before writing, or None."""
        return None if self.storage is None else self.storage.erase_bytes

    @property
    def toolchain(self) -> Toolchain:
        """Compiler; raises `BoardError` without firmware support."""
        return self.require_firmware().toolchain

    def twin(self, name: str | None = None) -> Twin:
        """Twin of the board.

        Args:
            name: name of the twin; None for the default.

        Raises:
            BoardError: The board has no twin, or none of that name.
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
