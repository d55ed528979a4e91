# SPDX-License-Identifier: Apache-2.0
"""Reads `boards/<name>.toml`: pydantic checks the file, a frozen `Board` comes out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from poetfw.boards.board import (
    Arithmetic,
    Board,
    BoardStorage,
    Compute,
    FirmwareSupport,
    Machine,
    Power,
    Price,
    TrainingDefaults,
    Twin,
)
from poetfw.boards.environments import known_environments
from poetfw.boards.hal import families, family_bytes, family_transfers
from poetfw.boards.toolchain import Toolchain, make_toolchain
from poetfw.common.errors import BoardError, listed
from poetfw.common.reading import expected, read_bytes
from poetfw.common.resources import boards_dir, cores_dir, user_boards_dir
from poetfw.common.transfer import Beside, Transfer

_LARGEST_FILE_BYTES = 256 * 1024

# The upper limits are far beyond any machine: they catch a figure written in the wrong unit.
_Bytes = Annotated[int, Field(gt=0, le=2**40)]
_BytesOrZero = Annotated[int, Field(ge=0, le=2**40)]
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


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Figure(_Table, Generic[_Value]):
    value: _Value
    source: _Line


class _Cpu(_Table):
    core: _Line
    clock_hz: _Figure[_Hertz]


class _Memory(_Table):
    ram_bytes: _Figure[_Bytes]
    flash_bytes: _Figure[_Bytes]
    reserved_flash_bytes: _Figure[_BytesOrZero] | None = None
    reserved_ram_bytes: _Figure[_BytesOrZero]
    stack_bytes: _Figure[_Bytes]

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


class _Compute(_Table):
    macs_per_s: _Figure[_PerSecond]
    ram_bandwidth_bytes_per_s: _Figure[_PerSecond]
    exact: bool = True
    arithmetic: Literal["separate", "fma"] = "separate"
    prices: _Core | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 1


class _Price(_Table):
    fixed: _Cycles
    mac: _Cycles
    byte: _Cycles


class _CoreFile(_Table):
    source: _Line
    exact: bool
    operators: dict[str, _Price]


class _Power(_Table):
    active_w: _Figure[_Watts]
    dcdc_active_w: _Figure[_Watts] | None = None
    idle_w: _Figure[_WattsOrZero]
    standby_w: _Figure[_WattsOrZero]


class _Beside(_Table):
    bandwidth_bytes_per_s: _Figure[_PerSecond]
    latency_s: _Figure[_Seconds]
    core_latency_s: _Figure[_Seconds]
    core_s_per_byte: _Figure[_SecondsPerByte]


class _Transfer(_Table):
    bandwidth_bytes_per_s: _Figure[_PerSecond]
    latency_s: _Figure[_Seconds]
    energy_j_per_byte: _Figure[_JoulesPerByte]
    energy_j: _Figure[_Joules]
    beside: _Beside | None = None


class _Storage(_Table):
    kind: _Identifier
    overlap: bool = False
    size_bytes: _Figure[_Bytes] | None = None
    erase_bytes: _Figure[_BlockBytes] | None = None
    block_bytes: _Figure[_BlockBytes]
    standby_power_w: _Figure[_WattsOrZero]
    page_in: _Transfer
    page_out: _Transfer


class _Firmware(_Table):
    hal: _Family
    platformio_env: _Environment
    dcdc_inductor: bool = False
    console_baud: Literal[115_200, 1_000_000] = 115_200


class _Training(_Table):
    batch: Annotated[int, Field(ge=1)] | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None


class _Toolchain(_Table):
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


class _Reference(_Table):
    ram_bytes: _Figure[_Bytes]
    platformio_env: _Environment
    emulator: _Identifier | None = None
    machine: _Identifier | None = None
    cpu: _Identifier | None = None
    options: list[_Identifier] = []
    hal: _Family | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> _Reference:
        given = self.model_fields_set & {"machine", "cpu", "options", "hal"}
        if given and self.emulator is None:
            raise ValueError(
                f"emulator is missing: with {', '.join(sorted(given))} this is another machine "
                "than the twin's, and must be described in whole"
            )
        return self


class _Twin(_Table):
    name: _Identifier
    emulator: _Identifier
    machine: _Identifier | None = None
    cpu: _Identifier | None = None
    options: list[_Identifier] = []
    hal: _Family | None = None
    platformio_env: _Environment | None = None
    reference: _Reference | None = None


class _OtherStorage(_Storage):
    hal: _Family
    platformio_env: _Environment
    twin: list[_Twin] = []


class _BoardFile(_Table):
    schema_version: Literal[1]
    name: _Identifier
    description: _Line
    cpu: _Cpu
    memory: _Memory
    compute: _Compute
    power: _Power
    firmware: _Firmware | None = None
    toolchain: _Toolchain | None = None
    training: _Training = _Training()
    storage: _Storage | None = None
    other_storage: list[_OtherStorage] = []
    twin: list[_Twin] = []

    @property
    def kinds(self) -> list[str | None]:
        """Kinds of its storages, the default first; [None] for a board without storage."""
        first = None if self.storage is None else self.storage.kind
        return [first, *(storage.kind for storage in self.other_storage)]

    def storage_of(self, kind: str | None) -> _Storage | None:
        """The storage of a kind, one of `kinds`."""
        for storage in self.other_storage:
            if storage.kind == kind:
                return storage
        return self.storage

    def twins_with(self, kind: str | None) -> list[_Twin]:
        """Twins with this storage: the storage's own if it names any, else the board's."""
        storage = self.storage_of(kind)
        own = storage.twin if isinstance(storage, _OtherStorage) else []
        return list({twin.name: twin for twin in (*self.twin, *own)}.values())

    def firmware_with(self, kind: str | None) -> _Firmware | None:
        """Build settings of the board's firmware with this storage."""
        storage = self.storage_of(kind)
        if self.firmware is None or not isinstance(storage, _OtherStorage):
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


def _firmware_is_whole(file: _BoardFile) -> Iterator[str]:
    if file.twin and file.firmware is None:
        yield "a board with a twin needs a firmware table"
    if (file.firmware is None) != (file.toolchain is None):
        yield "the tables firmware and toolchain need each other"
    for twins in (file.twin, *(storage.twin for storage in file.other_storage)):
        if len({twin.name for twin in twins}) != len(twins):
            yield "two twins have the same name"


def _storages_are_told_apart(file: _BoardFile) -> Iterator[str]:
    if file.other_storage and (file.storage is None or file.firmware is None):
        yield "the table other_storage needs the tables storage and firmware"
    if len(set(file.kinds)) != len(file.kinds):
        yield "two storages are of the same kind"


def _prices_are_of_these_sums(file: _BoardFile) -> Iterator[str]:
    name = file.compute.prices
    if name is not None and (exact := _core_file(name).exact) != file.compute.exact:
        yield (
            f"compute.prices must be left out, and measured with `poetfw profile`: those of "
            f"{name!r} were counted with exact = {str(exact).lower()}, and the board has other sums"
        )


def _sums_fit_the_core(file: _BoardFile) -> Iterator[str]:
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


def _firmware_overlaps(file: _BoardFile) -> Iterator[str]:
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


def _machines_have_the_memory(file: _BoardFile) -> Iterator[str]:
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
_CHECKS: tuple[tuple[frozenset[str], Callable[[_BoardFile], Iterator[str]]], ...] = (
    (_BUILT, _firmware_is_whole),
    (_BUILT, _storages_are_told_apart),
    (frozenset({"compute"}), _prices_are_of_these_sums),
    (frozenset({"compute", "toolchain"}), _sums_fit_the_core),
    (_BUILT, _firmware_overlaps),
    (_BUILT | {"memory"}, _machines_have_the_memory),
)
"""Checks between tables: the tables that each reads, and the check itself."""


MachineCheck = Callable[[Machine], object]
"""Checks that an emulator has a machine; raises BoardError where it has not."""


def _checked(
    document: dict[str, Any], check_machine: MachineCheck | None
) -> tuple[_BoardFile, list[str]]:
    """The valid tables of a board file, and every error in the file.

    Checks between tables run on the valid ones too, so that one message reports all errors.
    """
    sound, flaws = set(_BoardFile.model_fields), []
    try:
        file = _BoardFile.model_validate(document)
    except ValidationError as error:
        flaws = list(_complaints(error))
        sound -= {str(detail["loc"][0]) for detail in error.errors(include_url=False)}
        kinds: dict[str, Any] = {name: _BoardFile.model_fields[name].annotation for name in sound}
        file = _BoardFile.model_construct(
            **{
                name: TypeAdapter(kinds[name]).validate_python(value)
                for name, value in document.items()
                if name in sound
            }
        )
    for needs, check in _CHECKS:
        if needs <= sound:
            flaws += [f"the file: {flaw}" for flaw in dict.fromkeys(check(file))]
    if check_machine is not None:
        flaws += dict.fromkeys(_flaws_of_machines(file, sound, check_machine))
    return file, flaws


def _flaws_of_machines(
    file: _BoardFile, sound: set[str], check_machine: MachineCheck
) -> Iterator[str]:
    others = file.other_storage if "other_storage" in sound else []
    lists = {"twin": file.twin if "twin" in sound else []}
    lists |= {f"other_storage.{i}.twin": other.twin for i, other in enumerate(others)}
    for place, tables in lists.items():
        for number, twin in enumerate(_twins(tables, "")):
            for machine in (twin.machine, twin.reference):
                try:
                    check_machine(machine)
                except BoardError as error:
                    advice = f" ({error.try_next[0]})" if error.try_next else ""
                    yield f"{place}.{number}: {error.message}{advice}"


def list_boards(refused: Callable[[BoardError], None] | None = None) -> tuple[Board, ...]:
    """Every board that is known by name, sorted: those that poetfw ships, and the user's own.

    Args:
        refused: is told of each that cannot be used, which is then left out; None to raise that.

    Raises:
        BoardError: one of their files is malformed, or two have one name.
    """
    boards = []
    for name in sorted({*_shipped(), *_own()}):
        try:
            boards.append(_named(name))
        except BoardError as error:
            if refused is None:
                raise
            refused(error)
    return tuple(boards)


def load_board(
    name_or_path: str | Path,
    storage: str | None = None,
    check_machine: MachineCheck | None = None,
) -> Board:
    """A board by name, or from the path of a user's own TOML file.

    A string that ends in `.toml` or holds a path separator is a path. A colon and a kind of storage
    behind either choose among the storages that the board has: `nrf52840:qspi`.

    Args:
        name_or_path: which board.
        storage: which of its storages; None for the first.
        check_machine: checks that the twins' emulators have their machines, for the same error
            message; None where nothing is run.

    Raises:
        BoardError: there is no such board or storage, there are two, or its file is malformed.
    """
    if isinstance(name_or_path, Path):
        return _read(name_or_path, storage, check_machine)
    match = re.fullmatch(r"(.+):([a-z0-9][a-z0-9_-]*)", name_or_path)
    text, kind = (match[1], match[2]) if match else (name_or_path, storage)
    if text.endswith(".toml") or "/" in text or "\\" in text:
        return _read(Path(text), kind, check_machine)
    return _named(text, kind, check_machine)


def _named(name: str, kind: str | None = None, check_machine: MachineCheck | None = None) -> Board:
    shipped, own = _shipped(), _own()
    if name in shipped and name in own:
        raise BoardError(
            f"{own[name]}: poetfw has a board {name!r} of its own",
            "choose another name, in the file and for it",
            f"or move it elsewhere, and give its path: --board path/to/{name}.toml",
        )
    if name in shipped:
        return _read(shipped[name], kind, check_machine)
    if name not in own:
        raise BoardError(
            f"no board is called {name!r}",
            "use one of: " + ", ".join(sorted({*shipped, *own})),
            f"or give the path of a board's TOML file, or put it into {user_boards_dir()}",
        )
    board = _read(own[name], kind, check_machine)
    if board.name != name:
        taken = board.name in shipped or board.name in own
        raise BoardError(
            f"{own[name]}: the board in it is called {board.name!r}, and the file is not",
            f"change the name in it to {name!r}"
            + (f": {board.name!r} is another board's" if taken else ""),
            *([] if taken else [f"or rename the file: {board.name}.toml"]),
        )
    return board


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in sorted(boards_dir().glob("*.toml"))}


def _own() -> dict[str, Path]:
    return {path.stem: path for path in sorted(user_boards_dir().glob("*.toml"))}


def _read(path: Path, kind: str | None = None, check_machine: MachineCheck | None = None) -> Board:
    try:
        if not path.is_file():
            raise BoardError(
                f"{path}: there is no such file",
                "give the path of a board's TOML file, or the name of a board: "
                + ", ".join(sorted({*_shipped(), *_own()})),
            )
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise BoardError(
                f"{path}: the file has more than {_LARGEST_FILE_BYTES} bytes, which no board needs"
            )
        document = tomllib.loads(read_bytes(path, _LARGEST_FILE_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BoardError(f"{path}: not a TOML file: {error}") from error
    except OSError as error:
        raise BoardError(f"{path}: cannot be read: {error.strerror}") from error
    file, flaws = _checked(document, check_machine)
    if flaws:
        raise BoardError(
            f"{path}: " + listed(flaws, "; "),
            f"compare it with a board that ships with poetfw: {boards_dir() / 'nrf52840.toml'}",
        )
    return _board(file, kind, path)


def _complaints(error: ValidationError) -> Iterator[str]:
    """One sentence for each key that is wrong: where, what was expected, what was found."""
    for detail in error.errors(include_url=False):
        place = ".".join(str(part) for part in detail["loc"]) or "the file"
        if detail["type"] == "missing":
            yield f"{place} is missing"
        elif detail["type"] == "extra_forbidden":
            yield f"{place} is not a key of a board file"
        elif detail["type"] == "list_type" and isinstance(detail["input"], dict):
            yield f"{place} must be a list of tables, each written [[{place}]]"
        elif detail["type"] == "model_type":
            yield f'{place} must be a table such as {{ value = 1, source = "data sheet" }}'
        else:
            found = "" if isinstance(detail["input"], dict) else f", not {detail['input']!r:.60}"
            yield f"{place}: {expected(detail)}{found}"


def _board(file: _BoardFile, kind: str | None, path: Path) -> Board:
    kind = kind or file.kinds[0]
    if kind not in file.kinds:
        raise BoardError(
            f"board {file.name!r} has no storage {kind!r}",
            "use one of: " + (", ".join(known for known in file.kinds if known) or "none at all"),
        )
    storage, firmware = file.storage_of(kind), file.firmware_with(kind)
    return Board(
        name=file.name,
        description=file.description,
        core=file.cpu.core,
        clock_hz=file.cpu.clock_hz.value,
        ram_bytes=file.memory.ram_bytes.value,
        flash_bytes=file.memory.flash_bytes.value,
        reserved_flash_bytes=file.memory.reserved_flash,
        reserved_ram_bytes=file.memory.reserved_ram_bytes.value,
        stack_bytes=file.memory.stack_bytes.value,
        firmware=_firmware(file, kind),
        compute=_compute(file.compute),
        power=_power(file),
        storage=None if storage is None else _storage(storage),
        twins=() if firmware is None else _twins(file.twins_with(kind), firmware.hal),
        path=path,
        storages=tuple(known for known in file.kinds if known is not None),
        training=TrainingDefaults(**dict(file.training)),
        sources=dict(_sources(file, "")),
    )


def _compute(table: _Compute) -> Compute:
    values = _values(table)
    name = values.pop("prices")
    operators = {} if name is None else _core_file(name).operators
    prices = {kind: Price(**dict(price)) for kind, price in operators.items()}
    values["arithmetic"] = (
        Arithmetic(table.arithmetic) if values.pop("exact") else Arithmetic.INTEGERS
    )
    return Compute(**values, prices=prices)


def _core_file(core: str) -> _CoreFile:
    """Cycles of each operator on a known core."""
    text = (cores_dir() / f"{core}.toml").read_text(encoding="utf-8")
    return _CoreFile.model_validate(tomllib.loads(text))


def _power(file: _BoardFile) -> Power:
    """The watts that the board draws with the converter that its firmware switches on."""
    values = _values(file.power)
    with_converter = values.pop("dcdc_active_w")
    if with_converter is not None and file.firmware is not None and file.firmware.dcdc_inductor:
        values["active_w"] = with_converter
    return Power(**values)


def _firmware(file: _BoardFile, kind: str | None) -> FirmwareSupport | None:
    firmware = file.firmware_with(kind)
    if firmware is None or file.toolchain is None:
        return None
    return FirmwareSupport(
        **firmware.model_dump(),
        toolchain=file.toolchain.made(),
        transfers=min(map(family_transfers, file.hal_families(kind))),
    )


def _twins(tables: list[_Twin], board_hal: str) -> tuple[Twin, ...]:
    return tuple(
        Twin(table.name, machine, _reference(table.reference, machine, board_hal))
        for table in tables
        for machine in [_machine(table, board_hal)]
    )


def _reference(table: _Reference | None, twin: Machine, board_hal: str) -> Machine:
    if table is None:
        return twin
    return replace(
        twin if table.emulator is None else _machine(table, board_hal),
        platformio_env=table.platformio_env,
        ram_bytes=table.ram_bytes.value,
    )


def _machine(table: _Twin | _Reference, board_hal: str) -> Machine:
    assert table.emulator is not None
    return Machine(
        emulator=table.emulator,
        machine=table.machine,
        cpu=table.cpu,
        options=tuple(table.options),
        hal=table.hal or board_hal,
        platformio_env=table.platformio_env,
        ram_bytes=None,
    )


def _storage(table: _Storage) -> BoardStorage:
    return BoardStorage(
        kind=table.kind,
        block_bytes=table.block_bytes.value,
        page_in=_transfer(table.page_in),
        page_out=_transfer(table.page_out),
        standby_power_w=table.standby_power_w.value,
        overlap=table.overlap,
        size_bytes=None if table.size_bytes is None else table.size_bytes.value,
        erase_bytes=None if table.erase_bytes is None else table.erase_bytes.value,
    )


def _transfer(table: _Transfer) -> Transfer:
    beside = None if table.beside is None else Beside(**_values(table.beside))
    return Transfer(**{**_values(table), "beside": beside})


def _values(table: _Table) -> dict[str, Any]:
    return {key: value.value if isinstance(value, _Figure) else value for key, value in table}


def _sources(table: _Table, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table:
        if isinstance(value, _Figure):
            yield prefix + key, value.source
        elif isinstance(value, _Table):
            yield from _sources(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, _Twin | _OtherStorage):
                    name = entry.name if isinstance(entry, _Twin) else entry.kind
                    yield from _sources(entry, f"{prefix}{key}.{name}.")
