# SPDX-License-Identifier: Apache-2.0
"""Outputs and gradients of every operator against PyTorch's, which calculates in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from poetfw.ir import Attribute

torch = pytest.importorskip("torch")
F = torch.nn.functional

Padding = tuple[int, int, int, int]


def padded(x: Any, padding: Padding, value: float = 0.0) -> Any:
    top, left, bottom, right = padding
    return F.pad(x, (left, right, top, bottom), value=value)


@dataclass(frozen=True)
class Case:
    """One use of an operator, and the same in PyTorch."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    torch: Callable[..., Any]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    steps: float | None = None
    """Inputs are multiples of this, so that ties and corner values occur."""
    positive: bool = False
    """Inputs are above 0."""


def convolution(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    stride: tuple[int, int] = (1, 1),
    padding: Padding = (0, 0, 0, 0),
    groups: int = 1,
    bias: bool = False,
) -> Case:
    return Case(
        "conv2d",
        (x, w, w[:1]) if bias else (x, w),
        lambda x, w, b=None: F.conv2d(padded(x, padding), w, b, stride, groups=groups),
        {"stride": stride, "padding": padding, "groups": groups},
    )


def max_pool(
    x: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Padding = (0, 0, 0, 0),
    steps: float | None = None,
) -> Case:
    return Case(
        "max_pool2d",
        (x,),
        lambda x: F.max_pool2d(padded(x, padding, -torch.inf), kernel, stride),
        {"kernel": kernel, "stride": stride, "padding": padding},
        steps,
    )


def avg_pool(
    x: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Padding = (0, 0, 0, 0),
    include: int = 1,
) -> Case:
    def reference(x: Any) -> Any:
        y = F.avg_pool2d(padded(x, padding), kernel, stride)
        share = F.avg_pool2d(padded(torch.ones_like(x), padding), kernel, stride)
        return y if include else y / share

    attributes: dict[str, Attribute] = {"kernel": kernel, "stride": stride, "padding": padding}
    return Case("avg_pool2d", (x,), reference, {**attributes, "count_include_pad": include})


def transposition(
    x: tuple[int, ...], view: tuple[int, ...], axes: tuple[int, ...], shape: tuple[int, ...]
) -> Case:
    attributes = {"view": view, "axes": axes, "shape": shape}
    return Case(
        "transpose", (x,), lambda x: x.reshape(view).permute(axes).reshape(shape), attributes
    )


def product(a: tuple[int, ...], b: tuple[int, ...], turned: tuple[int, int]) -> Case:
    def reference(a: Any, b: Any) -> Any:
        return (a.mT if turned[0] else a) @ (b.mT if turned[1] else b)

    attributes = dict(zip(("transpose_a", "transpose_b"), turned, strict=True))
    return Case("matmul", (a, b), reference, attributes)


def strided(
    kind: str,
    x: tuple[int, ...],
    attributes: Mapping[str, Attribute],
    reference: Callable[..., Any],
) -> Case:
    return Case(kind, (x,), reference, {"offset": 0, **attributes})


def transposed(
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    stride: int,
    padding: int,
    groups: int,
) -> Case:
    """A transposed convolution; its inputs are the weight and x."""

    def reference(w: Any, x: Any) -> Any:
        more = (y[2] - (x.shape[2] - 1) * stride + 2 * padding - w.shape[2],) * 2
        return F.conv_transpose2d(x, w, None, stride, padding, more, groups)

    attributes: dict[str, Attribute] = {
        "stride": (stride,) * 2,
        "padding": (padding,) * 4,
        "groups": groups,
        "input_shape": y,
    }
    return Case("conv2d_backward_input", (w, x), reference, attributes)


SHAPE = (3, 4, 5)
"""What functions of one number are tried on."""

CASES = {
    "conv 3x3 same": convolution((3, 4, 8, 8), (6, 4, 3, 3), padding=(1, 1, 1, 1), bias=True),
    "conv without padding": convolution((2, 3, 7, 5), (4, 3, 3, 2)),
    "conv stride 2, odd padding": convolution(
        (2, 3, 8, 8), (5, 3, 3, 3), stride=(2, 2), padding=(0, 0, 1, 1)
    ),
    "conv all padding different": convolution(
        (2, 2, 7, 9), (3, 2, 3, 2), stride=(2, 3), padding=(2, 1, 0, 3), bias=True
    ),
    "conv stride over kernel": convolution((1, 2, 9, 9), (2, 2, 2, 2), stride=(3, 4)),
    "conv kernel within padding": convolution(
        (1, 1, 3, 3), (2, 1, 2, 2), padding=(3, 2, 2, 3), bias=True
    ),
    "conv input never seen": convolution((1, 2, 6, 6), (2, 2, 2, 2), stride=(4, 4)),
    "conv 2 groups": convolution((2, 4, 6, 6), (6, 2, 3, 3), padding=(1, 1, 1, 1), groups=2),
    "conv depthwise": convolution(
        (2, 5, 6, 6), (5, 1, 3, 3), padding=(1, 1, 1, 1), groups=5, bias=True
    ),
    "conv depthwise, multiplier 2": convolution(
        (2, 3, 6, 6), (6, 1, 3, 3), stride=(2, 2), padding=(1, 1, 1, 1), groups=3
    ),
    "conv 1x1": convolution((2, 7, 4, 4), (5, 7, 1, 1), bias=True),
    "conv 1x1, stride 2": convolution((2, 3, 5, 5), (4, 3, 1, 1), stride=(2, 2)),
    "linear": Case("linear", ((5, 12), (7, 12), (7,)), F.linear),
    "linear without bias": Case("linear", ((1, 3), (2, 3)), F.linear),
    "relu": Case("relu", ((3, 4, 5, 5),), F.relu, steps=0.5),
    "relu6": Case("relu6", ((3, 4, 5, 5),), F.relu6, steps=3.0),
    "add": Case("add", ((3, 4, 2, 2), (3, 4, 2, 2)), torch.add),
    "reshape": Case("reshape", ((3, 4, 2, 2),), lambda x: x.flatten(1), {"shape": (3, 16)}),
    "gelu": Case("gelu", (SHAPE,), F.gelu),
    "gelu by tanh": Case("gelu_tanh", (SHAPE,), lambda x: F.gelu(x, approximate="tanh")),
    "tanh": Case("tanh", (SHAPE,), torch.tanh),
    "sigmoid": Case("sigmoid", (SHAPE,), torch.sigmoid),
    "silu": Case("silu", (SHAPE,), F.silu),
    "leaky relu": Case("leaky_relu", (SHAPE,), lambda x: F.leaky_relu(x, 0.2), {"slope": 0.2}),
    "leaky relu at 0": Case(
        "leaky_relu", (SHAPE,), lambda x: F.leaky_relu(x, 0.2), {"slope": 0.2}, steps=1.0
    ),
    "elu": Case("elu", (SHAPE,), lambda x: F.elu(x, 0.7), {"alpha": 0.7}),
    "elu at 0": Case("elu", (SHAPE,), lambda x: F.elu(x, 0.7), {"alpha": 0.7}, steps=1.0),
    "softplus": Case("softplus", (SHAPE,), lambda x: F.softplus(x, threshold=1e9)),
    "hard sigmoid": Case("hard_sigmoid", (SHAPE,), lambda x: F.relu6(x + 3) / 6),
    "hard sigmoid at its corners": Case(
        "hard_sigmoid", (SHAPE,), lambda x: F.relu6(x + 3) / 6, steps=3.0
    ),
    "hard swish": Case("hard_swish", (SHAPE,), F.hardswish),
    "hard swish at its corners": Case("hard_swish", (SHAPE,), F.hardswish, steps=3.0),
    "at least": Case("at_least", (SHAPE,), lambda x: x.clamp(min=0.25), {"bound": 0.25}),
    "at least, at it": Case(
        "at_least", (SHAPE,), lambda x: x.clamp(min=1.0), {"bound": 1.0}, steps=1.0
    ),
    "at most": Case("at_most", (SHAPE,), lambda x: x.clamp(max=-0.25), {"bound": -0.25}),
    "erf": Case("erf", (SHAPE,), torch.erf),
    "exp": Case("exp", (SHAPE,), torch.exp),
    "sqrt": Case("sqrt", (SHAPE,), torch.sqrt, positive=True),
    "log": Case("log", (SHAPE,), torch.log, positive=True),
    "norm_root": Case("norm_root", (SHAPE,), torch.sqrt, positive=True),
    "reciprocal": Case("reciprocal", (SHAPE,), torch.reciprocal, positive=True),
    "square": Case("square", (SHAPE,), torch.square),
    "abs": Case("abs", (SHAPE,), torch.abs, steps=1.0),
    "scale": Case("scale", (SHAPE,), lambda x: -0.3 * x, {"factor": -0.3}),
    "multiply": Case("multiply", (SHAPE, SHAPE), torch.mul),
    "multiply, a gate for each channel": Case("multiply", ((2, 3, 4, 5), (2, 3, 1, 1)), torch.mul),
    "multiply, a row": Case("multiply", ((2, 3, 4), (4,)), torch.mul),
    "multiply, one number": Case("multiply", ((2, 3), (1,)), torch.mul),
    "sum to a row": Case("sum_to", ((2, 3, 4),), lambda x: x.sum((0, 1)), {"shape": (4,)}),
    "sum to a middle axis": Case(
        "sum_to", ((2, 3, 4),), lambda x: x.sum((0, 2), keepdim=True), {"shape": (1, 3, 1)}
    ),
    "take every other, backwards": strided(
        "take_strided",
        (3, 6),
        {"shape": (3, 3), "steps": (6, -2), "offset": 5},
        lambda x: x.flip(1)[:, ::2],
    ),
    "take each twice": strided(
        "take_strided",
        (3, 4),
        {"shape": (3, 2, 4, 2), "steps": (4, 0, 1, 0)},
        lambda x: x.reshape(3, 1, 4, 1).expand(3, 2, 4, 2),
    ),
    "put into zeros": strided(
        "put_strided",
        (2, 3),
        {"shape": (4, 7), "steps": (7, 2), "offset": 8},
        lambda x: torch.nn.functional.pad(
            torch.stack([x, torch.zeros_like(x)], -1).reshape(2, 6)[:, :5], (1, 1, 1, 1)
        ),
    ),
    "concat of channels": Case(
        "concat", ((2, 3, 4), (2, 1, 4)), lambda a, b: torch.cat([a, b], 1), {"axis": 1}
    ),
    "concat of batches": Case(
        "concat", ((2, 3), (4, 3)), lambda a, b: torch.cat([a, b]), {"axis": 0}
    ),
    "transposed convolution": transposed((2, 4, 3, 3), (4, 3, 2, 2), (2, 3, 6, 6), 2, 0, 1),
    "transposed convolution, groups": transposed((2, 4, 3, 3), (4, 3, 3, 3), (2, 6, 6, 6), 2, 1, 2),
    "softmax": Case("softmax", ((2, 3, 4, 7),), lambda x: x.softmax(-1)),
    "softmax of a vector": Case("softmax", ((5,),), lambda x: x.softmax(-1)),
    "matmul": product((2, 3, 4, 5), (2, 3, 5, 6), (0, 0)),
    "matmul, a turned": product((2, 5, 4), (2, 5, 6), (1, 0)),
    "matmul, b turned": product((2, 3, 4, 5), (2, 3, 6, 5), (0, 1)),
    "matmul, both turned": product((5, 4), (6, 5), (1, 1)),
    "transpose": transposition((2, 3, 4), (2, 3, 4), (2, 0, 1), (4, 2, 3)),
    "transpose, heads split": transposition((6, 8), (2, 3, 4, 2), (0, 2, 1, 3), (2, 4, 3, 2)),
    "transpose, heads merged": transposition((2, 4, 3, 2), (2, 4, 3, 2), (0, 2, 1, 3), (6, 8)),
    "slice of rows": Case(
        "slice", ((5, 3),), lambda x: x[1:4], {"axis": 0, "start": 1, "length": 3}
    ),
    "slice of a middle axis": Case(
        "slice", ((2, 5, 3),), lambda x: x[:, :1], {"axis": 1, "start": 0, "length": 1}
    ),
    "add, stretched over the batch": Case("add_broadcast", ((2, 3, 4), (3, 4)), torch.add),
    "add, one row for all": Case("add_broadcast", ((2, 3, 4), (1, 4)), torch.add),
    "add, a column": Case("add_broadcast", ((2, 3, 4), (2, 1, 1)), torch.add),
    "add, nothing to stretch": Case("add_broadcast", ((2, 3), (2, 3)), torch.add),
    "max pool": max_pool((2, 3, 8, 8), (2, 2), (2, 2)),
    "max pool, overlapping": max_pool((2, 3, 9, 8), (3, 3), (2, 2), (1, 1, 1, 1)),
    "max pool, ties": max_pool((2, 3, 9, 8), (3, 3), (1, 2), steps=1.0),
    "max pool, ties at padding": max_pool((2, 2, 5, 6), (3, 2), (2, 1), (0, 1, 2, 0), steps=2.0),
    "max pool, rows left over": max_pool((1, 2, 7, 7), (2, 2), (3, 3)),
    "avg pool": avg_pool((2, 3, 8, 8), (2, 2), (2, 2)),
    "avg pool, overlapping": avg_pool((2, 3, 7, 8), (3, 2), (1, 1)),
    "avg pool, padding counts": avg_pool((2, 3, 7, 8), (3, 3), (2, 2), (1, 0, 2, 1)),
    "avg pool, padding left out": avg_pool((2, 3, 7, 8), (3, 3), (2, 2), (1, 0, 2, 1), 0),
    "global avg pool": Case(
        "global_avg_pool", ((3, 4, 5, 6),), lambda x: F.adaptive_avg_pool2d(x, 1)
    ),
}


def draw(case: Case) -> list[np.ndarray]:
    generator = np.random.default_rng(7)
    values = [2 * generator.standard_normal(shape) for shape in case.shapes]
    if case.steps is not None:
        values = [case.steps * np.round(value) for value in values]
    if case.positive:
        values = [np.abs(value) + 0.1 for value in values]
    return [value.astype(np.float32) for value in values]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_output_and_gradients_match_torch(case: Case, tape, assert_close) -> None:
    arrays = draw(case)
    names = [tape.leaf(f"in{i}", value) for i, value in enumerate(arrays)]
    leaves = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in arrays]
    expected = case.torch(*leaves)

    tape.forward(case.kind, names, case.attributes)
    assert_close(tape.values["y"], expected.detach().numpy())

    dy = np.random.default_rng(8).standard_normal(expected.shape).astype(np.float32)
    tape.gradients["y"] = tape.leaf("dy", dy)
    tape.backward()
    expected.backward(torch.tensor(dy, dtype=torch.float64))
    for name, leaf in zip(names, leaves, strict=True):
        assert_close(tape.gradient(name), leaf.grad.numpy())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_is_computed_for_inputs_that_are_not_trained(case: Case, tape) -> None:
    names = [tape.leaf(f"in{i}", value, trained=False) for i, value in enumerate(draw(case))]
    tape.forward(case.kind, names, case.attributes)
    tape.gradients["y"] = tape.leaf("dy", tape.values["y"])
    before = len(tape.ops)
    tape.backward()
    assert len(tape.ops) == before


@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (8, 5)], ids=["images", "vectors"])
def test_batch_norm_matches_torch(shape: tuple[int, ...], tape, assert_close) -> None:
    generator = np.random.default_rng(9)
    x = (3 + 2 * generator.standard_normal(shape)).astype(np.float32)
    affine = generator.standard_normal((2, shape[1])).astype(np.float32)
    running = np.abs(generator.standard_normal((2, shape[1]))).astype(np.float32)
    dy = generator.standard_normal(shape).astype(np.float32)
    torch_x, torch_affine = (
        torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (x, affine)
    )
    torch_running = torch.tensor(running, dtype=torch.float64)

    names = [tape.leaf("x", x), tape.leaf("affine", affine)]
    names.append(tape.leaf("running", running, state=True))
    attributes = {"eps": 1e-3, "momentum": 0.25}

    inference = F.batch_norm(torch_x, *torch_running, *torch_affine, eps=1e-3)
    tape.emit("batch_norm", "inference", names, attributes, output="inferred")
    assert_close(tape.values["inferred"], inference.detach().numpy())
    tape.ops.clear()

    expected = F.batch_norm(
        torch_x, *torch_running, *torch_affine, training=True, momentum=0.25, eps=1e-3
    )
    tape.forward("batch_norm", names, attributes)
    assert [op.kind for op in tape.ops] == [
        "batch_norm_statistics",
        "batch_norm_update_running",
        "batch_norm_normalize",
    ]
    assert_close(tape.values["y"], expected.detach().numpy())
    assert_close(tape.values["running"], torch_running.numpy())

    tape.gradients["y"] = tape.leaf("dy", dy)
    tape.backward()
    expected.backward(torch.tensor(dy, dtype=torch.float64))
    assert_close(tape.gradient("x"), torch_x.grad.numpy())
    assert_close(tape.gradient("affine"), torch_affine.grad.numpy())


@pytest.mark.parametrize("shape", [(4, 3, 6), (5, 8)], ids=["sequences", "vectors"])
def test_layer_norm_matches_torch(shape: tuple[int, ...], tape, assert_close) -> None:
    generator = np.random.default_rng(14)
    x = (3 + 2 * generator.standard_normal(shape)).astype(np.float32)
    affine = generator.standard_normal((2, shape[-1])).astype(np.float32)
    dy = generator.standard_normal(shape).astype(np.float32)
    leaves = tuple(
        torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (x, affine)
    )
    expected = F.layer_norm(leaves[0], shape[-1:], *leaves[1], eps=1e-3)
    expected.backward(torch.tensor(dy, dtype=torch.float64))

    attributes = {"eps": 1e-3, "groups": 1, "channels": shape[-1], "inner": 1}
    assert_normalized(tape, assert_close, (x, affine, dy), attributes, expected, leaves)


@pytest.mark.parametrize("groups", [1, 2, 6], ids=["one group", "groups", "instances"])
def test_group_norm_matches_torch(groups: int, tape, assert_close) -> None:
    generator = np.random.default_rng(16)
    shape = (3, 6, 4, 5)
    x = (3 + 2 * generator.standard_normal(shape)).astype(np.float32)
    affine = generator.standard_normal((2, 6)).astype(np.float32)
    dy = generator.standard_normal(shape).astype(np.float32)
    leaves = tuple(
        torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (x, affine)
    )
    expected = F.group_norm(leaves[0], groups, *leaves[1], eps=1e-3)
    expected.backward(torch.tensor(dy, dtype=torch.float64))
    attributes = {"eps": 1e-3, "groups": groups, "channels": 6, "inner": 20}
    assert_normalized(tape, assert_close, (x, affine, dy), attributes, expected, leaves)


def assert_normalized(tape, assert_close, arrays, attributes, expected, leaves) -> None:
    x, affine, dy = arrays
    torch_x, torch_affine = leaves
    names = [tape.leaf("x", x), tape.leaf("affine", affine)]
    tape.emit("layer_norm", "inference", names, attributes, output="inferred")
    assert_close(tape.values["inferred"], expected.detach().numpy())
    tape.ops.clear()

    tape.forward("layer_norm", names, attributes)
    assert [op.kind for op in tape.ops] == ["layer_norm_statistics", "layer_norm_normalize"]
    assert_close(tape.values["y"], expected.detach().numpy())
    tape.gradients["y"] = tape.leaf("dy", dy)
    tape.backward()
    assert_close(tape.gradient("x"), torch_x.grad.numpy())
    assert_close(tape.gradient("affine"), torch_affine.grad.numpy())


@pytest.mark.parametrize("padding", [None, 3])
def test_embedding_matches_torch(tape, assert_close, padding) -> None:
    generator = np.random.default_rng(15)
    table = generator.standard_normal((7, 4)).astype(np.float32)
    ids = np.array([[0, 6, 3], [3, 3, 1]])
    dy = generator.standard_normal((2, 3, 4)).astype(np.float32)
    leaf = torch.tensor(table, dtype=torch.float64, requires_grad=True)
    expected = F.embedding(torch.tensor(ids), leaf, padding_idx=padding)
    expected.backward(torch.tensor(dy, dtype=torch.float64))

    names = [tape.leaf("ids", ids), tape.leaf("table", table)]
    tape.forward("embedding", names, {} if padding is None else {"padding": padding})
    assert_close(tape.values["y"], expected.detach().numpy())
    tape.gradients["y"] = tape.leaf("dy", dy)
    tape.backward()
    assert_close(tape.gradient("table"), leaf.grad.numpy())
    assert "ids" not in tape.gradients


def test_an_id_outside_the_table_gives_zeros_and_no_gradient(tape) -> None:
    names = [tape.leaf("ids", np.array([-1, 1, 2])), tape.leaf("table", np.ones((2, 3)))]
    tape.forward("embedding", names)
    np.testing.assert_array_equal(tape.values["y"], [[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    tape.gradients["y"] = tape.leaf("dy", np.full((3, 3), 2.0))
    tape.backward()
    np.testing.assert_array_equal(tape.gradient("table"), [[0, 0, 0], [2, 2, 2]])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_table_is_updated_without_its_gradient_to_the_same_bits(momentum: float, tape) -> None:
    generator = np.random.default_rng(16)
    table = generator.standard_normal((9, 4))
    settings = {"learning_rate": 0.05, "momentum": momentum, "weight_decay": 0.01}
    tape.leaf("ids", np.array([3, 1, 3, 8, -1, 9, 3]))
    for form in ("fused", "apart"):
        tape.leaf(f"table {form}", table, state=True)
        tape.leaf(f"momentum {form}", np.ones((9, 4)), state=True)
    updates = {
        form: (f"table {form}", f"momentum {form}")[: 2 if momentum else 1]
        for form in ("fused", "apart")
    }
    for step in range(3):
        lookup = ("ids", tape.leaf(f"dy{step}", generator.standard_normal((7, 4))))
        tape.emit(
            "embedding_backward_sgd",
            "fused",
            lookup,
            {**settings, "rows": 9},
            updates=updates["fused"],
        )
        gradient = tape.emit("embedding_backward", "gradient", lookup, {"rows": 9})
        tape.emit("sgd", "apart", (gradient,), settings, updates=updates["apart"])
    for fused, apart in zip(updates["fused"], updates["apart"], strict=True):
        np.testing.assert_array_equal(tape.values[fused], tape.values[apart])
        assert (tape.values[fused] != 1).all()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("kind", ["conv2d", "linear"])
def test_a_weight_is_updated_without_its_gradient(
    kind: str, momentum: float, tape, assert_close
) -> None:
    """The bits of the gradient and `sgd` apart, and ten steps of PyTorch's optimizer."""
    generator = np.random.default_rng(17)
    shapes = {"conv2d": ((2, 4, 6, 5), (6, 2, 3, 3)), "linear": ((3, 7), (5, 7))}
    x_shape, w_shape = shapes[kind]
    convolution = {"stride": (2, 1), "padding": (1, 1, 1, 1), "groups": 2}
    attributes = {"weight_shape": w_shape, **convolution} if kind == "conv2d" else {}
    descent = {"learning_rate": 0.05, "momentum": momentum, "weight_decay": 0.01}
    weight = generator.standard_normal(w_shape).astype(np.float32)
    leaf = torch.tensor(weight, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([leaf], 0.05, momentum, weight_decay=0.01)
    updates = {}
    for form in ("fused", "apart"):
        tape.leaf(f"w {form}", weight, state=True)
        tape.leaf(f"v {form}", np.zeros(w_shape), state=True)
        updates[form] = (f"w {form}", f"v {form}")[: 2 if momentum else 1]
    for step in range(10):
        x = generator.standard_normal(x_shape).astype(np.float32)
        at = torch.tensor(x, dtype=torch.float64)
        y = F.conv2d(at, leaf, None, (2, 1), 1, 1, 2) if kind == "conv2d" else F.linear(at, leaf)
        dy = generator.standard_normal(y.shape).astype(np.float32)
        optimizer.zero_grad()
        y.backward(torch.tensor(dy, dtype=torch.float64))
        optimizer.step()

        read = (tape.leaf(f"x{step}", x), tape.leaf(f"dy{step}", dy))
        fused = f"{kind}_backward_weight_sgd"
        tape.emit(fused, "fused", read, {**attributes, **descent}, updates=updates["fused"])
        dw = tape.emit(f"{kind}_backward_weight", "dw", read, attributes)
        tape.emit("sgd", "apart", (dw,), descent, updates=updates["apart"])
        for one, other in zip(updates["fused"], updates["apart"], strict=True):
            np.testing.assert_array_equal(tape.values[one], tape.values[other])
        assert_close(tape.values["w fused"], leaf.detach().numpy())


def test_softmax_survives_large_inputs(tape) -> None:
    tape.forward("softmax", [tape.leaf("x", np.array([[1e4, 0.0], [-1e4, -1e4]]))])
    np.testing.assert_array_equal(tape.values["y"], [[1, 0], [0.5, 0.5]])


def test_softmax_cross_entropy_matches_torch(tape, assert_close) -> None:
    generator = np.random.default_rng(10)
    logits = (5 * generator.standard_normal((6, 10))).astype(np.float32)
    labels = generator.integers(0, 10, 6)
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    expected = F.cross_entropy(leaf, torch.tensor(labels))
    expected.backward()

    names = [tape.leaf("logits", logits), tape.leaf("labels", labels)]
    tape.leaf("loss", np.full(1, np.nan), state=True)
    tape.emit("softmax_cross_entropy", "loss", names, updates=("loss",))
    tape.backward()
    assert_close(tape.values["loss"], expected.detach().numpy().reshape(1))
    assert_close(tape.gradient("logits"), leaf.grad.numpy())


def test_softmax_cross_entropy_survives_large_logits(tape) -> None:
    names = [tape.leaf("logits", np.array([[1e4, 0.0], [-1e4, 0.0]]))]
    names.append(tape.leaf("labels", np.array([0, 0])))
    tape.leaf("loss", np.zeros(1), state=True)
    tape.emit("softmax_cross_entropy", "loss", names, updates=("loss",))
    tape.backward()
    assert tape.values["loss"] == 5000
    np.testing.assert_array_equal(tape.gradient("logits"), [[0, 0], [-0.5, 0.5]])


def test_a_label_that_is_no_class_has_no_loss_and_no_gradient(tape) -> None:
    names = [tape.leaf("logits", np.ones((3, 2))), tape.leaf("labels", np.array([-1, 2, 0]))]
    tape.leaf("loss", np.zeros(1), state=True)
    tape.emit("softmax_cross_entropy", "loss", names, updates=("loss",))
    tape.backward()
    np.testing.assert_allclose(tape.values["loss"], np.log(2) / 3, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient("logits"), [[0, 0], [0, 0], [-1 / 6, 1 / 6]])


MEANS = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "huber": F.huber_loss,
    "binary_cross_entropy": F.binary_cross_entropy_with_logits,
}


@pytest.mark.parametrize("kind", MEANS)
def test_means_of_errors_match_torch(kind: str, tape, assert_close) -> None:
    generator = np.random.default_rng(11)
    prediction, target = (2 * generator.standard_normal((2, 6, 4))).astype(np.float32)
    leaf = torch.tensor(prediction, dtype=torch.float64, requires_grad=True)
    expected = MEANS[kind](leaf, torch.tensor(target, dtype=torch.float64))
    expected.backward()

    names = [tape.leaf("prediction", prediction), tape.leaf("target", target, trained=False)]
    tape.leaf("loss", np.full(1, np.nan), state=True)
    tape.emit(kind, "loss", names, updates=("loss",))
    tape.backward()
    assert_close(tape.values["loss"], expected.detach().numpy().reshape(1))
    assert_close(tape.gradient("prediction"), leaf.grad.numpy())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_sgd_matches_torch_over_ten_steps(
    momentum: float, weight_decay: float, tape, assert_close
) -> None:
    generator = np.random.default_rng(12)
    parameter = generator.standard_normal((4, 3)).astype(np.float32)
    leaf = torch.tensor(parameter, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([leaf], 0.05, momentum, weight_decay=weight_decay)

    updates = [tape.leaf("w", parameter, state=True)]
    if momentum:
        updates.append(tape.leaf("v", np.zeros((4, 3)), state=True))
    attributes = {"learning_rate": 0.05, "momentum": momentum, "weight_decay": weight_decay}
    for step in range(10):
        gradient = generator.standard_normal((4, 3)).astype(np.float32)
        name = tape.leaf(f"g{step}", gradient)
        tape.emit("sgd", "update", (name,), attributes, updates=updates)
        leaf.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        assert_close(tape.values["w"], leaf.detach().numpy())


def test_correct_count_takes_the_first_maximum_and_skips_padding(tape) -> None:
    logits = np.array([[1, 3, 3], [2, 0, 1], [0, 0, 0], [9, 0, 0], [0, 1, 0]], np.float32)
    labels = np.array([1, 0, 1, -1, 1])
    names = [tape.leaf("logits", logits), tape.leaf("labels", labels)]
    tape.leaf("metric", np.full(1, np.nan), state=True)
    tape.emit("correct_count", "metric", names, updates=("metric",))
    assert tape.values["metric"] == 3


def test_gradients_sum_where_paths_join(tape, assert_close) -> None:
    """A residual block: two paths from conv's output, and a parameter used twice."""
    generator = np.random.default_rng(13)
    arrays = {
        "x": generator.standard_normal((4, 3, 6, 6)),
        "w1": generator.standard_normal((4, 3, 3, 3)) / 3,
        "w2": generator.standard_normal((4, 4, 3, 3)) / 3,
        "affine": 1 + generator.standard_normal((2, 4)) / 4,
        "fc": generator.standard_normal((5, 16)),
        "bias": generator.standard_normal(5),
    }
    arrays = {name: value.astype(np.float32) for name, value in arrays.items()}
    labels = np.array([0, 4, 2, 1])
    leaves = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in arrays.items()
    }
    h1 = F.conv2d(leaves["x"], leaves["w1"], padding=1)
    h2 = F.relu(F.batch_norm(h1, None, None, *leaves["affine"], training=True))
    h3 = F.conv2d(h2, leaves["w2"], padding=1)
    h4 = F.batch_norm(h3, None, None, *leaves["affine"], training=True)
    h5 = F.max_pool2d(F.relu(h4 + h1), 3)
    logits = F.linear(h5.flatten(1), leaves["fc"], leaves["bias"])
    F.cross_entropy(logits, torch.tensor(labels)).backward()

    for name, value in arrays.items():
        tape.leaf(name, value)
    tape.leaf("labels", labels)
    for name, value in (("r1", np.ones((2, 4))), ("r2", np.ones((2, 4))), ("loss", np.ones(1))):
        tape.leaf(name, value, state=True)
    conv = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1}
    norm = {"eps": 1e-5, "momentum": 0.1}
    pool = {"kernel": (3, 3), "stride": (3, 3), "padding": (0, 0, 0, 0)}
    tape.forward("conv2d", ["x", "w1"], conv, output="h1")
    tape.forward("batch_norm", ["h1", "affine", "r1"], norm, output="n1")
    tape.forward("relu", ["n1"], output="h2")
    tape.forward("conv2d", ["h2", "w2"], conv, output="h3")
    tape.forward("batch_norm", ["h3", "affine", "r2"], norm, output="h4")
    tape.forward("add", ["h4", "h1"], output="s")
    tape.forward("relu", ["s"], output="a")
    tape.forward("max_pool2d", ["a"], pool, output="h5")
    tape.forward("reshape", ["h5"], {"shape": (4, 16)}, output="flat")
    tape.forward("linear", ["flat", "fc", "bias"], output="logits")
    tape.emit("softmax_cross_entropy", "loss", ("logits", "labels"), updates=("loss",))
    tape.backward()
    for name, leaf in leaves.items():
        assert_close(tape.gradient(name), leaf.grad.numpy())
