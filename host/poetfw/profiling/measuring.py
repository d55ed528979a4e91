# SPDX-License-Identifier: Apache-2.0
"""Measurement of a network's ops and transfers on a board, limited to unknown costs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from poetfw.boards import Board, load_board
from poetfw.common.errors import NoAnswerError, OutputError, ToolError, WrongBoardError
from poetfw.costs import (
    NO_METER,
    Case,
    Measurement,
    Setup,
    case_tiles,
    own_case_of,
    reads_storage,
)
from poetfw.firmware import BLOCK_BYTES, IMAGE, check_output_folder, write_project
from poetfw.firmware.case_version import case_version
from poetfw.firmware.project import RUN_DIR
from poetfw.firmware.sketch import Operands, Sketch, arena_bytes_of, render_sketch
from poetfw.ir import Graph
from poetfw.meters import Meter, opened_meter
from poetfw.models import Model
from poetfw.planning import BuildSettings, derive_program, load_model
from poetfw.profiling.cases import cases_of
from poetfw.profiling.metering import Metering
from poetfw.profiling.operands import operands_of
from poetfw.profiling.session import Refused, check_sketch, measure_sketch, setup_of
from poetfw.profiling.store import Store
from poetfw.profiling.update import Update
from poetfw.tools import (
    build_environments,
    choose_toolchain,
    compiler_name,
    emulator_of,
    require_toolchain,
    static_ram_bytes,
    upload_firmware,
)
from poetfw.tools.link import DeviceLink, PortLine, Profiler, open_port, piped
from poetfw.training import Program

_SOCKET = "socket://"
_TRACES = "traces"
_OVERFLOWED = "overflowed by"  # linker message if a memory is too small
_FIRST_SCRATCH_BLOCK = 8


@dataclass(frozen=True)
class ProfileSettings:
    """Settings of a profile.

    Attributes:
        build: board, model and other settings that determine the ops.
        emulator: name of the twin to measure on; None for the board.
        port: port of the board, or of a twin that is already running.
        out: folder of the sketch.
        meter: energy meter, as for `poetfw.meters.open_meter`.
    """

    build: BuildSettings
    emulator: str | None
    port: str | None
    out: Path
    meter: str = "none"


@dataclass(frozen=True)
class ProfileReport:
    """Result of a profile.

    Attributes:
        setup: measurement conditions.
        measured: measurements of all cases that have one, in the network's order.
        fresh: number of cases measured in this profile.
        left_out: cases that could not be measured, with reasons.
        metering: energy measurements of this profile; None without a meter.
        graph: training step that the cases come from.
    """

    setup: Setup
    measured: tuple[Measurement, ...]
    fresh: int
    left_out: tuple[Refused, ...]
    metering: Metering | None
    graph: Graph

    def op_of(self, case: Case) -> str | None:
        """Name of the only op that a case stands for; None if it stands for all equal ops."""
        return self._ops.get(case)

    @cached_property
    def _ops(self) -> Mapping[Case, str]:
        return {own_case_of(op, self.graph): op.name for op in self.graph.ops}

    def to_json(self) -> dict[str, Any]:
        """Report as plain JSON values."""
        return {
            "schema_version": 1,
            "board": self.setup.board,
            "machine": self.setup.machine or None,
            "compiler": self.setup.compiler,
            "meter": self.setup.meter,
            "metered": None if self.metering is None else _metered(self.metering),
            "measured_now": self.fresh,
            "cases": [_row(one, self.op_of(one.case)) for one in self.measured],
            "left_out": [
                {"case": one.case.key, "operator": one.case.kind, "reason": one.reason}
                for one in self.left_out
            ],
        }


def _metered(metering: Metering) -> dict[str, Any]:
    return {
        "aligned_by": metering.aligned_by,
        "traces": None if metering.replays else str(metering.folder),
        "idle_w": metering.idle_w,
        "cases": [
            {
                "case": one.case.key,
                "operator": one.case.kind,
                "energy_j": one.energy.energy_j,
                "spread_j": one.energy.spread_j,
                "n": one.energy.intervals,
                "rejected": one.energy.rejected,
            }
            for one in metering.metered
        ],
    }


def _row(one: Measurement, op: str | None) -> dict[str, Any]:
    return {
        "case": one.case.key,
        "op": op,
        "operator": one.case.kind,
        "shape": shape_of(one.case),
        "n": one.repetitions,
        str(one.counter): one.ticks,
        "time_s": one.time_s,
        "energy_j": one.energy_j,
        "energy_spread_j": one.energy_spread_j,
        "spread": one.spread_ticks,
        "source": _source(one),
    }


def _source(one: Measurement) -> str:
    if one.setup.machine and reads_storage(one.case):
        return "counted without the storage, which is not a board's"
    return "measured" if one.setup.meter != NO_METER else "measured time, datasheet power"


def shape_of(case: Case) -> list[list[int]] | int:
    """Shapes of a case's operands, or the size of a transfer in bytes."""
    if case.size_bytes:
        return case.size_bytes
    return [list(shape) for shape, _ in (*case.inputs, *case.updates)]


def profile(settings: ProfileSettings, store: Store, update: Update) -> ProfileReport:
    """Measure the cases of a network that are unknown, and store each result at once.

    Args:
        settings: settings of the profile.
        store: store of known and new measurements.
        update: called with the progress.

    Raises:
        DeviceError: The device or the line fails; earlier results stay stored.
        PoetfwError: The settings, board or model are invalid.
        ToolError: A compiler or an emulator is missing or fails.
    """
    board = load_board(settings.build.board, check_machine=emulator_of)
    board = choose_toolchain(board, settings.build.toolchain)
    require_toolchain(board)
    build = settings.build.on(board)
    model = load_model(build)
    program = derive_program(build, model)
    cases = cases_of(program.training, board)
    compiled = board.compute.arithmetic, board.toolchain.soft_float, case_tiles(board)
    versions = {case: case_version(case, *compiled) for case in cases}
    with opened_meter(settings.meter) as meter:
        setup = _setup(board, settings, meter)
        metering = None
        if meter is not None:
            metering = Metering(meter, settings.out / _TRACES, real_time=not setup.machine)
        known = _known(store, setup, versions)
        missing = [case for case in cases if case not in known]
        if missing:  # fail before the work if results cannot be stored
            check_output_folder(settings.out)
            store.check_writable()
        left_out = []
        session = _Session(program, model, build, board, setup, settings, versions, metering)
        progress = _Progress(update, len(missing))
        for one in _measure(missing, session, progress):
            if isinstance(one, Refused):
                left_out.append(one)
            else:
                store.add([one])
                known[one.case] = one
            progress.done += 1
            progress.say("measuring")
    fresh = len(missing) - len(left_out)
    measured = tuple(known[case] for case in cases if case in known)
    return ProfileReport(setup, measured, fresh, tuple(left_out), metering, program.training)


def _known(store: Store, setup: Setup, versions: Mapping[Case, str]) -> dict[Case, Measurement]:
    """Stored measurements of cases."""
    known: dict[Case, Measurement] = {}
    for one in dict.fromkeys(setup_of(case, setup) for case in versions):
        known |= store.known(
            one, {case: versions[case] for case in versions if setup_of(case, setup) == one}
        )
    return known


@dataclass
class _Progress:
    """Progress of a profile in cases."""

    update: Update
    total: int
    done: int = 0

    def say(self, text: str) -> None:
        """Report the next activity."""
        self.update(self.done, self.total, text)


@dataclass(frozen=True)
class _Session:
    program: Program
    model: Model
    build: BuildSettings
    board: Board
    setup: Setup
    settings: ProfileSettings
    versions: Mapping[Case, str]
    metering: Metering | None


def _setup(board: Board, settings: ProfileSettings, meter: Meter | None) -> Setup:
    machine = ""
    if settings.emulator is not None:
        twin = board.twin(settings.emulator)
        machine = twin.name if emulator_of(twin.machine).emulates else ""
    return Setup(
        board=board.label,
        core=board.processor,
        clock_hz=board.clock_hz,
        machine=machine,
        compiler=compiler_name(board.toolchain),
        meter=NO_METER if meter is None else meter.name,
    )


def _measure(
    missing: Sequence[Case], session: _Session, progress: _Progress
) -> Iterator[Measurement | Refused]:
    if not missing:
        return
    program, board, setup = session.program, session.board, session.setup
    settings = session.settings
    waiting = yield from _fitting(missing, _most_room(board), "at most")
    if not waiting:
        return
    operands = operands_of(program, session.model, session.build, waiting, progress.update)
    progress.say("building the sketch")
    room = _arena_room(waiting, program, board)
    fitting = yield from _fitting(waiting, room, "beside the program's own")
    environment = _environment(board, settings)
    for sketch, elf in _built(fitting, program, board, room, settings.out, environment, operands):
        if elf is None:
            (case,) = sketch.cases
            yield Refused(case, "its code does not fit the flash", failed=False)
            continue
        with _device(sketch, elf, board, setup, settings, environment, progress.say) as profiler:
            progress.say("waiting for the sketch")
            yield from measure_sketch(
                profiler,
                sketch,
                setup,
                board,
                session.versions.__getitem__,
                _now,
                session.metering,
            )
        if progress.done < progress.total:
            progress.say("building the next sketch")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fitting(
    cases: Sequence[Case], room_bytes: int, said: str
) -> Generator[Refused, None, list[Case]]:
    """Cases whose operands fit the arena; others are yielded as refused."""
    fitting = []
    for case in cases:
        needed = arena_bytes_of(case, room_bytes)
        if needed <= room_bytes:
            fitting.append(case)
        else:
            reason = f"its operands take {needed:,} bytes, and there are {room_bytes:,} {said}"
            yield Refused(case, reason, failed=False)
    return fitting


def _most_room(board: Board) -> int:
    """Upper bound of the arena's size in bytes, known without a compiler."""
    return board.ram_bytes - board.reserved_ram_bytes - board.stack_bytes


def _arena_room(cases: Sequence[Case], program: Program, board: Board) -> int:
    """Size in bytes that the arena may have beside a sketch's static data and stack."""
    static = static_ram_bytes(render_sketch(cases[:1], program, board, 0).project, board)
    return _most_room(board) - static


def _environment(board: Board, settings: ProfileSettings) -> str:
    twin = None if settings.emulator is None else board.twin(settings.emulator).machine
    if twin is not None and twin.platformio_env is not None:
        return twin.platformio_env
    return board.own_environment


def _built(
    cases: Sequence[Case],
    program: Program,
    board: Board,
    room_bytes: int,
    folder: Path,
    environment: str,
    operands: Operands | None = None,
) -> Iterator[tuple[Sketch, Path | None]]:
    """Build as few sketches as fit the flash; the ELF is None if a single case does not fit."""
    waiting = [tuple(cases)] if cases else []
    while waiting:
        part = waiting.pop(0)
        sketch = render_sketch(part, program, board, room_bytes, operands)
        write_project(sketch.project, folder)
        try:
            elf = build_environments(folder, [environment])[environment]
        except ToolError as error:
            if _OVERFLOWED not in "\n".join(error.said):
                raise
            if len(part) == 1:
                yield sketch, None
            else:
                half = len(part) // 2
                waiting = [part[:half], part[half:], *waiting]
            continue
        yield sketch, elf


@contextmanager
def _device(
    sketch: Sketch,
    elf: Path,
    board: Board,
    setup: Setup,
    settings: ProfileSettings,
    environment: str,
    say: Callable[[str], None],
) -> Iterator[Profiler]:
    """Connect to the device that runs a sketch; uploads the sketch if needed."""
    if settings.port is None:
        with _twin(sketch, elf, board, settings) as line:
            yield Profiler(DeviceLink(line))
        return
    say("asking the board what it runs")
    with open_port(settings.port, board.console_baud) as line:
        profiler = Profiler(DeviceLink(line))
        if settings.port.startswith(_SOCKET) or _has_sketch(profiler, sketch, setup):
            yield profiler
            return
    say("putting the sketch on the board")
    upload_firmware(settings.out, environment, settings.port)
    with open_port(settings.port, board.console_baud) as line:
        yield Profiler(DeviceLink(line))


def _has_sketch(profiler: Profiler, sketch: Sketch, setup: Setup) -> bool:
    try:
        check_sketch(profiler, sketch, setup)
    except (NoAnswerError, WrongBoardError):
        return False
    return True


@contextmanager
def _twin(sketch: Sketch, elf: Path, board: Board, settings: ProfileSettings) -> Iterator[PortLine]:
    machine = board.twin(settings.emulator).machine
    emulator = emulator_of(machine)
    machine = emulator.counting(machine)
    emulator.require()
    folder = settings.out / RUN_DIR
    image = folder / IMAGE
    try:
        folder.mkdir(exist_ok=True)
        image.unlink(missing_ok=True)  # a link must not redirect the image
        image.write_bytes(bytes((_FIRST_SCRATCH_BLOCK + sketch.scratch_blocks) * BLOCK_BYTES))
        emulator.prepare(machine, image, 0)
    except OSError as error:
        raise OutputError(f"{image} cannot be written: {error.strerror or error}") from error
    with piped(emulator.listening(machine, elf), folder) as line:
        yield line
