# SPDX-License-Identifier: Apache-2.0
"""NNTrainer's memory cases (Moon et al., ICSE-SEIP 2024, Table 4 and section 5.1) beside ours.

The paper gives shapes of input and label only. The layers are those of the examples it was measured
with (nnstreamer/nntrainer, Applications/Layers), and its theoretical figures confirm them. In KiB,
with w for weights and biases, x the input, y an output, t the label:

    Linear      150528 -> 300               390,590 = 2w (352,802) + x 37,632 + y 75 + t 75, and 6
    Conv2D      3 filters, 3 x 3, stride 2   65,856 = x 37,632 + y 9,408 + dy 9,408 + t 9,408
    LSTM        150528 -> 10, one step       84,731 = 2w (47,043) + x 37,632, and 56 for the gates
    FC-FC-FC    784 -> 4096 -> 2048 -> 100  135,928 = w 46,136 + x 6,272 + y 32,768 + 16,384 + 800
                                                      + t 800 + dw of the middle layer 32,768
    Conv-AC-FL  Conv2D, ReLU, flatten        65,856 as Conv2D: both others are views

With the middle layer of FC-FC-FC frozen (section 5.1), the paper expects 24.4 MiB less. By the
lifetimes of its Algorithm 1, the step that needs most is the middle layer's, and what is live there
but need not be if the layer is frozen is its weight's and bias's gradient, dw and db:

    trained   w 46,136 + x 6,272 + y1 32,768 + dy2 16,384 + dw 32,768 + db 8 = 134,336
    frozen    w 46,136 + x 6,272 + dy2 16,384 + dy1 32,768                   = 101,560

That is 32,776 KiB less: 32.0 MiB, and 24.4% of the former. No set of the network's tensors takes
24.4 MiB, so we take the paper's figure to be these percent.

Ours is the peak of the plan that keeps everything, with tensors shared in place and gradients
applied as soon as they are complete: parameters, gradients, activations, input, label, the loss,
and a block of 512 bytes to page through, which nothing uses here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from poetfw.boards import load_board
from poetfw.costs import analytic_costs
from poetfw.ir import Attribute, Graph, Role
from poetfw.models.builder import GraphBuilder
from poetfw.planning import plan_unscheduled
from poetfw.training import Program, Sgd, constant_bytes, make_program, matching_parameters
from workloads.published import published

BATCH = 64
PIXELS = 3 * 224 * 224

_PUBLISHED = published("nntrainer_2024")
MIDDLE_FROZEN_EXPECTED: float = _PUBLISHED["middle_frozen_expected_reduction_mib"]
"""Saving that the paper expects of freezing the middle of FC-FC-FC: in MiB as it says; in percent
as its own lifetimes have it. It measured 20.9 MiB."""


def linear() -> Graph:
    """150528 -> 300."""
    builder = GraphBuilder("Linear", "x", (BATCH, PIXELS))
    return builder.build(_fully_connected(builder, "fc", builder.input, 300))[0]


def conv2d() -> Graph:
    """3 filters of 3 x 3, stride 2."""
    builder = GraphBuilder("Conv2D", "x", (BATCH, 3, 224, 224))
    return builder.build(_convolution(builder))[0]


def conv_ac_fl() -> Graph:
    """The convolution, ReLU, flatten."""
    builder = GraphBuilder("Conv-AC-FL", "x", (BATCH, 3, 224, 224))
    active = builder.op("relu", "activation", (_convolution(builder),))
    flat = builder.op("reshape", "flatten", (active,), {"shape": (BATCH, 3 * 112 * 112)})
    return builder.build(flat)[0]


def fc_fc_fc() -> Graph:
    """784 -> 4096 -> 2048 -> 100."""
    builder = GraphBuilder("FC-FC-FC", "x", (2048, 784))
    x = builder.input
    for index, units in enumerate((4096, 2048, 100), 1):
        x = _fully_connected(builder, f"fc{index}", x, units)
    return builder.build(x)[0]


def lstm(batch: int = BATCH, features: int = PIXELS, units: int = 10, steps: int = 1) -> Graph:
    """An LSTM layer, unrolled over the time steps of an input [batch, steps · features].

    i, f, o = sigmoid and g = tanh of w·x + u·h + b;  c' = f·c + i·g;  h' = o·tanh(c'). Every step
    reads the same weights, whose gradients add up over the steps. The output is the last h.
    """
    builder = GraphBuilder("LSTM", "x", (batch, steps * features))

    def parameter(name: str, *shape: int) -> str:
        return builder.declare(name, shape, Role.PARAMETER)

    weights = {
        gate: (
            parameter(f"{gate}.w", units, features),
            parameter(f"{gate}.b", units),
            parameter(f"{gate}.u", units, units),
        )
        for gate in "ifog"
    }
    h, c = (builder.declare(name, (batch, units), Role.STATE) for name in ("h0", "c0"))
    for step in range(1, steps + 1):
        x = builder.input
        if steps > 1:
            part = {"axis": 1, "start": (step - 1) * features, "length": features}
            x = builder.op("slice", f"x{step}", (x,), part)
        gates = {}
        for gate, (w, b, u) in weights.items():
            name = f"{gate}{step}"
            parts = (
                builder.op("linear", f"{name}.x", (x, w, b)),
                builder.op("linear", f"{name}.h", (h, u)),
            )
            total = builder.op("add", f"{name}.sum", parts)
            gates[gate] = builder.op("tanh" if gate == "g" else "sigmoid", name, (total,))
        kept = builder.op("multiply", f"kept{step}", (gates["f"], c))
        new = builder.op("multiply", f"new{step}", (gates["i"], gates["g"]))
        c = builder.op("add", f"c{step}", (kept, new))
        seen = builder.op("tanh", f"c{step}.tanh", (c,))
        h = builder.op("multiply", f"h{step}", (gates["o"], seen))
    return builder.build(h)[0]


def _fully_connected(builder: GraphBuilder, name: str, x: str, units: int) -> str:
    weight = builder.declare(f"{name}.weight", (units, builder.shape(x)[1]), Role.PARAMETER)
    bias = builder.declare(f"{name}.bias", (units,), Role.PARAMETER)
    return builder.op("linear", name, (x, weight, bias))


def _convolution(builder: GraphBuilder) -> str:
    weight = builder.declare("conv.weight", (3, 3, 3, 3), Role.PARAMETER)
    bias = builder.declare("conv.bias", (3,), Role.PARAMETER)
    same: dict[str, Attribute] = {"stride": (2, 2), "padding": (0, 0, 1, 1), "groups": 1}
    return builder.op("conv2d", "conv", (builder.input, weight, bias), same)


@dataclass(frozen=True, slots=True)
class Case:
    """A case of Table 4.

    Attributes:
        graph: builds the network.
        theoretical_kib: what the paper calculates that its training needs.
    """

    graph: Callable[[], Graph]
    theoretical_kib: int


_GRAPHS = (linear, conv2d, lstm, fc_fc_fc, conv_ac_fl)
TABLE_4: Mapping[str, Case] = {
    name: Case(graph, kib)
    for graph, (name, kib) in zip(
        _GRAPHS, _PUBLISHED["table4_theoretical_kib"].items(), strict=True
    )
}


@dataclass(frozen=True, slots=True)
class Row:
    """One case.

    Attributes:
        case: its name in the paper.
        theoretical_kib: the paper's figure.
        peak_bytes: most bytes live at any step, resident ones included.
        arena_bytes: what everything takes once it is placed.
    """

    case: str
    theoretical_kib: int
    peak_bytes: int
    arena_bytes: int

    @property
    def ratio(self) -> float:
        """Our peak over the paper's figure."""
        return self.peak_bytes / (self.theoretical_kib * 1024)


def training_program(graph: Graph, frozen: Collection[str] = ()) -> Program:
    """The training step with the paper's loss and optimizer."""
    return make_program(graph, "mse", Sgd(momentum=0.0), frozen)


def measure(name: str, frozen: Collection[str] = ()) -> Row:
    """The RAM that one case takes. `frozen` holds patterns of its parameters' names.

    Frozen weights are counted, as NNTrainer keeps them in RAM; a build has them in flash.
    """
    case = TABLE_4[name]
    graph = case.graph()
    program = training_program(graph, matching_parameters(graph, frozen))
    board = load_board("linux")
    memory = plan_unscheduled(program, board, analytic_costs).memory
    constant = constant_bytes(program)
    peak_bytes, arena_bytes = memory.peak_bytes + constant, memory.arena_bytes + constant
    return Row(name, case.theoretical_kib, peak_bytes, arena_bytes)
