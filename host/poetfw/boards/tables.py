# SPDX-License-Identifier: Apache-2.0
"""Tables of a board file, `boards/<name>.toml`, and the checks between them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from poetfw.boards.environments import known_environments
from poetfw.boards.hal import families, family_bytes, family_transfers
from poetfw.boards.toolchain import Toolchain, make_toolchain
from poetfw.common.resources import cores_dir

# The upper limits are far beyond any machine: they catch a figure written in the wrong unit.
_Bytes = Annotated[int, Field(gt=0, le=2**40)]
_BytesOrZero = Annotated[int, Field(ge=0, le=2**40)]
_BytesWritten = Annotated[int, Field(ge=10**6, le=10**18)]
_BlockBytes = Annotated[int, Field(ge=512, le=65536, multiple_of=512)]
_Hertz = Annotated[int, Field(ge=1_000, le=100_000_000_000)]
_PerSecond = Annotated[float, Field(ge=1, le=1e15, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)]
_Watts = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
_WattsOrZero = Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)]
_SecondsPerByte = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_JoulesPerByte = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Cycles = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_Joules = Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)]


# These end up in file names, linker arguments and C string literals.
def _identifier(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        raise ValueError("must be 1 to 40 lower-case letters, digits, - and _")
    return name


_Identifier = Annotated[str, AfterValidator(_identifier)]
_Line = Annotated[str, Field(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _known_family(name: str) -> str:
    if name not in families():
        raise ValueError(f"must be a HAL family that poetfw has, one of {', '.join(families())}")
    return name


def _known_environment(name: str) -> str:
    if name not in known_environments():
        known = ", ".join(sorted(known_environments()))
        raise ValueError(f"must be an environment of platformio.ini, one of {known}")
    return name


def _known_core(name: str) -> str:
    known = [path.stem for path in sorted(cores_dir().glob("*.toml"))]
    if name not in known:
        raise ValueError(
            f"must be a core whose prices poetfw has, one of {', '.join(known)}, or left out"
        )
    return name


_Family = Annotated[str, AfterValidator(_known_family)]
_Environment = Annotated[str, AfterValidator(_known_environment)]
_Core = Annotated[str, AfterValidator(_known_core)]

_Value = TypeVar("_Value")


class Table(BaseModel):
    """Base of tables, which refuse unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Figure(Table, Generic[_Value]):
    """Number and its source."""

    value: _Value
    source: _Line


class _Cpu(Table):
    core: _Line
    clock_hz: Figure[_Hertz]


class _Memory(Table):
    ram_bytes: Figure[_Bytes]
    flash_bytes: Figure[_Bytes]
    reserved_flash_bytes: Figure[_BytesOrZero] | None = None
    reserved_ram_bytes: Figure[_BytesOrZero]
    stack_bytes: Figure[_Bytes]

    @model_validator(mode="after")
    def _leaves_room(self) -> _Memory:
        taken = self.reserved_ram_bytes.value + self.stack_bytes.value
        flaws = []
        if taken >= self.ram_bytes.value:
            flaws.append(
                f"reserved_ram_bytes and stack_bytes together ({taken}) leave nothing of "
                f"ram_bytes ({self.ram_bytes.value})"
            )
        if self.reserved_flash >= self.flash_bytes.value:
            flaws.append(
                f"reserved_flash_bytes ({self.reserved_flash}) leave nothing of "
                f"flash_bytes ({self.flash_bytes.value})"
            )
        if flaws:
            raise ValueError("; ".join(flaws))
        return self

    @property
    def reserved_flash(self) -> int:
        return 0 if self.reserved_flash_bytes is None else self.reserved_flash_bytes.value


class ComputeTable(Table):
    """Rates and prices of computing."""

    macs_per_s: Figure[_PerSecond]
    ram_bandwidth_bytes_per_s: Figure[_PerSecond]
    exact: bool = True
    arithmetic: Literal["separate", "fma"] = "separate"
    prices: _Core | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 1


class CoreFile(Table):
    """Cycles and instructions of kernels on a core: `boards/cores/<core>.toml`."""

    source: _Line
    exact: bool
    cycles: dict[str, dict[str, _Cycles]]
    instructions: dict[str, dict[str, _Cycles]] = {}

    @staticmethod
    def of(core: str) -> CoreFile:
        """Read the file of a known core."""
        text = (cores_dir() / f"{core}.toml").read_text(encoding="utf-8")
        return CoreFile.model_validate(tomllib.loads(text))


class _Power(Table):
    active_w: Figure[_Watts]
    dcdc_active_w: Figure[_Watts] | None = None
    idle_w: Figure[_WattsOrZero]
    standby_w: Figure[_WattsOrZero]


class _Beside(Table):
    bandwidth_bytes_per_s: Figure[_PerSecond]
    latency_s: Figure[_Seconds]
    core_latency_s: Figure[_Seconds]
    core_s_per_byte: Figure[_SecondsPerByte]


class TransferRates(Table):
    """Rates and prices of transfers in one direction."""

    bandwidth_bytes_per_s: Figure[_PerSecond]
    latency_s: Figure[_Seconds]
    energy_j_per_byte: Figure[_JoulesPerByte]
    energy_j: Figure[_Joules]
    beside: _Beside | None = None


class StorageTable(Table):
    """Default storage of the board."""

    kind: _Identifier
    overlap: bool = False
    size_bytes: Figure[_Bytes] | None = None
    erase_bytes: Figure[_BlockBytes] | None = None
    endurance_bytes: Figure[_BytesWritten] | None = None
    block_bytes: Figure[_BlockBytes]
    standby_power_w: Figure[_WattsOrZero]
    page_in: TransferRates
    page_out: TransferRates

    @model_validator(mode="after")
    def _spreads_writes(self) -> StorageTable:
        if self.endurance_bytes is not None and self.erase_bytes is not None:
            raise ValueError(
                "endurance_bytes is of storage that spreads its writes, as a card does: leave it "
                "out where erase_bytes is given, as each sector of that flash wears by itself"
            )
        return self


class _Firmware(Table):
    hal: _Family
    platformio_env: _Environment
    dcdc_inductor: bool = False
    console_baud: Literal[115_200, 1_000_000] = 115_200


class _Training(Table):
    batch: Annotated[int, Field(ge=1)] | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None


class _Toolchain(Table):
    compiler: str
    core: str | None = None
    float_abi: str | None = None
    fpu: str | None = None
    flags: list[str] = []

    @model_validator(mode="after")
    def _is_allowed(self) -> _Toolchain:
        self.made()
        return self

    def made(self) -> Toolchain:
        return make_toolchain(**dict(self))


class ReferenceTable(Table):
    """Machine of a twin's reference, with more RAM."""

    ram_bytes: Figure[_Bytes]
    platformio_env: _Environment
    emulator: _Identifier | None = None
    machine: _Identifier | None = None
    cpu: _Identifier | None = None
    options: list[_Identifier] = []
    hal: _Family | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> ReferenceTable:
        given = self.model_fields_set & {"machine", "cpu", "options", "hal"}
        if given and self.emulator is None:
            raise ValueError(
                f"emulator is missing: with {', '.join(sorted(given))} this is another machine "
                "than the twin's, and must be described in whole"
            )
        return self


class TwinTable(Table):
    """Emulated machine for the board's firmware."""

    name: _Identifier
    emulator: _Identifier
    machine: _Identifier | None = None
    cpu: _Identifier | None = None
    options: list[_Identifier] = []
    hal: _Family | None = None
    platformio_env: _Environment | None = None
    reference: ReferenceTable | None = None


class OtherStorageTable(StorageTable):
    """Alternative storage of the board, with twins of its own."""

    hal: _Family
    platformio_env: _Environment
    twin: list[TwinTable] = []


class BoardFile(Table):
    """A board file."""

    schema_version: Literal[1]
    name: _Identifier
    description: _Line
    cpu: _Cpu
    memory: _Memory
    compute: ComputeTable
    power: _Power
    firmware: _Firmware | None = None
    toolchain: _Toolchain | None = None
    training: _Training = _Training()
    storage: StorageTable | None = None
    other_storage: list[OtherStorageTable] = []
    twin: list[TwinTable] = []

    @property
    def kinds(self) -> list[str | None]:
        """Kinds of storage, the default first; [None] for a board without storage."""
        first = None if self.storage is None else self.storage.kind
        return [first, *(storage.kind for storage in self.other_storage)]

    def storage_of(self, kind: str | None) -> StorageTable | None:
        """The storage of a kind, one of `kinds`."""
        for storage in self.other_storage:
            if storage.kind == kind:
                return storage
        return self.storage

    def twins_with(self, kind: str | None) -> list[TwinTable]:
        """Twins with this storage: the storage's own if it names any, else the board's."""
        storage = self.storage_of(kind)
        own = storage.twin if isinstance(storage, OtherStorageTable) else []
        return list({twin.name: twin for twin in (*self.twin, *own)}.values())

    def firmware_with(self, kind: str | None) -> _Firmware | None:
        """Build settings of the board's firmware with this storage."""
        storage = self.storage_of(kind)
        if self.firmware is None or not isinstance(storage, OtherStorageTable):
            return self.firmware
        changed = {"hal": storage.hal, "platformio_env": storage.platformio_env}
        return self.firmware.model_copy(update=changed)

    def hal_families(self, kind: str | None) -> list[str]:
        """HAL families of the board with this storage and of its twins; empty without firmware."""
        firmware = self.firmware_with(kind)
        if firmware is None:
            return []
        tables = [table for twin in self.twins_with(kind) for table in (twin, twin.reference)]
        named = [table.hal for table in tables if table is not None and table.hal is not None]
        return list(dict.fromkeys([firmware.hal, *named]))


def _firmware_is_whole(file: BoardFile) -> Iterator[str]:
    if file.twin and file.firmware is None:
        yield "a board with a twin needs a firmware table"
    if (file.firmware is None) != (file.toolchain is None):
        yield "the tables firmware and toolchain need each other"
    for twins in (file.twin, *(storage.twin for storage in file.other_storage)):
        if len({twin.name for twin in twins}) != len(twins):
            yield "two twins have the same name"


def _storages_are_told_apart(file: BoardFile) -> Iterator[str]:
    if file.other_storage and (file.storage is None or file.firmware is None):
        yield "the table other_storage needs the tables storage and firmware"
    if len(set(file.kinds)) != len(file.kinds):
        yield "two storages are of the same kind"


def _prices_are_of_these_sums(file: BoardFile) -> Iterator[str]:
    name = file.compute.prices
    if name is not None and (exact := CoreFile.of(name).exact) != file.compute.exact:
        yield (
            f"compute.prices must be left out, and measured with `poetfw profile`: those of "
            f"{name!r} were counted with exact = {str(exact).lower()}, and the board has other sums"
        )


def _sums_fit_the_core(file: BoardFile) -> Iterator[str]:
    compute = file.compute
    made = None if file.toolchain is None else file.toolchain.made()
    if not compute.exact and (made is None or not made.soft_float):
        yield (
            "compute.exact must be true: sums in integers are for cores without a "
            "floating-point unit"
        )
    if compute.arithmetic == "fma" and (made is None or not made.fast_fma):
        yield (
            'compute.arithmetic must be "separate": the core multiplies and adds in one '
            "instruction slowly, or not at all"
        )
    if compute.threads > 1 and (made is None or not made.hosted):
        yield "compute.threads must be 1: there is no operating system for more"


def _firmware_overlaps(file: BoardFile) -> Iterator[str]:
    for kind in file.kinds:
        storage = file.storage_of(kind)
        if file.firmware is None or storage is None or not storage.overlap:
            continue
        for family in file.hal_families(kind):
            if family_transfers(family) == 0:
                yield (
                    f"storage.overlap must be false: firmware of the HAL family {family!r} "
                    "waits for every transfer"
                )


def _machines_have_the_memory(file: BoardFile) -> Iterator[str]:
    needed = {name: getattr(file.memory, name).value for name in ("ram_bytes", "flash_bytes")}
    for kind in file.kinds:
        for family in file.hal_families(kind):
            for name, size in needed.items():
                most = family_bytes(family, name)
                if most is not None and size > most:
                    yield (
                        f"memory.{name} must be at most {most}, which the machine of the HAL "
                        f"family {family!r} has, not {size}: name another twin, or none"
                    )


_BUILT = frozenset({"firmware", "toolchain", "twin", "storage", "other_storage"})
CHECKS: tuple[tuple[frozenset[str], Callable[[BoardFile], Iterator[str]]], ...] = (
    (_BUILT, _firmware_is_whole),
    (_BUILT, _storages_are_told_apart),
    (frozenset({"compute"}), _prices_are_of_these_sums),
    (frozenset({"compute", "toolchain"}), _sums_fit_the_core),
    (_BUILT, _firmware_overlaps),
    (_BUILT | {"memory"}, _machines_have_the_memory),
)
"""Checks between tables: the tables that each reads, and the check itself."""
