# SPDX-License-Identifier: Apache-2.0
"""Executed instructions of every op of several networks' training steps, as rows for a database.

The project's own kernels run on the emulated machine of a board. The networks are drawn at random,
so that shapes vary as networks' do, and beside them are five that the fitted model is tested on and
never sees. `benchmarks/op_costs.py` records what the tests read.
"""

from __future__ import annotations

import math
import random
import re
import statistics
import sys
import tempfile
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from poetfw.boards import load_board
from poetfw.common.option_values import FLOAT16_FORM
from poetfw.costs import Case, Counter, Measurement, Setup, alone, analytic_costs, case_of
from poetfw.costs.features import Featured, case_tiles, features_of, loops_around
from poetfw.costs.fitted import ENOUGH_FUNCTIONS, ENOUGH_ROWS, LARGEST_ERROR, FittedModel, fit
from poetfw.firmware.case_version import case_version
from poetfw.ir import Attribute, Dtype, Graph, Op
from poetfw.models import Model, build_model
from poetfw.models.bert import BertSize, bert
from poetfw.models.layers import Layers
from poetfw.ops import kind_of
from poetfw.ops.base import parts_of
from poetfw.ops.max_pool2d import index_bits
from poetfw.ops.packed import FORMATS, INT8, PACKED, words_shape
from poetfw.ops.windows import Window
from poetfw.optimizers import OPTIMIZERS, Sgd
from poetfw.training import compress_activations, make_program
from workloads.kernels.cases import Shape
from workloads.kernels.measuring import BenchError, Measured, measure

KEPT = Path(__file__).parent / "op_costs.txt"
COLUMNS = ("instructions", "cycles")
"""Figures of a case in the kept file."""
NETWORKS, USUAL = 36, 12
"""Drawn at random, beside transformers; of usual shapes, of each kind."""

NO_PADDING = 2
"""The kind of networks whose kernels of 3x3 and 2x2 have no padding."""
STRIDE_2 = 4
"""The kind of networks of 3x3 kernels of stride 2, most of them depthwise, and 1x1 kernels."""

AT_ONCE = 300
"""Cases in one firmware."""

PRICED = {"nrf52840": "cortex-m4f", "mkr1000": "cortex-m0plus"}
"""Files of prices, by the board whose core was counted."""

_LOAD = '{ "samples" = 653.6, "bytes" = 8.006 }'
MOVED = {
    "cortex-m4f": {
        "poet_data_load_x": _LOAD,
        "poet_data_load_y": _LOAD,
        "check": '{ "samples" = 139.1, "bytes" = 6.997 }',
        "page_in": '{ "fixed" = 480.0, "bytes" = 6.992 }',
        "page_out": '{ "fixed" = 840.0, "bytes" = 6.992 }',
    }
}
"""Instructions of loads and transfers, by core: solved from two sizes of each in the steps of `mlp`
in batches of 8, with all RAM and with 58,000 bytes, that `poetfw run --trace` counted."""

FEW_ROWS = 3
"""Cases of a function that its cycles are estimated from at least."""
_NOTHING = 1e-6  # instructions for a unit of a feature: rounding

MEASURED_AT = "2026-11-22T00:00:00Z"
LARGEST_OPERANDS_BYTES = {"nrf52840": 3 << 20, "mkr1000": 24 << 10}
MOST_MACS = {"nrf52840": 8_000_000, "mkr1000": 200_000}
ACTIVATIONS = ("relu", "relu", "relu", "relu6", "gelu", "tanh", "sigmoid", "silu", "hard_swish")
POSITIVE: Mapping[str, tuple[int, ...]] = {
    f"{norm}_{part}": (1,)
    for norm in ("batch_norm", "layer_norm")
    for part in ("normalize", "backward_affine", "backward_input")
}
"""Inputs that hold variances, by kind of op."""


@dataclass(frozen=True)
class Run:
    """A case as the kernels' benchmark takes it: like one of its cases, and its only call."""

    case: Case
    classes: int = 2

    @property
    def key(self) -> str:
        """Names it."""
        return self.case.key

    @property
    def kind(self) -> str:
        """Of the op."""
        return self.case.kind

    @property
    def calls(self) -> tuple[Run, ...]:
        """Itself."""
        return (self,)

    @property
    def positive(self) -> tuple[int, ...]:
        """Positions of inputs that hold positive numbers."""
        return POSITIVE.get(self.case.kind, ())

    @property
    def fields(self) -> tuple[int, int]:
        """Bits of the numbers in words, and their bound: halves are finite, indices in a window."""
        op, _ = self.graph()
        match op.kind:
            case "from_halves" | "unpack_float16":
                return 16, 0x7C00
            case "unpack_int8":
                return 8, 1 << 8
            case "relu_masked_backward":
                return 1, 2
            case "max_pool2d_indexed_backward":
                window = Window.of(op)
                return index_bits(window), math.prod(window.kernel)
        return 32, self.classes

    def graph(self) -> tuple[Op, Graph]:
        """The op, alone in a graph."""
        return alone(self.case)


class Drawn:
    """A network of random extents, drawn layer by layer.

    A usual one has kernels of one size, 3x3 or 5x5, that have functions of their own: those of 3x3
    have stride 1, and 4 divides their widths and channels. Kernels of NO_PADDING have none.
    """

    def __init__(self, seed: int, small: bool, usual: int = 0) -> None:
        self.random = random.Random(seed)
        self.usual = usual
        draw = self.random
        batch = draw.choice((1, 1, 2, 3, 4, 8))
        low, high = (6, 9) if small else (8, 24)
        extents = (draw.randint(low, high), draw.randint(low, high))
        if usual == 3:
            extents = (extents[0], extents[1] // 4 * 4)
        shape = (batch, draw.choice((1, 3)), *extents)
        self.most = 10 if small else 40
        self.layers = Layers(f"drawn{seed}", shape, seed)
        self.count = 0

    def model(self) -> Model:
        """The network with a loss."""
        draw, layers = self.random, self.layers
        x = layers.input
        for _ in range(draw.randint(2, 5)):
            x = self.block(x)
        if draw.random() < 0.3:
            x = layers.op("global_avg_pool", self.name(), (x,))
        x = layers.flatten("flatten", x)
        for _ in range(draw.randint(0, 2)):
            x = self.active(layers.linear(self.name(), x, draw.randint(5, 2 * self.most)))
        x = layers.linear("logits", x, draw.randint(2, 20))
        return Model(*layers.build(x), loss="softmax_cross_entropy", description="")

    def name(self) -> str:
        """One that no op has."""
        self.count += 1
        return f"op{self.count}"

    def active(self, x: str) -> str:
        """X through an activation."""
        return self.layers.op(self.random.choice(ACTIVATIONS), self.name(), (x,))

    def block(self, x: str) -> str:
        """A convolution and what often follows it."""
        draw, layers = self.random, self.layers
        before = x
        x = self.convolution(x)
        batch, _, height, width = layers.shape(x)
        if batch * height * width > 1 and draw.random() < 0.6:
            x = layers.batch_norm(self.name(), x)
        if layers.shape(x) == layers.shape(before):
            x = layers.add(self.name(), x, before)
        x = self.active(x)
        least = min(layers.shape(x)[2:])
        if least >= 4 and draw.random() < 0.4:
            kernel = draw.choice((2, 2, 3, least))
            x = layers.pool(draw.choice(("max_pool2d", "avg_pool2d")), self.name(), x, kernel)
        return x

    def convolution(self, x: str) -> str:
        """A dense, depthwise or grouped one."""
        draw, layers = self.random, self.layers
        _, channels, *extents = layers.shape(x)
        kernel = draw.choice([k for k in (1, 1, 3, 3, 3, 3, 5, 7) if k <= min(extents)])
        padding = kernel // 2 if min(extents) < 6 or draw.random() < 0.8 else 0
        stride = 2 if min(extents) >= 6 and draw.random() < 0.25 else 1
        fours = 4 * draw.randint(1, self.most // 4)
        groups, out = 1, draw.choice((draw.randint(3, self.most), fours))
        if self.usual == 3 and min(extents) >= 3:
            kernel, padding, stride, out = 3, 1, 1, fours
        elif self.usual == 5 and min(extents) >= 4:
            kernel, padding = 5, 2
        elif self.usual == 1 and min(extents) >= 3:
            kernel, padding, stride = 1, 0, 2
        elif self.usual == STRIDE_2 and min(extents) >= 3 and draw.random() < 0.7:
            kernel, padding, stride = 3, 1, 2
            if channels > 1 and draw.random() < 0.8:
                groups = out = channels
        elif self.usual == STRIDE_2:
            kernel, padding, stride = 1, 0, 1
        elif self.usual == NO_PADDING and min(extents) >= 3:
            kernel, padding, stride = draw.choice((2, 3, 3)), 0, draw.choice((1, 1, 1, 2))
        elif channels > 1 and draw.random() < 0.3:
            groups = out = channels
        elif channels % 2 == 0 and draw.random() < 0.1:
            groups, out = 2, out // 2 * 2 + 2
        shape: Shape = (out, channels // groups, kernel, kernel)
        inputs = [x, layers.weight(self.name(), shape)]
        if draw.random() < 0.3:
            inputs.append(layers.weight(self.name(), (out,)))
        attributes: dict[str, Attribute] = {
            "stride": (stride, stride),
            "padding": (padding,) * 4,
            "groups": groups,
        }
        return layers.op("conv2d", self.name(), inputs, attributes)


def ds_cnn(batch: int) -> Model:
    """MLPerf Tiny's keyword spotting network, 49 x 10 features, with half its channels."""
    layers = Layers("ds-cnn", (batch, 1, 49, 10), 0)
    window: dict[str, Attribute] = {"stride": (2, 2), "padding": (4, 1, 5, 2), "groups": 1}
    x = layers.op("conv2d", "stem", (layers.input, layers.weight("stem.w", (32, 1, 10, 4))), window)
    for i in range(4):
        x = layers.relu(f"relu{i}", layers.batch_norm(f"bn{i}", x))
        window = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 32}
        w = layers.weight(f"depth{i}.w", (32, 1, 3, 3))
        x = layers.op("conv2d", f"depth{i}", (x, w), window)
        x = layers.relu(f"depth{i}.relu", layers.batch_norm(f"depth{i}.bn", x))
        x = layers.conv(f"point{i}", x, 32, 1)
    x = layers.op("global_avg_pool", "pool", (layers.relu("last", x),))
    x = layers.linear("logits", layers.flatten("flatten", x), 12)
    return Model(*layers.build(x), loss="softmax_cross_entropy", description="")


def networks(board: str, count: int) -> Iterator[tuple[str, bool, Model]]:
    """Name, whether it is held out of the fit, and the network."""
    small = board == "mkr1000"
    yield "digits-cnn", True, build_model("digits-cnn", 2 if small else 4)
    yield "mlp", True, build_model("mlp", 4)
    yield "lenet5", True, build_model("lenet5", 1)
    if small:
        yield "bert-tiny", True, bert("bert-tiny", BertSize(1, 8, 2, 8, 16, 8), 1, 0)
        yield "drawn0", True, Drawn(0, small).model()
    else:
        yield "resnet8", True, build_model("resnet8", 1)
        yield "ds-cnn", True, ds_cnn(1)
    for seed in range(1, count + 1):
        yield f"drawn{seed}", False, Drawn(seed, small).model()
    for seed in range(200, 200 + USUAL):
        yield f"drawn{seed}", False, Drawn(seed, small, usual=3).model()
    for seed in range(300, 300 + USUAL):
        yield f"drawn{seed}", False, Drawn(seed, small, usual=5).model()
    for seed in range(400, 400 + USUAL):
        yield f"drawn{seed}", False, Drawn(seed, small, usual=NO_PADDING).model()
    for seed in range(500, 500 + USUAL):
        yield f"drawn{seed}", False, Drawn(seed, small, usual=1).model()
    for seed in range(8):
        draw = random.Random(seed)
        heads, most = draw.randint(1, 4), 3 if small else 10
        tokens = draw.randint(4, 2 * most)
        size = BertSize(
            1, heads * draw.randint(2, most), heads, tokens, draw.randint(10, 60), tokens + 3
        )
        yield f"bert{seed}", False, bert(f"bert{seed}", size, draw.randint(1, 3), seed)
    for seed, name in enumerate(3 * sorted(OPTIMIZERS.keys() - {"sgd"})):
        model = Drawn(100 + seed, small).model()
        yield f"{name}{seed}", False, replace(model, optimizer=OPTIMIZERS[name]())
    size = BertSize(1, 8, 2, 8, 40, 11)
    for name in sorted(OPTIMIZERS.keys() - {"sgd"}):
        yield (
            f"{name}-bert",
            False,
            replace(bert(f"{name}-bert", size, 1, 0), optimizer=OPTIMIZERS[name]()),
        )


MORE_UNFITTED = {
    "lstm": 2,
    "gru": 3,
    "squeeze-excite": 1,
    "transformer-tiny": 1,
    "autoencoder": 2,
    "mobilenet": 1,
}
"""Batches of built-in networks that are counted beside the held-out ones, for a Cortex-M4F."""


def unfitted_steps(board: str) -> dict[str, Graph]:
    """Training steps that no price is fitted to, by network; with `MORE_UNFITTED`."""
    found = {name: model for name, held_out, model in networks(board, 0) if held_out}
    found |= {name: build_model(name, batch) for name, batch in MORE_UNFITTED.items()}
    steps = (training_steps(name, model).items() for name, model in found.items())
    return {name: graph for step in steps for name, graph in step}


def for_instructions() -> Iterator[Graph]:
    """Steps of ops that others have seldom: only prices of cores are fitted to them.

    Squared errors behind one layer, gates of channels, and kernels of stride 2 trained with weight
    decay.
    """
    for seed in range(600, 600 + 2 * USUAL):
        decayed = Sgd(learning_rate=0.02, momentum=0.9, weight_decay=1e-4)
        model = Drawn(seed, small=False, usual=STRIDE_2).model()
        yield make_program(model.graph, model.loss, decayed).training
    for seed in range(12):
        draw = random.Random(seed)
        layers = Layers(f"mse{seed}", (draw.randint(1, 8), draw.randint(2, 9)), seed)
        x = layers.linear("out", layers.input, draw.randint(1, 200))
        graph, _ = layers.build(x)
        yield make_program(graph, "mse", Sgd()).training
        batch, channels = draw.randint(1, 4), draw.randint(2, 40)
        layers = Layers(f"gates{seed}", (batch, 1, draw.randint(3, 16), draw.randint(3, 16)), seed)
        x = layers.conv("conv", layers.input, channels, 1)
        y = layers.flatten("means", layers.op("global_avg_pool", "pool", (x,)))
        y = layers.reshape("gates", layers.linear("gate", y, channels), batch, channels, 1, 1)
        x = layers.op("multiply", "gated", (x, y))
        x = layers.op("multiply", "square", (x, x))
        graph, _ = layers.build(layers.linear("out", layers.flatten("flat", x), 3))
        yield make_program(graph, "mse", Sgd()).training


def unpacking() -> Iterator[Case]:
    """Weights of slices in each format that is smaller than a float, of random extents."""
    draw = random.Random(0)
    for form in FORMATS:
        for rows in (1, 1, *range(1, 40)):
            shape = rows, draw.randint(1, draw.choice((12, 2048 // rows)))
            words = (words_shape(shape, form), Dtype.I32)
            scales = [((rows,), Dtype.F32)] * (form == INT8)
            yield Case(f"unpack_{form}", (words, *scales), attributes={"shape": shape})


def packed_case(
    layer: str, inputs: Sequence[Shape], form: str, attributes: Mapping[str, Attribute]
) -> Case:
    """Case of a layer, its weights packed."""
    kind, position = PACKED[layer]
    shape = inputs[position]
    given = [(each, Dtype.F32) for each in inputs]
    given[position] = words_shape(shape, form), Dtype.I32
    scales = [(shape[:1], Dtype.F32)] * (form == INT8)
    more: dict[str, Attribute] = {"weight_shape": shape, "format": form}
    return Case(kind, (*given, *scales), attributes={**attributes, **more})


def slicing() -> Iterator[Case]:
    """Layers of packed weights, in one slice or several, of random extents.

    Of int8: rows of halves may begin within a word, which unpacking a slice alone does not show.
    Linear ones have one sample: parts of several slices with more leave gaps between results.
    """
    draw = random.Random(0)
    for number in range(2 * ENOUGH_ROWS):
        batch, inputs, outputs = draw.randint(1, 3), draw.randint(40, 90), 24 * draw.randint(1, 5)
        depthwise = number % 4 == 3
        w = (outputs, 1, 3, 3) if depthwise else (outputs, inputs, 1, 1)
        x, y = (batch, outputs if depthwise else inputs, 2, 3), (batch, outputs, 2, 3)
        at: dict[str, Attribute] = {"stride": (1, 1), "groups": outputs if depthwise else 1}
        at["padding"] = (w[2] // 2,) * 4
        given = 2 + number % 2  # with a bias or without
        yield packed_case("conv2d", (x, w, w[:1])[:given], INT8, at)
        yield packed_case("conv2d_backward_input", (w, y), INT8, {**at, "input_shape": x})
        dense = outputs, inputs
        yield packed_case("linear", ((1, inputs), dense, w[:1])[:given], INT8, {})
        yield packed_case("linear_backward_input", (dense, (1, outputs)), INT8, {})


def cases_of_slices() -> Iterator[tuple[Case, list[tuple[Case, int]]]]:
    """Layers in slices; each with the cases of its parts, and how often these run."""
    for case in slicing():
        parts = parts_of(*alone(case))
        yield case, [(case_of(op, graph), times) for op, graph, times in parts]


def training_steps(name: str, model: Model) -> dict[str, Graph]:
    """The training step, and that with smaller activations: as halves, and in exact forms."""
    program = make_program(model.graph, model.loss, model.optimizer)
    smaller = compress_activations(program, FLOAT16_FORM)
    return {name: program.training, f"{name}, {FLOAT16_FORM}": smaller.training}


def cases_of(graph: Graph, board: str) -> Iterator[Case]:
    """The cases of a training step, loads apart, that the machine has room and patience for."""
    for op in graph.ops:
        case = case_of(op, graph)
        inputs = [graph.by_name[name] for name in op.inputs]
        output = None if op.output is None else graph.by_name[op.output]
        work = kind_of(op).work(op, inputs, output)
        if (
            work.storage_bytes == 0
            and work.bytes_moved <= LARGEST_OPERANDS_BYTES[board]
            and work.macs <= MOST_MACS[board]
        ):
            yield case


@cache
def all_cases(board: str) -> tuple[dict[str, list[Case]], dict[str, list[Case]]]:
    """The cases of the steps that a model is fitted to, and of those that are held out."""
    fitted = {"unpacking": [*unpacking()]}
    held_out: dict[str, list[Case]] = {}
    for name, held, model in networks(board, NETWORKS):
        for step, graph in training_steps(name, model).items():
            (held_out if held else fitted)[step] = list(cases_of(graph, board))
    return fitted, held_out


def counted_cases(board: str) -> list[Case]:
    """All cases that are counted, in the order of the networks; some of them are the same."""
    found = [case for part in all_cases(board) for cases in part.values() for case in cases]
    if PRICED[board] in MOVED:
        for graph in (*unfitted_steps(board).values(), *for_instructions()):
            found += cases_of(graph, board)
        for case, parts in cases_of_slices():
            found += [case, *(part for part, _ in parts)]
    return found


def row_of(case: Case, instructions: int, setup: Setup) -> Measurement:
    """A case counted in the emulator, in the form in which measurements are kept."""
    board = load_board(setup.board)
    time_s = instructions / setup.clock_hz
    return Measurement(
        case=case,
        setup=setup,
        kernel_version=case_version(
            case, board.compute.arithmetic, board.toolchain.soft_float, case_tiles(board)
        ),
        repetitions=1,
        counter=Counter.INSTRUCTIONS,
        ticks=instructions,
        spread_ticks=0.0,
        time_s=time_s,
        energy_j=time_s * board.power.active_w,
        energy_spread_j=0.0,
        measured_at=MEASURED_AT,
    )


def setup_of(board_name: str, compiler: str) -> Setup:
    """The conditions of the emulator."""
    board = load_board(board_name)
    return Setup(board.name, board.core, board.clock_hz, "qemu", compiler)


def recorded(what: str = "instructions") -> tuple[str, dict[str, dict[str, int]]]:
    """The compiler, and per board a figure of each case by its key, as `record` wrote them.

    Args:
        what: `instructions`, or the `cycles` that the emulator's plugin estimates.

    Raises:
        BenchError: the networks have other cases now.
    """
    head, *sections = KEPT.read_text().split("\n\n")
    column = COLUMNS.index(what)
    found: dict[str, dict[str, int]] = {}
    for section in sections:
        title, *lines = section.splitlines()
        board, kind, digest = title.split()
        keys = _keys_by_kind(board).get(kind, [])
        figures = " ".join(lines).split()
        if digest != _digest(keys) or len(figures) != len(keys):
            command = "python benchmarks/op_costs.py --record"
            raise BenchError(f"{KEPT.name}: other cases of {kind} on {board} now: run `{command}`")
        values = (int(figure.split("/")[column]) for figure in figures)
        found.setdefault(board, {}).update(zip(keys, values, strict=True))
    return head.splitlines()[-1], found


def kept_counts(board: str) -> dict[str, Measured]:
    """The recorded figures of a board's cases, without those that are not recorded."""
    instructions, cycles = (recorded(what)[1][board] for what in COLUMNS)
    return {key: Measured(instructions[key], cycles[key], 0, "") for key in instructions}


def record(compiler: str, counts: Mapping[str, Mapping[str, Measured]]) -> str:
    """The text of the kept file: for each board and kind of op a line, and its cases' figures."""
    head = "# Instructions/cycles of each case, in the order of the networks: see op_costs.py."
    sections = [f"{head}\n{compiler}"]
    for board, found in counts.items():
        for kind, keys in sorted(_keys_by_kind(board).items()):
            figures = ("/".join(str(getattr(found[key], what)) for what in COLUMNS) for key in keys)
            lines = textwrap.wrap(" ".join(figures), 120)
            sections.append("\n".join([f"{board} {kind} {_digest(keys)}", *lines]))
    return "\n\n".join(sections) + "\n"


@cache
def _keys_by_kind(board: str) -> dict[str, list[str]]:
    """Keys of all counted cases of a board, by kind of op, in the order of the networks."""
    kinds: dict[str, dict[str, None]] = {}
    for case in counted_cases(board):
        kinds.setdefault(case.kind, {})[case.key] = None
    return {kind: list(keys) for kind, keys in kinds.items()}


def _digest(keys: Sequence[str]) -> str:
    return f"{zlib.crc32(' '.join(keys).encode()):08x}"


def seen_cases(board: str) -> dict[str, Case]:
    """Of the networks that models are fitted to, and of none that is held out, by key."""
    fitted, held_out = all_cases(board)
    unseen = {case.key for cases in held_out.values() for case in cases}
    every = {case.key: case for cases in fitted.values() for case in cases}
    return {key: case for key, case in every.items() if key not in unseen}


def prices(board: str) -> str:
    """The file of what kernels take on a board's core: sums through what was recorded."""
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# {load_board(board).core}: cycles and instructions of each feature, by C function and",
        "# C file (host/poetfw/costs/features.py).",
        "# Written by `python benchmarks/op_costs.py --prices`.",
        "",
        f'source = "host/workloads/op_costs.txt: cycles by docs/kernels.md, {recorded()[0]}"',
        f"exact = {str(load_board(board).compute.exact).lower()}",
        "",
        "[cycles]",
        *_prices(board, Counter.CYCLES),
    ]
    if PRICED[board] in MOVED:
        moved = (f'"{name}" = {price}' for name, price in MOVED[PRICED[board]].items())
        lines += ["", "[instructions]", *_prices(board, Counter.INSTRUCTIONS), *moved]
    return "\n".join(lines) + "\n"


def _prices(board: str, unit: Counter) -> Iterator[str]:
    """Lines of the file: prices of each feature, by C function, with any step, and C file."""
    counts = recorded(unit)[1][board]
    unfitted = {c.key for step in unfitted_steps(board).values() for c in cases_of(step, board)}
    cases = seen_cases(board)
    for step in for_instructions():
        cases |= {c.key: c for c in cases_of(step, board) if c.key not in unfitted}
    tiles = case_tiles(load_board(board))
    known = [(case.key, features_of(*alone(case), tiles, unit)) for case in cases.values()]
    rows = [(of, float(counts[key])) for key, of in sorted(known) if counts.get(key)]
    for case, parts in cases_of_slices() if PRICED[board] in MOVED else ():
        ((loop, _),) = loops_around(*alone(case))
        within = sum(times * counts[part.key] for part, times in parts)
        rows.append((loop, float(counts[case.key] - within)))
    estimated = unit is Counter.CYCLES
    for level in ("function", "any step", "family")[:: 1 if estimated else 2]:
        groups: dict[str, list[tuple[Featured, float]]] = {}
        for of, count in rows:
            name = of.family if level == "family" else of.function
            name = name.partition(" (")[0] if level == "any step" else name
            if level != "any step" or name != of.function:
                groups.setdefault(name, []).append((of, count))
        for name, found in sorted(groups.items()):
            functions = [of.function for of, _ in found] if level == "family" else []
            enough = FEW_ROWS if estimated and not functions else ENOUGH_ROWS
            if len(found) < enough or 0 < len(set(functions)) < ENOUGH_FUNCTIONS:
                continue
            fitted = fit([(of.features, count) for of, count in found], name, functions)
            if fitted.median_error <= LARGEST_ERROR:
                priced = [(of, x) for of, x in fitted.prices.items() if x > _NOTHING]
                each = ", ".join(f'"{of}" = {price:.4g}' for of, price in priced)
                yield f'"{name}" = {{ {with_points(each)} }}'


def with_points(text: str) -> str:
    """The same with every number a float of TOML's."""
    return re.sub(r"= (\d+)(?=,|$)", r"= \1.0", text)


@dataclass(frozen=True)
class Errors:
    """Errors of a model on a network, as shares of what was counted.

    Attributes:
        ops: errors of its ops, without sign.
        step: of all of them together.
    """

    ops: tuple[float, ...]
    step: float

    @staticmethod
    def of(predicted: Sequence[float], counted: Sequence[float]) -> Errors:
        """Of the ops' times, in the same order."""
        ops = tuple(abs(a / b - 1) for a, b in zip(predicted, counted, strict=True))
        return Errors(ops, sum(predicted) / sum(counted) - 1)

    def __str__(self) -> str:
        return f"{statistics.median(self.ops):.2%} | {max(self.ops):.1%} | {self.step:+.2%}"


def held_out_errors(board_name: str) -> Iterator[tuple[str, Errors, Errors]]:
    """Of each network that no fit sees: its name, errors of the fitted model and of the analytic.

    The first are against instructions, the others against estimated cycles.
    """
    compiler, boards = recorded()
    counts, setup, board = (
        boards[board_name],
        setup_of(board_name, compiler),
        load_board(board_name),
    )
    cycles = recorded("cycles")[1][board_name]
    _, held_out = all_cases(board_name)
    rows = [
        row_of(case, counts[key], setup)
        for key, case in seen_cases(board_name).items()
        if key in counts
    ]
    model = FittedModel(rows, lambda row: row.time_s, case_tiles(board))
    for name, cases in held_out.items():
        known = [case for case in cases if case.key in counts]
        if len(known) < 0.9 * len(cases):
            raise BenchError(f"{name}: record the cases again")
        counted = [counts[case.key] / setup.clock_hz for case in known]
        calculated = []
        for case in known:
            op, graph = alone(case)
            calculated.append(analytic_costs(graph, board, case_tiles(board)).ops[op.name].time_s)
        predicted = [model.predict(case) or float("nan") for case in known]
        estimated = [cycles[case.key] / setup.clock_hz for case in known]
        yield name, Errors.of(predicted, counted), Errors.of(calculated, estimated)


def count(board: str, cases: Iterable[Case]) -> dict[str, Measured]:
    """Instructions and estimated cycles of each case, by its key.

    Raises:
        BenchError: a tool failed.
    """
    runs = [Run(case) for case in {case.key: case for case in cases}.values()]
    found: dict[str, Measured] = {}
    for start in range(0, len(runs), AT_ONCE):
        with tempfile.TemporaryDirectory(prefix="poetfw-op-costs-") as folder:
            found |= measure(board, runs[start : start + AT_ONCE], Path(folder))
        print(f"{board}: {len(found)} of {len(runs)} cases", file=sys.stderr)
    return found
