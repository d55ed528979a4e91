# SPDX-License-Identifier: Apache-2.0
"""Loader of `boards/<name>.toml`: pydantic checks the file, and a frozen `Board` is created."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from poetfw.boards.board import (
    Arithmetic,
    Board,
    BoardStorage,
    Compute,
    FirmwareSupport,
    Machine,
    Power,
    TrainingDefaults,
    Twin,
)
from poetfw.boards.hal import family_transfers
from poetfw.boards.tables import (
    CHECKS,
    BoardFile,
    ComputeTable,
    CoreFile,
    Figure,
    OtherStorageTable,
    ReferenceTable,
    StorageTable,
    Table,
    TransferRates,
    TwinTable,
)
from poetfw.common.errors import BoardError, listed
from poetfw.common.reading import expected, read_bytes
from poetfw.common.resources import boards_dir, user_boards_dir
from poetfw.common.transfer import OverlapCosts, Transfer

_LARGEST_FILE_BYTES = 256 * 1024

MachineCheck = Callable[[Machine], object]
"""Function that raises BoardError if an emulator lacks a machine."""


_document = lru_cache(maxsize=64)(tomllib.loads)
"""Read-only table of a TOML text."""


@lru_cache(maxsize=64)
def _checked(text: str) -> tuple[BoardFile, frozenset[str], tuple[str, ...]]:
    """Content of a board file, the names of its valid tables, and all errors in it.

    Checks between tables run on the valid ones too, so that one message reports all errors.
    """
    document = _document(text)
    sound, flaws = set(BoardFile.model_fields), []
    try:
        file = BoardFile.model_validate(document)
    except ValidationError as error:
        flaws = list(_complaints(error))
        sound -= {str(detail["loc"][0]) for detail in error.errors(include_url=False)}
        kinds: dict[str, Any] = {name: BoardFile.model_fields[name].annotation for name in sound}
        file = BoardFile.model_construct(
            **{
                name: TypeAdapter(kinds[name]).validate_python(value)
                for name, value in document.items()
                if name in sound
            }
        )
    for needs, check in CHECKS:
        if needs <= sound:
            flaws += [f"the file: {flaw}" for flaw in dict.fromkeys(check(file))]
    return file, frozenset(sound), tuple(flaws)


def _flaws_of_machines(
    file: BoardFile, sound: Set[str], check_machine: MachineCheck
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
    """All boards known by name, sorted: those of poetfw and the user's own.

    Args:
        refused: called with the error of each unusable board, which is left out; None to raise it.

    Raises:
        BoardError: One of their files is malformed, or two have one name.
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
        name_or_path: name of a board, or path of its file.
        storage: kind of storage; None for the default.
        check_machine: check of the twins' machines, whose errors are part of the same message; None
            if nothing is run.

    Raises:
        BoardError: The board or storage does not exist or is ambiguous, or its file is malformed.
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
        text = read_bytes(path, _LARGEST_FILE_BYTES).decode()
        _document(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BoardError(f"{path}: not a TOML file: {error}") from error
    except OSError as error:
        raise BoardError(f"{path}: cannot be read: {error.strerror}") from error
    file, sound, flaws = _checked(text)
    if check_machine is not None:
        flaws += tuple(dict.fromkeys(_flaws_of_machines(file, sound, check_machine)))
    if flaws:
        raise BoardError(
            f"{path}: " + listed(flaws, "; "),
            f"compare it with a board that ships with poetfw: {boards_dir() / 'nrf52840.toml'}",
        )
    return _board(file, kind, path)


def _complaints(error: ValidationError) -> Iterator[str]:
    """One sentence per invalid key, with the expected and the found value."""
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


def _board(file: BoardFile, kind: str | None, path: Path) -> Board:
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


def _compute(table: ComputeTable) -> Compute:
    values = _values(table)
    name = values.pop("prices")
    core = None if name is None else CoreFile.of(name)
    values["arithmetic"] = (
        Arithmetic(table.arithmetic) if values.pop("exact") else Arithmetic.INTEGERS
    )
    if core is not None:
        values.update(cycles=core.cycles, instructions=core.instructions)
    return Compute(**values)


def _power(file: BoardFile) -> Power:
    """Power of the board with the voltage converter that its firmware switches on."""
    values = _values(file.power)
    with_converter = values.pop("dcdc_active_w")
    if with_converter is not None and file.firmware is not None and file.firmware.dcdc_inductor:
        values["active_w"] = with_converter
    return Power(**values)


def _firmware(file: BoardFile, kind: str | None) -> FirmwareSupport | None:
    firmware = file.firmware_with(kind)
    if firmware is None or file.toolchain is None:
        return None
    return FirmwareSupport(
        **firmware.model_dump(),
        toolchain=file.toolchain.made(),
        transfers=min(map(family_transfers, file.hal_families(kind))),
    )


def _twins(tables: list[TwinTable], board_hal: str) -> tuple[Twin, ...]:
    return tuple(
        Twin(table.name, machine, _reference(table.reference, machine, board_hal))
        for table in tables
        for machine in [_machine(table, board_hal)]
    )


def _reference(table: ReferenceTable | None, twin: Machine, board_hal: str) -> Machine:
    if table is None:
        return twin
    return replace(
        twin if table.emulator is None else _machine(table, board_hal),
        platformio_env=table.platformio_env,
        ram_bytes=table.ram_bytes.value,
    )


def _machine(table: TwinTable | ReferenceTable, board_hal: str) -> Machine:
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


def _storage(table: StorageTable) -> BoardStorage:
    return BoardStorage(
        kind=table.kind,
        block_bytes=table.block_bytes.value,
        page_in=_transfer(table.page_in),
        page_out=_transfer(table.page_out),
        standby_power_w=table.standby_power_w.value,
        overlap=table.overlap,
        size_bytes=None if table.size_bytes is None else table.size_bytes.value,
        erase_bytes=None if table.erase_bytes is None else table.erase_bytes.value,
        endurance_bytes=None if table.endurance_bytes is None else table.endurance_bytes.value,
    )


def _transfer(table: TransferRates) -> Transfer:
    beside = None if table.beside is None else OverlapCosts(**_values(table.beside))
    return Transfer(**{**_values(table), "beside": beside})


def _values(table: Table) -> dict[str, Any]:
    return {key: value.value if isinstance(value, Figure) else value for key, value in table}


def _sources(table: Table, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table:
        if isinstance(value, Figure):
            yield prefix + key, value.source
        elif isinstance(value, Table):
            yield from _sources(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, TwinTable | OtherStorageTable):
                    name = entry.name if isinstance(entry, TwinTable) else entry.kind
                    yield from _sources(entry, f"{prefix}{key}.{name}.")
