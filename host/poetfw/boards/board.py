# SPDX-License-Identifier: Apache-2.0
"""What poetfw knows about a board: plain, checked values.

Every figure comes from the board's TOML file and keeps the source it names there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from poetfw.errors import BoardError
from poetfw.transfer import Transfer


@dataclass(frozen=True, slots=True)
class Compute:
    """How fast the board's core works.

    Attributes:
        macs_per_s: 32-bit floating-point multiply-accumulates per second.
        ram_bandwidth_bytes_per_s: bytes per second between core and RAM.
    """

    macs_per_s: float
    ram_bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Power:
    """What the board draws in each of its states, without its storage, in watts.

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
        kind: `sd-spi` or `file`.
        block_bytes: bytes of the smallest transfer.
        page_in: from storage to RAM.
        page_out: from RAM to storage.
        standby_power_w: what it draws while nothing is transferred.
        overlap: whether a transfer runs while the core computes.
    """

    kind: str
    block_bytes: int
    page_in: Transfer
    page_out: Transfer
    standby_power_w: float
    overlap: bool


@dataclass(frozen=True, slots=True)
class FirmwareSupport:
    """How firmware is built for a board.

    Attributes:
        hal: the HAL family that drives it.
        platformio_env: the PlatformIO environment that builds for it.
        dcdc_inductor: whether the board has the inductor of the chip's DC/DC converter.
    """

    hal: str
    platformio_env: str
    dcdc_inductor: bool = False


@dataclass(frozen=True, slots=True)
class Twin:
    """The emulated machine on which a board's firmware is tested.

    Attributes:
        emulator: `qemu`.
        machine: the emulator's name for the machine.
        hal: the HAL family that drives it.
        platformio_env: the PlatformIO environment that builds for it, limited to the board's RAM.
        reference_env: the same machine with RAM enough to train without a schedule.
    """

    emulator: str
    machine: str
    hal: str
    platformio_env: str
    reference_env: str


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
        reserved_ram_bytes: RAM that a bootloader or the like keeps for itself.
        stack_bytes: RAM set aside for the stack.
        firmware: how firmware is built for it; None where it can only be scheduled for.
        compute: how fast it works.
        power: what it draws.
        storage: what tensors are paged to, or None.
        twin: the emulated machine that stands for it, or None where the board is this computer.
        sources: where each figure comes from, by its key path, such as `power.active_w`.
        path: the file it was read from.
    """

    name: str
    description: str
    core: str
    clock_hz: int
    ram_bytes: int
    flash_bytes: int
    reserved_ram_bytes: int
    stack_bytes: int
    firmware: FirmwareSupport | None
    compute: Compute
    power: Power
    storage: BoardStorage | None
    twin: Twin | None
    path: Path
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    def require_firmware(self) -> FirmwareSupport:
        """How firmware is built for the board.

        Raises:
            BoardError: it can only be scheduled for.
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
