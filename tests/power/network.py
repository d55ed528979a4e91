# SPDX-License-Identifier: Apache-2.0
"""A tiny network as a generated project, and its firmware in the harness."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.firmware_tools import BLOCK, TEMPLATES, compile_c
from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.firmware import (
    LIBRARY,
    PARTITION_BLOCK,
    KeptFeatures,
    Ring,
    RunRequest,
    Slot,
    assign_slots,
    constant_values,
    read_commit,
    read_committed,
    render_project,
    write_image,
)
from poetfw.memory import resident_bytes
from poetfw.models.layers import Layers
from poetfw.ops import image_layout
from poetfw.planning import order_program, plan_unscheduled
from poetfw.planning.kept_features import find_keepable
from poetfw.planning.pieces import PieceSearch, TilePolicy, channel_units
from poetfw.planning.plans import lower_plan, place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import StepKind, minimum_budget, solve
from poetfw.training import (
    Program,
    Sgd,
    make_program,
    storable_tensors,
    store,
    stored_tensors,
    stream,
    streamable_vectors,
)

HERE = Path(__file__).parent
BATCH, SIDE, CLASSES = 4, 4, 3
TRAINING, HELD_OUT = 13, 4
STEPS_PER_EPOCH = TRAINING // BATCH
PAGED_SHARE = 0.7
"""Of the RAM that keeping everything takes: some of it is then paged."""

TEARS = ("before", "first part", "garbage", "4 KiB garbage", "after")
ORDERS = ("kept", "lost", "reordered")
OUTCOMES = ("same", "told", "does not boot", "wrong weights", "commit lost")
FAULTS = (
    *("CRC", "time-out", "busy for ever", "short", "full", "removed"),
    *("silently not written", "old data", "flipped bit", "done all the same"),
)


@dataclass(frozen=True)
class Project:
    """The network's project for a board, and all that its storage image is made from."""

    files: Mapping[str, bytes]
    program: Program
    plan_id: str
    slots: tuple[Slot, ...]
    weights: Mapping[str, Any]
    ring: Ring | None
    kept: KeptFeatures | None

    def image(self, steps: int, every: int, sets: int = 2) -> bytes:
        """A storage image whose training has so many steps and commits every so many."""
        rng = np.random.default_rng(2)
        shape = self.program.x.members[0].shape[1:]
        training, held_out = (
            (rng.normal(size=(n, *shape)).astype("f4"), rng.integers(0, CLASSES, n).astype("i4"))
            for n in (TRAINING, HELD_OUT)
        )
        request = RunRequest(steps, seed=5, checkpoint_every=every)
        parts = (self.slots, self.weights, training, held_out, request, sets)
        places = 0 if self.ring is None else self.ring.samples
        return write_image(self.program, self.plan_id, *parts, places, kept=self.kept)


@cache
def project(
    board_name: str,
    ring: Ring | None = None,
    slices: bool = False,
    frozen: bool = False,
    keeps: bool = False,
    in_ram: bool = False,
    streamed: bool = False,
    stored: bool = False,
    one_sample: bool = False,
    samples: int = 1,
) -> Project:
    """Convolutions with batch norm: parameters, momenta, running statistics; and pages.

    Weights may be streamed, of slices of output channels and of tiles of which there are several in
    each direction, and vectors. With `one_sample`, the batch is one sample, or `samples`, and a
    second convolution follows; `stored` stores all tensors of that network that can be, in several
    tiles.

    On `nrf52840` transfers go on beside computing, and a training step loads slices of weights
    ahead; on the others they are waited for. The first convolution may be frozen, and its output,
    of 512 bytes a sample, kept in records of two blocks in storage, or of RAM.
    """
    one_sample |= stored
    layers = Layers("tiny", (samples if one_sample else BATCH, 1, SIDE, SIDE), seed=1)
    channels = 8 if frozen else 4
    x = layers.conv("conv1", layers.input, channels, 3, padding=(1, 1, 1, 1))
    x = layers.relu("relu1", layers.batch_norm("bn1", x))
    if one_sample:
        x = layers.relu("relu2", layers.conv("conv2", x, channels, 3, padding=(1, 1, 1, 1)))
    x = layers.linear("logits", layers.flatten("flat", x), CLASSES)
    graph, weights = layers.build(x)
    constants = {name for name in weights if name.startswith("conv1")} if frozen else set()
    program = make_program(graph, "softmax_cross_entropy", Sgd(0.05, momentum=0.9), constants)
    program = program.with_values(weights)
    if streamed:
        tiles = {"conv1.weight": (2,), "logits.weight": (1, 32)}
        vectors = [name for name in streamable_vectors(program) if name != "logits.bias.momentum"]
        program = order_program(stream(program, tiles, vectors))
        if load_board(board_name).overlaps:
            program = _ahead(program)
    if stored:
        program = _store(program)
    board = load_board(board_name)
    unlimited = plan_unscheduled(program, board, analytic_costs)
    transient = unlimited.memory.peak_bytes - resident_bytes(program.resident, BLOCK)
    costs = analytic_costs(program.training, board)
    budget = int(transient * PAGED_SHARE)
    problem = schedule_problem(program.training, board, costs, budget)
    least = minimum_budget(problem).bytes
    training = solve(replace(problem, ram_bytes=max(budget, least)), "poet-remat-off")
    assert one_sample or any(step.kind is StepKind.PAGE_IN for step in training.plan)
    plan = place_plan(program, training, unlimited.evaluation)
    slots = assign_slots(program, training.plan)
    kept = None
    if keeps and (found := find_keepable(program, training.plan, board, costs)):
        records = TRAINING + (0 if ring is None else ring.samples)
        kept = replace(found[0].features, records=records if in_ram else 0)
    lowering = lower_plan(program, board, plan, slots, ring, slices, kept=kept)
    values = constant_values(lowering.view.flash, lowering.names, weights)
    files = render_project(lowering.view, board, constants=values).files
    overlaps = b"#define POET_TRANSFERS" in files[f"{LIBRARY}/generated/plan.h"]
    assert overlaps == (board_name == "nrf52840")
    return Project(files, program, lowering.view.plan_id, slots, weights, ring, kept)


def _ahead(program: Program) -> Program:
    """The program whose training step loads slices of weights ahead."""
    ops = (
        replace(op, attributes={**op.attributes, "ahead": 1}) if "tile" in op.attributes else op
        for op in program.training.ops
    )
    return replace(program, training=replace(program.training, ops=tuple(ops)))


def _store(program: Program) -> Program:
    """The program with all tensors stored that can be, in tiles of two rows of two channels."""
    units = channel_units(program.training, program.evaluation)
    policy, search = TilePolicy(size_bytes=2 * 2 * SIDE * 4, rows=2), PieceSearch()
    stored = store(
        program,
        {tensor.name for tensor in storable_tensors(program.training)},
        lambda tensor: policy.tile_of(tensor, units.get(tensor.name, 0)),
        lambda op, tensors, waiting: search.choose(op, tensors, 0),
    )
    images = [tensor for tensor in stored_tensors(stored) if len(tensor.shape) == 4]
    assert all(image_layout(tensor).tiles > 1 for tensor in images)
    return stored


def _compile(made: Project, folder: Path, out: str, more: Sequence[Path], *flags: str) -> Path:
    """The network's firmware without a HAL, and with more sources."""
    of_library = (f"{LIBRARY}/port/", f"{LIBRARY}/storage/sd")
    left_out = ("src/hal/", "src/runtime/poet_memory.c", *of_library)
    left_out += ("src/main.c",) if HERE / "learner.c" in more else ()
    sources = list(more)
    for path, content in made.files.items():
        if path.startswith(("src/", f"{LIBRARY}/")) and not path.startswith(left_out):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            sources += [target] if target.suffix == ".c" else []
    # Quoted includes alone: the system's link.h is wanted as well.
    parts = ("", "generated", "kernels", "runtime", "storage", "hal")
    quoted = [f"-iquote{folder / LIBRARY / part}" for part in parts]
    quoted.append(f"-iquote{folder / 'src' / 'runtime'}")
    return compile_c(folder / out, sources, [], *quoted, *flags)


def compile_harness(
    folder: Path, board: str, ring: Ring | None = None, slices: bool = False, **features: Any
) -> Path:
    """The network's firmware and the harness as a library; with a ring, of who learns from it."""
    flags = ("-shared", "-fPIC", "-Wl,-z,now")
    more = [HERE / "harness.c", *([] if ring is None else [HERE / "learner.c"])]
    made = project(board, ring, slices, **features)
    return _compile(made, folder, "power.so", more, *flags)


def compile_program(folder: Path, **features: bool) -> Path:
    """The network's firmware as a program of this computer."""
    hal, made = sorted((TEMPLATES / "hal/posix").glob("*.c")), project("linux", **features)
    return _compile(made, folder, "program", hal, f"-iquote{hal[0].parent}", "-pthread")


class Harness:
    """A firmware and its storage; each boots anew, on the image that it was made with."""

    def __init__(self, library: Path, image: bytes, may_fail: bool = False) -> None:
        """Run it once with nothing in its way; it must end well, unless it may fail."""
        with tempfile.NamedTemporaryFile(suffix=".so") as copy:
            copy.write(library.read_bytes())
            copy.flush()
            self._library = ctypes.CDLL(copy.name)
        self._library.power_console.restype = ctypes.c_char_p
        self._library.power_cuts.restype = ctypes.c_int64
        self._blocks = len(image) // BLOCK
        self.code: int = self._library.power_load(image, self._blocks)
        assert self.code == 0 or may_fail, self.console
        self.blocks_written: int = self._library.power_writes()
        self.calls: int = self._library.power_calls()

    @property
    def console(self) -> str:
        """What the last boot said."""
        return bytes(self._library.power_console()).decode()

    @property
    def storage(self) -> bytes:
        """What the storage holds."""
        content = ctypes.create_string_buffer(self._blocks * BLOCK)
        self._library.power_blocks(content)
        return content.raw

    def cases(self, seeds: int) -> int:
        """How many cuts there are, each in so many ways."""
        return self.blocks_written * len(TEARS) * len(ORDERS) * seeds

    def cuts(
        self, first: int, count: int, seeds: int, depth: int = 1
    ) -> tuple[int, dict[tuple[str, str, str], int]]:
        """Cut the power in so many cases from one on, so many times each.

        Returns the number of the first bad one, or -1, and how many came to what.
        """
        table = (ctypes.c_uint64 * (len(TEARS) * len(ORDERS) * len(OUTCOMES)))()
        numbers = map(ctypes.c_uint64, (first, count))
        bad = self._library.power_cuts(*numbers, seeds, depth, table)
        names = [(t, o, c) for t in TEARS for o in ORDERS for c in OUTCOMES]
        return bad, {name: n for name, n in zip(names, table, strict=True) if n}

    def cut(self, number: int, seeds: int, depth: int = 1) -> str:
        """What comes of one case."""
        return OUTCOMES[self._library.power_cut(ctypes.c_uint64(number), seeds, depth)]

    def fault(self, call: int, fault: str, for_ever: bool) -> str:
        """What comes of a fault from a call of the storage on: an outcome, or a status."""
        found = self._library.power_fault(call, FAULTS.index(fault), int(for_ever))
        return str(found) if found < 0 else OUTCOMES[found]

    def disturb(self, call: int, fault: str, for_ever: bool) -> None:
        """Let the storage fail or lie in a call from now on, counted from 0."""
        self._library.power_disturb(call, FAULTS.index(fault), int(for_ever))

    def leave_alone(self) -> None:
        """Let it be good again."""
        self._library.power_disturb(ctypes.c_uint32(-1), 0, 0)

    def call(self, name: str, *arguments: object) -> int:
        """What a function of the firmware returns."""
        return int(self._library[name](*arguments))

    def replace(self, content: bytes) -> None:
        """Let the storage hold something else from now on."""
        self._library.power_replace(content)

    def damaged_in_ring(self) -> list[int]:
        """The places of the ring with a part that is not whole."""
        return [self._library.poet_ring_damaged(i) for i in range(self._counts()[4])]

    def _counts(self) -> tuple[int, ...]:
        class Counts(ctypes.Structure):
            _fields_ = (("counts", ctypes.c_uint32 * 5),)

        self._library.poet_ring_count.restype = Counts
        return tuple(self._library.poet_ring_count().counts)

    def ring_counts(self) -> tuple[int, ...]:
        """Of the ring as it is now: samples, with a label, to draw from; the first without one."""
        return self._counts()[:4]

    def batch(self, step: int, seed: int, samples: int) -> tuple[bytes, bytes]:
        """Features and targets that the firmware gathers for a step, from 0 on, as it is now."""
        region = (ctypes.c_uint32 * 3)(PARTITION_BLOCK + 1, samples, 1)
        self._library.poet_data_select_training(region, ctypes.c_uint32(seed), step)
        x = ctypes.create_string_buffer(BATCH * SIDE * SIDE * 4)
        y = ctypes.create_string_buffer(BATCH * 4)
        assert self._library.poet_data_load_x(x) == self._library.poet_data_load_y(y) == 0
        return x.raw, y.raw


def trained(
    made: Project, harness: Harness, folder: Path, steps: int
) -> dict[str, NDArray[np.generic]]:
    """Persistent tensors of a harness's last commit, which must be of so many steps."""
    path = folder / "trained.img"
    path.write_bytes(harness.storage)
    assert read_commit(path, made.slots).step == steps
    tensors = {t.name: t for t in (*made.program.training.tensors, made.program.metric)}
    return read_committed(path, made.slots, tensors)


@contextmanager
def harness(board: str, image: bytes) -> Iterator[Harness]:
    """A harness in a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Harness(compile_harness(Path(folder), board), image)
