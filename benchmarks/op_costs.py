# SPDX-License-Identifier: Apache-2.0
"""Executed instructions of every op of several networks' training steps, as rows for a database.

Runs the project's own kernels on the emulated machine of a board, as benchmarks/kernels.py does,
and writes what `poetfw costs import` reads. The networks are drawn at random, so that shapes vary
as networks' do, and beside them are five that the fitted model is tested on and never sees:

    python benchmarks/op_costs.py --board nrf52840 --networks 40 --out rows.json
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_bench.cases import CASES, Shape
from kernels import BenchError, compiler_version, measure

from poetfw.boards import load_board
from poetfw.costs import Case, Counter, Measurement, Setup, alone, case_of
from poetfw.costs.exchange import to_json
from poetfw.firmware.kernel_version import kernel_version
from poetfw.ir import Attribute, Dtype, Graph, Op
from poetfw.models import Model, build_model
from poetfw.models.bert import BertSize, bert
from poetfw.models.layers import Layers
from poetfw.ops import kind_of
from poetfw.training import make_program

AT_ONCE = 300
"""Cases in one firmware."""

MEASURED_AT = "2026-11-22T00:00:00Z"
LARGEST_OPERANDS_BYTES = {"nrf52840": 3 << 20, "mkr1000": 24 << 10}
MOST_MACS = {"nrf52840": 8_000_000, "mkr1000": 200_000}
ACTIVATIONS = ("relu", "relu", "relu", "relu6", "gelu", "tanh", "sigmoid", "silu", "hard_swish")
POSITIVE: Mapping[str, tuple[int, ...]] = {
    call.kind: call.positive
    for cases in CASES.values()
    for case in cases
    for call in case.calls
    if call.positive
}
"""Which inputs hold variances, by kind of op."""


@dataclass(frozen=True)
class Run:
    """A case as the kernels' benchmark takes it: like one of its cases, and its only call."""

    case: Case
    classes: int = 2

    @property
    def key(self) -> str:
        """Names it."""
        return self.case.key

    name = key

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

    def graph(self) -> tuple[Op, Graph]:
        """The op, alone in a graph."""
        return alone(self.case)


class Drawn:
    """A network of random extents, drawn layer by layer."""

    def __init__(self, seed: int, small: bool) -> None:
        self.random = random.Random(seed)
        draw = self.random
        batch = draw.choice((1, 1, 2, 3, 4, 8))
        extents = (draw.randint(6, 9), draw.randint(6, 9)) if small else (
            draw.randint(8, 24), draw.randint(8, 24))
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
        """x through an activation."""
        return self.layers.op(self.random.choice(ACTIVATIONS), self.name(), (x,))

    def block(self, x: str) -> str:
        """A convolution and what often follows it."""
        draw, layers = self.random, self.layers
        before = x
        x = self.convolution(x)
        if draw.random() < 0.6:
            x = layers.batch_norm(self.name(), x)
        if layers.shape(x) == layers.shape(before):
            x = layers.add(self.name(), x, before)
        x = self.active(x)
        if min(layers.shape(x)[2:]) >= 4 and draw.random() < 0.3:
            x = layers.pool(draw.choice(("max_pool2d", "avg_pool2d")), self.name(), x, 2)
        return x

    def convolution(self, x: str) -> str:
        """A dense, depthwise or grouped one."""
        draw, layers = self.random, self.layers
        _, channels, *extents = layers.shape(x)
        kernel = draw.choice([k for k in (1, 1, 3, 3, 3, 3, 5, 7) if k <= min(extents)])
        padding = kernel // 2 if min(extents) < 6 or draw.random() < 0.8 else 0
        stride = 2 if min(extents) >= 6 and draw.random() < 0.25 else 1
        groups, out = 1, draw.choice((draw.randint(3, self.most), 4 * draw.randint(1, self.most // 4)))
        if channels > 1 and draw.random() < 0.3:
            groups = out = channels
        elif channels % 2 == 0 and draw.random() < 0.1:
            groups, out = 2, out // 2 * 2 + 2
        shape: Shape = (out, channels // groups, kernel, kernel)
        inputs = [x, layers.weight(self.name(), shape)]
        if draw.random() < 0.3:
            inputs.append(layers._persistent(self.name(), _zeros(out)))
        attributes: dict[str, Attribute] = {
            "stride": (stride, stride),
            "padding": (padding,) * 4,
            "groups": groups,
        }
        return layers.op("conv2d", self.name(), inputs, attributes)


def _zeros(count: int):  # noqa: ANN202
    from poetfw.models.weights import zeros

    return zeros(count)


def ds_cnn(batch: int) -> Model:
    """MLPerf Tiny's keyword spotting network, DS-CNN, on 49 x 10 features, with half its channels."""
    layers = Layers("ds-cnn", (batch, 1, 49, 10), 0)
    window: dict[str, Attribute] = {"stride": (2, 2), "padding": (4, 1, 5, 2), "groups": 1}
    x = layers.op("conv2d", "stem", (layers.input, layers.weight("stem.w", (32, 1, 10, 4))), window)
    for i in range(4):
        x = layers.relu(f"relu{i}", layers.batch_norm(f"bn{i}", x))
        window = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 32}
        x = layers.op("conv2d", f"depth{i}", (x, layers.weight(f"depth{i}.w", (32, 1, 3, 3))), window)
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
    for seed in range(8):
        draw = random.Random(seed)
        heads, most = draw.randint(1, 4), 3 if small else 10
        tokens = draw.randint(4, 2 * most)
        size = BertSize(
            1, heads * draw.randint(2, most), heads, tokens, draw.randint(10, 60), tokens + 3
        )
        yield f"bert{seed}", False, bert(f"bert{seed}", size, draw.randint(1, 3), seed)


def cases_of(model: Model, board: str) -> Iterator[Case]:
    """The cases of a training step, loads apart, that the machine has room and patience for."""
    graph = make_program(model.graph, model.loss, model.optimizer).training
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", choices=tuple(CASES), default="nrf52840")
    parser.add_argument("--networks", type=int, default=40, help="drawn at random")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    board = load_board(arguments.board)
    setup = Setup(
        board.name, board.core, board.clock_hz, "qemu", compiler_version(board.name)
    )
    every: dict[str, Case] = {}
    for name, held_out, model in networks(board.name, arguments.networks):
        found = {case.key: case for case in cases_of(model, board.name)}
        print(f"{name}: {len(found)} cases{', held out' if held_out else ''}", file=sys.stderr)
        every |= found
    rows = []
    runs = [Run(case) for case in every.values()]
    for start in range(0, len(runs), AT_ONCE):
        with tempfile.TemporaryDirectory(prefix="poetfw-op-costs-") as folder:
            measured = measure(board.name, runs[start : start + AT_ONCE], Path(folder))
        for run in runs[start : start + AT_ONCE]:
            ticks = measured[run.key].instructions
            op, graph = run.graph()
            time_s = ticks / board.clock_hz
            rows.append(
                Measurement(
                    run.case, setup, kernel_version(kind_of(op).kernel(op, graph).source), 1,
                    Counter.INSTRUCTIONS, ticks, 0.0, time_s, time_s * board.power.active_w, 0.0,
                    MEASURED_AT,
                )
            )
        print(f"{len(rows)} of {len(runs)} measured", file=sys.stderr)
    arguments.out.write_bytes(to_json(rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(str(error))
