# SPDX-License-Identifier: Apache-2.0
"""Ops of given shapes that the kernels' benchmark runs, and the goals for some of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops import KINDS, infer_output

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """Most that a kernel should take, per MAC or element.

    Attributes:
        instructions: executed.
        cycles: estimated; None for no goal.
    """

    instructions: float
    cycles: float | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One op: its kind, the shapes of its inputs, its attributes, the shapes of what it updates.

    Attributes:
        positive: positions of inputs that hold positive numbers, such as variances.
        classes: labels below this are input 1; 0 where that is not labels.
    """

    kind: str
    inputs: tuple[Shape, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    updates: tuple[Shape, ...] = ()
    positive: tuple[int, ...] = ()
    classes: int = 0

    @property
    def fields(self) -> tuple[int, int]:
        """Bits and bound of the numbers in integer inputs: labels are words."""
        return 32, self.classes

    def graph(self) -> tuple[Op, Graph]:
        """The op, alone in a graph."""
        tensors = [
            Tensor(f"in{i}", shape, Dtype.I32 if self.classes and i == 1 else Dtype.F32, Role.INPUT)
            for i, shape in enumerate(self.inputs)
        ]
        states = [Tensor(f"state{i}", s, role=Role.STATE) for i, s in enumerate(self.updates)]
        updated = tuple(state.name for state in states)
        output = None if self.updates else "out"
        names = tuple(tensor.name for tensor in tensors)
        op = Op("op", self.kind, names, output, self.attributes, updated)
        produced = infer_output(op, tensors, Role.ACTIVATION)
        every = (*tensors, *states, *(() if produced is None else (produced,)))
        return op, Graph("one op", every, (op,), output or updated[0])


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table.

    Attributes:
        name: of the shape.
        part: which pass.
        calls: the ops that make it up, run one after the other.
        work: MACs, or elements.
        unit: what `work` counts.
        goal: what it should take; None for none.
        peers: where `published/kernels.toml` has others' figures; "" for nowhere.
    """

    name: str
    part: str
    calls: tuple[Call, ...]
    work: int
    unit: str = "MAC"
    goal: Goal | None = None
    peers: str = ""

    @property
    def key(self) -> str:
        """Names it among all cases of a board."""
        return f"{self.name}, {self.part}"


FORWARD, INPUT, WEIGHT, FUSED = "forward", "dX", "dW", "dW and update"
SGD: Mapping[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0}
Goals = Mapping[str, Goal]
Peers = Mapping[str, str]


def convolution(
    name: str,
    x: Shape,
    out_channels: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    bias: bool = False,
    fused: bool = False,
    goals: Goals | None = None,
    peers: Peers | None = None,
) -> Iterator[Case]:
    """The three passes of a convolution of x [N, C, H, W]."""
    calls, macs = convolution_calls(
        x,
        out_channels,
        (kernel, kernel),
        stride=(stride, stride),
        padding=(padding, padding, padding, padding),
        groups=groups,
        bias=bias,
    )
    for part, call in calls.items():
        if part != FUSED or fused:
            goal, peer = (goals or {}).get(part), (peers or {}).get(part, "")
            yield Case(name, part, (call,), macs, goal=goal, peers=peer)


def convolution_calls(
    x: Shape,
    out_channels: int,
    kernel: Shape,
    *,
    stride: Shape = (1, 1),
    padding: Shape = (0, 0, 0, 0),
    groups: int = 1,
    bias: bool = False,
) -> tuple[dict[str, Call], int]:
    """The passes of a convolution of x [N, C, H, W], and the MACs of each.

    Kernel and stride are of rows and columns; padding is top, left, bottom and right.
    """
    w = (out_channels, x[1] // groups, *kernel)
    window: dict[str, Attribute] = {"stride": stride, "padding": padding, "groups": groups}
    rows, columns = (
        (x[2 + axis] + padding[axis] + padding[2 + axis] - kernel[axis]) // stride[axis] + 1
        for axis in (0, 1)
    )
    y = (x[0], out_channels, rows, columns)
    weighted: dict[str, Attribute] = {**window, "weight_shape": w}
    calls = {
        FORWARD: Call("conv2d", (x, w, (out_channels,)) if bias else (x, w), window),
        INPUT: Call("conv2d_backward_input", (w, y), {**window, "input_shape": x}),
        WEIGHT: Call("conv2d_backward_weight", (x, y), weighted),
        FUSED: Call("conv2d_backward_weight_sgd", (x, y), {**weighted, **SGD}, (w, w)),
    }
    return calls, math.prod(y) * math.prod(w[1:])


def dense(
    name: str,
    batch: int,
    features: int,
    outputs: int,
    *,
    fused: bool = False,
    goals: Goals | None = None,
    peers: Peers | None = None,
) -> Iterator[Case]:
    """The three passes of a linear layer."""
    x, w, y = (batch, features), (outputs, features), (batch, outputs)
    calls = {
        FORWARD: Call("linear", (x, w, (outputs,))),
        INPUT: Call("linear_backward_input", (w, y)),
        WEIGHT: Call("linear_backward_weight", (x, y)),
        FUSED: Call("linear_backward_weight_sgd", (x, y), SGD, (w, w)),
    }
    for part, call in calls.items():
        if part == FUSED and not fused:
            continue
        yield Case(
            name,
            part,
            (call,),
            batch * features * outputs,
            goal=(goals or {}).get(part),
            peers=(peers or {}).get(part, ""),
        )


def normalization(
    name: str, x: Shape, goals: Goals | None = None, peers: Peers | None = None
) -> Iterator[Case]:
    """Batch norm's two passes in training: statistics and output, and all gradients."""
    pair = (2, x[1])
    eps: dict[str, Attribute] = {"eps": 1e-5}
    calls = {
        FORWARD: (
            Call("batch_norm_statistics", (x,)),
            Call("batch_norm_normalize", (x, pair, pair), eps, positive=(1,)),
        ),
        "backward": (
            Call("batch_norm_backward_affine", (x, pair, x), eps, positive=(1,)),
            Call("batch_norm_backward_input", (x, pair, pair, pair, x), eps, positive=(1,)),
        ),
    }
    for part, ops in calls.items():
        yield Case(
            name,
            part,
            ops,
            math.prod(x),
            "element",
            (goals or {}).get(part),
            (peers or {}).get(part, ""),
        )


def elementwise(shape: Shape) -> Iterator[Case]:
    """Ops of a few instructions per element."""
    n, c, h, w = shape
    window: dict[str, Attribute] = {
        "kernel": (2, 2),
        "stride": (2, 2),
        "padding": (0, 0, 0, 0),
    }
    pooled = (n, c, h // 2, w // 2)
    elements = math.prod(shape)
    for kind, call in {
        "relu": Call("relu", (shape,)),
        "relu backward": Call("relu_backward", (shape, shape)),
        "add": Call("add", (shape, shape)),
        "max pool 2x2": Call("max_pool2d", (shape,), window),
        "max pool 2x2 backward": Call("max_pool2d_backward", (shape, pooled), window),
        "average pool 2x2": Call("avg_pool2d", (shape,), {**window, "count_include_pad": 0}),
        "global average pool": Call("global_avg_pool", (shape,)),
        "global average pool backward": Call(
            "global_avg_pool_backward", ((n, c, 1, 1),), {"input_shape": shape}
        ),
        "bias gradient": Call("conv2d_backward_bias", (shape,)),
        "sgd with momentum": Call("sgd", (shape,), SGD, (shape, shape)),
    }.items():
        yield Case(kind, "all", (call,), elements, "element")
    labelled = Call("softmax_cross_entropy_backward", ((32, 10), (32,)), classes=10)
    yield Case("softmax cross entropy backward", "all", (labelled,), 320, "element")


def _goals(*pairs: tuple[float, float] | float) -> Goals:
    return {
        part: Goal(*pair) if isinstance(pair, tuple) else Goal(pair)
        for part, pair in zip((FORWARD, INPUT, WEIGHT), pairs, strict=True)
    }


def _peers(*tables: str) -> Peers:
    return dict(zip((FORWARD, INPUT, WEIGHT), tables, strict=True))


def _m4f() -> Iterator[Case]:
    yield from convolution(
        "conv 3x3 16>16 32x32",
        (1, 16, 32, 32),
        16,
        3,
        padding=1,
        goals=_goals((2.6, 3.1), (2.6, 3.1), (2.8, 3.3)),
        peers=_peers(*(f"m4f.conv_{part}.insns_per_mac" for part in ("forward", "dx", "dw"))),
    )
    matmul = {FORWARD: "m4f.matmul_im2col.insns_per_mac"}
    # Its dX sums over 16 channels only, as the next one's does.
    pointwise = _goals((2.7, 3.2), (3.2, 3.8), (2.8, 3.4))
    yield from convolution(
        "conv 1x1 144>16 32x32", (1, 144, 32, 32), 16, 1, goals=pointwise, peers=matmul
    )
    pointwise = _goals((3.2, 3.8), (3.2, 3.8), (2.8, 3.4))
    yield from convolution("conv 1x1 16>16 32x32", (1, 16, 32, 32), 16, 1, goals=pointwise)
    yield from convolution(
        "depthwise 3x3 16 32x32",
        (1, 16, 32, 32),
        16,
        3,
        padding=1,
        groups=16,
        goals=_goals((2.5, 2.9), (2.8, 3.4), (3.0, 3.6)),
        peers=_peers(*(f"m4f.depthwise_{part}.insns_per_mac" for part in ("forward", "dx", "dw"))),
    )
    yield from dense(
        "dense 64>10",
        1,
        64,
        10,
        goals=_goals((3.5, 5.2), (3.5, 5.0), (4.4, 7.0)),
        peers=_peers(*(f"m4f.dense_{part}.insns_per_mac" for part in ("forward", "dx", "dw"))),
    )
    yield from normalization(
        "batch norm 16 32x32",
        (1, 16, 32, 32),
        {FORWARD: Goal(9, 12.5), "backward": Goal(13.5, 19)},
        {
            FORWARD: "m4f.batchnorm_forward_per_element.insns",
            "backward": "m4f.batchnorm_backward_per_element.insns",
        },
    )
    # The demo's layers.
    yield from convolution("conv 3x3 1>8 8x8 x32", (32, 1, 8, 8), 8, 3, padding=1)
    yield from convolution("conv 3x3 8>8 8x8 x32", (32, 8, 8, 8), 8, 3, padding=1, fused=True)
    yield from dense("dense 64>10 x32", 32, 64, 10)
    yield from normalization("batch norm 8 8x8 x32", (32, 8, 8, 8))
    # Other shapes.
    yield from convolution("conv 3x3 3>8 32x32", (1, 3, 32, 32), 8, 3, padding=1, bias=True)
    yield from convolution("conv 3x3 8>8 16x16 stride 2", (1, 8, 16, 16), 8, 3, stride=2, padding=1)
    # strips that are made again, odd planes, and blocks of output channels that overlap
    yield from convolution(
        "conv 3x3 3>6 7x18 stride 2 x2", (2, 3, 7, 18), 6, 3, stride=2, padding=1, fused=True
    )
    yield from convolution(
        "conv 3x3 4>5 8x15 stride 2", (1, 4, 8, 15), 5, 3, stride=2, padding=1, bias=True
    )
    yield from convolution("conv 3x3 10>10 15x13", (1, 10, 15, 13), 10, 3, padding=1, bias=True)
    yield from convolution("conv 3x3 10>3 7x7 x3", (3, 10, 7, 7), 3, 3, padding=1)
    yield from convolution("conv 3x3 8>8 4x4", (1, 8, 4, 4), 8, 3, padding=1)
    yield from convolution("conv 3x3 8>8 2x2", (1, 8, 2, 2), 8, 3, padding=1)
    yield from convolution("conv 3x3 8>8 9x9 no padding", (1, 8, 9, 9), 8, 3)
    yield from convolution("conv 3x3 16>16 32x32 no padding", (1, 16, 32, 32), 16, 3)
    yield from convolution("depthwise 3x3 16 32x32 no padding", (1, 16, 32, 32), 16, 3, groups=16)
    yield from convolution("conv 5x5 8>8 16x16", (1, 8, 16, 16), 8, 5, padding=2)
    yield from convolution("conv 5x5 3>10 9x11 stride 2", (2, 3, 9, 11), 10, 5, stride=2, padding=2)
    yield from convolution("conv 7x7 3>8 16x16 stride 2", (1, 3, 16, 16), 8, 7, stride=2, padding=3)
    yield from convolution("conv 1x1 8>8 4x4 x4", (4, 8, 4, 4), 8, 1)
    yield from convolution("conv 1x1 10>3 7x7", (1, 10, 7, 7), 3, 1)
    yield from convolution("conv 1x1 8>16 16x16 stride 2", (1, 8, 16, 16), 16, 1, stride=2)
    yield from convolution("conv 1x1 64>10 1x1 x2", (2, 64, 1, 1), 10, 1)
    # runs of positions, of which the last overlaps; fours of two samples, of channels in two turns
    yield from convolution("conv 1x1 3>5 7x13 stride 2", (1, 3, 7, 13), 5, 1, stride=2, bias=True)
    yield from convolution("conv 1x1 20>6 4x4 stride 2 x3", (3, 20, 4, 4), 6, 1, stride=2)
    yield from convolution(
        "depthwise 3x3 8 8x8 x4", (4, 8, 8, 8), 8, 3, padding=1, groups=8, bias=True
    )
    yield from convolution(
        "depthwise 3x3 10 15x13 stride 2", (1, 10, 15, 13), 10, 3, stride=2, padding=1, groups=10
    )
    yield from convolution(
        "depthwise 3x3 8 16x16 stride 2", (1, 8, 16, 16), 8, 3, stride=2, padding=1, groups=8
    )
    # every load of a strip, and every run of rows
    yield from convolution("depthwise 3x3 3 9x9 padding 2", (1, 3, 9, 9), 3, 3, padding=2, groups=3)
    yield from convolution("depthwise 3x3 3 20x9 no padding", (1, 3, 20, 9), 3, 3, groups=3)
    yield from convolution("depthwise 3x3 3 6x5 x2", (2, 3, 6, 5), 3, 3, padding=1, groups=3)
    yield from convolution("conv 1x1 7>5 5x8", (1, 7, 5, 8), 5, 1, bias=True)
    yield from convolution("depthwise 5x5 8 8x8 x2", (2, 8, 8, 8), 8, 5, padding=2, groups=8)
    yield from convolution("grouped 3x3 8>8 8x8", (1, 8, 8, 8), 8, 3, padding=1, groups=2)
    yield from dense("dense 100>3", 1, 100, 3)
    yield from dense("dense 13>7 x3", 3, 13, 7)
    yield from dense("dense 256>64 x8", 8, 256, 64)
    yield from normalization("batch norm 3 7x7 x3", (3, 3, 7, 7))
    yield from normalization("batch norm 10 1x1 x8", (8, 10, 1, 1))
    yield from elementwise((2, 8, 16, 16))


def _m0() -> Iterator[Case]:
    yield from convolution(
        "conv 3x3 8>8 8x8",
        (1, 8, 8, 8),
        8,
        3,
        padding=1,
        goals=_goals(76, 76, 76),
        peers=_peers(*(f"m0.conv_8x8_{part}_insns_per_mac" for part in ("forward", "dx", "dw"))),
    )
    yield from convolution("depthwise 3x3 8 8x8", (1, 8, 8, 8), 8, 3, padding=1, groups=8)
    yield from convolution("conv 1x1 16>8 8x8", (1, 16, 8, 8), 8, 1)
    yield from convolution("conv 3x3 3>8 8x8 stride 2", (1, 3, 8, 8), 8, 3, stride=2, padding=1)
    yield from dense(
        "dense 64>10",
        1,
        64,
        10,
        goals=_goals(85, 85, 85),
        peers={FORWARD: "m0.matmul_insns_per_mac"},
    )
    yield from dense("dense 64>10 x4", 4, 64, 10)
    yield from normalization(
        "batch norm 8 8x8",
        (1, 8, 8, 8),
        peers={
            FORWARD: "m0.batchnorm_forward_per_element_insns",
            "backward": "m0.batchnorm_backward_per_element_insns",
        },
    )
    yield from elementwise((1, 8, 8, 8))


CASES: Mapping[str, tuple[Case, ...]] = {"nrf52840": tuple(_m4f()), "mkr1000": tuple(_m0())}
"""By board."""


SURVEYED_PLANES = {1: ((28, 28), (16, 16), (15, 13), (8, 8), (7, 7)), 32: ((8, 8), (7, 7), (4, 4))}
"""Rows and columns, by batch."""


SURVEYED_PRODUCTS = (
    *((1, 8, 8, 8), (1, 10, 64, 10), (4, 16, 16, 16), (2, 16, 48, 24), (1, 7, 33, 5)),
    *((8, 4, 32, 4), (1, 1, 64, 16), (3, 17, 12, 9), (2, 32, 100, 8), (1, 64, 64, 64)),
)
"""Pairs, rows, inner extent and columns."""


def surveyed() -> Iterator[Case]:
    """Ops of many shapes; the goal of each is 1.5 times that of a shape in the first table."""
    square = _goals((3.9, 4.65), (3.9, 4.65), (4.2, 4.95))
    pointwise = _goals((4.8, 5.7), (4.8, 5.7), (4.2, 5.1))
    depthwise = _goals((3.75, 4.35), (4.2, 5.1), (4.5, 5.4))
    linear = _goals((5.25, 7.8), (5.25, 7.5), (6.6, 10.5))
    normalized = {FORWARD: Goal(13.5, 18.75), "backward": Goal(20.25, 28.5)}
    for batch, extents in SURVEYED_PLANES.items():
        for inside, outside in ((1, 8), (3, 8), (8, 8), (10, 10), (8, 16), (16, 10)):
            for height, width in extents:
                for kernel, stride in itertools.product((3, 5, 1), (1, 2)):
                    yield from convolution(
                        f"conv {kernel}x{kernel} {inside}>{outside} {height}x{width}"
                        f" stride {stride} x{batch}",
                        (batch, inside, height, width),
                        outside,
                        kernel,
                        stride=stride,
                        padding=kernel // 2,
                        goals=pointwise if kernel == 1 else square,
                    )
        for channels, (height, width) in itertools.product((1, 3, 8, 10, 16), extents):
            for kernel, stride in itertools.product((3, 5), (1, 2)):
                yield from convolution(
                    f"depthwise {kernel}x{kernel} {channels} {height}x{width}"
                    f" stride {stride} x{batch}",
                    (batch, channels, height, width),
                    channels,
                    kernel,
                    stride=stride,
                    padding=kernel // 2,
                    groups=channels,
                    goals=depthwise,
                )
            name = f"batch norm {channels} {height}x{width} x{batch}"
            yield from normalization(name, (batch, channels, height, width), normalized)
        for features, outputs in itertools.product((3, 10, 16, 64, 100), repeat=2):
            name = f"dense {features}>{outputs} x{batch}"
            yield from dense(name, batch, features, outputs, fused=True, goals=linear)
    for batch, rows, inner, columns in SURVEYED_PRODUCTS:
        for turned in itertools.product((0, 1), repeat=2):
            a = (batch, inner, rows) if turned[0] else (batch, rows, inner)
            b = (batch, columns, inner) if turned[1] else (batch, inner, columns)
            attributes = dict(zip(("transpose_a", "transpose_b"), turned, strict=True))
            yield Case(
                f"matmul {rows}x{inner}x{columns} x{batch}",
                f"{'aT' if turned[0] else 'a'} {'bT' if turned[1] else 'b'}",
                (Call("matmul", (a, b), attributes),),
                batch * rows * inner * columns,
            )


FAST = (
    "conv 3x3 8>8 4x4",
    "conv 1x1 8>8 4x4 x4",
    "conv 1x1 3>5 7x13 stride 2",
    "conv 1x1 20>6 4x4 stride 2 x3",
    "conv 5x5 3>10 9x11 stride 2",
    "depthwise 3x3 8 8x8",
    "depthwise 3x3 8 8x8 x4",
    "depthwise 3x3 3 9x9 padding 2",
    "depthwise 3x3 3 20x9 no padding",
    "depthwise 3x3 3 6x5 x2",
    "conv 1x1 7>5 5x8",
    "conv 3x3 10>10 15x13",
    "conv 3x3 8>8 16x16 stride 2",
    "conv 3x3 3>6 7x18 stride 2 x2",
    "conv 3x3 4>5 8x15 stride 2",
    "dense 64>10",
    "batch norm 10 1x1 x8",
    "batch norm 8 8x8",
)
"""Names of those that the tests run: the Cortex-M4F's in `make test`, both in `make test-all`."""


def kinds() -> frozenset[str]:
    """Kinds of ops that some case runs."""
    return frozenset(c.kind for cases in CASES.values() for case in cases for c in case.calls)


def missing_kinds() -> list[str]:
    """Kinds of ops that no case runs."""
    return sorted(set(KINDS) - kinds())
