# SPDX-License-Identifier: Apache-2.0
"""What operators refuse, what they declare, and what their work and bindings say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from poetfw.common.errors import ModelError
from poetfw.ir import Attribute, Dtype, Graph, Op, Role, Tensor
from poetfw.ops import (
    KINDS,
    Constants,
    Kernel,
    PiecedOp,
    Shape,
    Tape,
    check_shapes,
    fused_name,
    infer_output,
    kind_of,
)
from poetfw.ops.base import TileTable
from poetfw.ops.continued import ContinuedKind
from poetfw.ops.streamed import FAMILIES, loaded_name, streamed_backward_name
from poetfw.optimizers import OPTIMIZERS

CONV: Mapping[str, Attribute] = {"stride": (1, 1), "padding": (0, 0, 0, 0), "groups": 1}
POOL: Mapping[str, Attribute] = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0)}
AVG: Mapping[str, Attribute] = {**POOL, "count_include_pad": 1}
ROWS: Mapping[str, Attribute] = {"eps": 1e-5, "groups": 1, "inner": 1}
SGD: Mapping[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0}


def tensors(*shapes: Shape, integer: tuple[int, ...] = ()) -> list[Tensor]:
    return [
        Tensor(f"in{i}", shape, Dtype.I32 if i in integer else Dtype.F32)
        for i, shape in enumerate(shapes)
    ]


def op_on(
    kind: str,
    inputs: list[Tensor],
    attributes: Mapping[str, Attribute] | None = None,
    updates: tuple[str, ...] = (),
) -> Op:
    names = tuple(tensor.name for tensor in inputs)
    return Op("the op", kind, names, None if updates else "out", attributes or {}, updates)


REFUSED: dict[str, tuple[list[Tensor], Mapping[str, Attribute], str]] = {
    "conv2d: one input": (tensors((1, 1, 4, 4)), CONV, "has 1 inputs, not 2 or 3"),
    "conv2d: vector input": (tensors((4, 4), (1, 1, 1, 1)), CONV, "to have 4 axes"),
    "conv2d: vector weight": (tensors((1, 1, 4, 4), (1, 1)), CONV, "to have 4 axes"),
    "conv2d: integers": (
        tensors((1, 1, 4, 4), (1, 1, 1, 1), integer=(0,)),
        CONV,
        "needs 'in0' to be f32, not i32",
    ),
    "conv2d: channels": (
        tensors((1, 3, 4, 4), (2, 4, 1, 1)),
        CONV,
        "has input [1, 3, 4, 4], weight [2, 4, 1, 1] and 1 groups",
    ),
    "conv2d: groups": (
        tensors((1, 4, 4, 4), (3, 2, 1, 1)),
        {**CONV, "groups": 2},
        "must be divisible by the groups",
    ),
    "conv2d: no groups": (
        tensors((1, 4, 4, 4), (3, 2, 1, 1)),
        {**CONV, "groups": 0},
        "attribute 'groups' to be an int at least 1, not 0",
    ),
    "conv2d: kernel too large": (
        tensors((1, 1, 4, 4), (1, 1, 3, 6)),
        {**CONV, "padding": (0, 1, 0, 0)},
        "3 x 6 kernel, larger than its padded input of 4 x 5",
    ),
    "conv2d: bias": (
        tensors((1, 1, 4, 4), (2, 1, 3, 3), (3,)),
        CONV,
        "needs 'in2' to have shape [2], not [3]",
    ),
    "conv2d: two paddings": (
        tensors((1, 1, 4, 4), (2, 1, 3, 3)),
        {**CONV, "padding": (1, 1)},
        "'padding' to be 4 ints of at least 0, not (1, 1)",
    ),
    "conv2d: no stride": (
        tensors((1, 1, 4, 4), (2, 1, 3, 3)),
        {"padding": (0, 0, 0, 0), "groups": 1},
        "'stride' to be 2 ints of at least 1, not None",
    ),
    "conv2d_backward_input: gradient": (
        tensors((2, 1, 3, 3), (1, 2, 3, 3)),
        {**CONV, "input_shape": (1, 1, 4, 4)},
        "needs 'in1' to have shape [1, 2, 2, 2], not [1, 2, 3, 3]",
    ),
    "conv2d_backward_weight: gradient": (
        tensors((1, 1, 4, 4), (1, 2, 3, 3)),
        {**CONV, "weight_shape": (2, 1, 3, 3)},
        "needs 'in1' to have shape [1, 2, 2, 2], not [1, 2, 3, 3]",
    ),
    "conv2d_backward_weight_sgd: gradient": (
        tensors((1, 1, 4, 4), (1, 2, 3, 3)),
        {**CONV, **SGD, "weight_shape": (2, 1, 3, 3)},
        "needs 'in1' to have shape [1, 2, 2, 2], not [1, 2, 3, 3]",
    ),
    "conv2d_backward_weight_sgd: no momentum tensor": (
        tensors((1, 1, 4, 4), (1, 2, 2, 2)),
        {**CONV, **SGD, "weight_shape": (2, 1, 3, 3), "momentum": 0.9},
        "updates 0 tensors, not 2",
    ),
    "linear_backward_weight_sgd: gradient": (tensors((2, 3), (3, 4)), SGD, "[2, 4]"),
    "linear_backward_weight_sgd: learning rate": (
        tensors((2, 3), (2, 4)),
        {"momentum": 0.0, "weight_decay": 0.0},
        "'learning_rate' to be a finite number",
    ),
    "conv2d_backward_bias: rank": (tensors((2, 2)), {}, "to have 4 axes"),
    "linear: image": (tensors((2, 3, 1, 1), (4, 3)), {}, "to have 2 axes"),
    "linear: features": (tensors((2, 3), (4, 5)), {}, "shape [4, 3], not [4, 5]"),
    "linear: bias": (tensors((2, 3), (4, 3), (3,)), {}, "shape [4], not [3]"),
    "linear_backward_input": (tensors((4, 3), (2, 3)), {}, "[2, 4]"),
    "linear_backward_weight": (tensors((2, 3), (3, 4)), {}, "[2, 4]"),
    "linear_backward_bias": (tensors((4,)), {}, "to have 2 axes"),
    "batch_norm: rank": (
        tensors((2, 3, 4), (2, 3), (2, 3)),
        {"eps": 1e-5, "momentum": 0.1},
        "to have 2 or 4 axes",
    ),
    "batch_norm: channels": (
        tensors((2, 3), (2, 4), (2, 3)),
        {"eps": 1e-5, "momentum": 0.1},
        "needs 'in1' to have shape [2, 3], not [2, 4]",
    ),
    "batch_norm: momentum": (
        tensors((2, 3), (2, 3), (2, 3)),
        {"eps": 1e-5, "momentum": 1.5},
        "'momentum' to be a finite number in [0, 1], not 1.5",
    ),
    "batch_norm: eps": (
        tensors((2, 3), (2, 3), (2, 3)),
        {"eps": float("nan"), "momentum": 0.1},
        "'eps' to be a finite number",
    ),
    "batch_norm_update_running: one value": (
        tensors((2, 3)),
        {"count": 1, "momentum": 0.1},
        "has one value per channel, which has no variance",
    ),
    "batch_norm_backward_input: gradient": (
        tensors((4, 3), (2, 3), (2, 3), (2, 3), (3, 3)),
        {"eps": 1e-5},
        "needs 'in4' to have shape [4, 3], not [3, 3]",
    ),
    "relu: two inputs": (tensors((2, 3), (2, 3)), {}, "has 2 inputs, not 1"),
    "relu: integers": (tensors((2,), integer=(0,)), {}, "to be f32, not i32"),
    "relu_backward: shapes": (tensors((2, 3), (3, 2)), {}, "[2, 3], not [3, 2]"),
    "add: shapes": (tensors((2, 3), (2, 1)), {}, "shape [2, 3], not [2, 1]"),
    "reshape: elements": (tensors((2, 3)), {"shape": (7,)}, "another number of elements"),
    "reshape: no shape": (tensors((2, 3)), {}, "'shape' to be ints of at least 1"),
    "max_pool2d: rank": (tensors((2, 3)), POOL, "to have 4 axes"),
    "max_pool2d: padding": (
        tensors((1, 1, 4, 4)),
        {**POOL, "padding": (0, 0, 2, 0)},
        "the padding must be smaller than the kernel",
    ),
    "max_pool2d: kernel": (
        tensors((1, 1, 1, 4)),
        POOL,
        "2 x 2 kernel, larger than its padded input of 1 x 4",
    ),
    "max_pool2d: stride": (
        tensors((1, 1, 4, 4)),
        {**POOL, "stride": (0, 1)},
        "'stride' to be 2 ints of at least 1",
    ),
    "max_pool2d: fraction": (
        tensors((1, 1, 4, 4)),
        {**POOL, "kernel": (2, 1.5)},
        "'kernel' to be 2 ints of at least 1, not (2, 1.5)",
    ),
    "max_pool2d_backward": (
        tensors((1, 1, 4, 4), (1, 1, 3, 3)),
        POOL,
        "needs 'in1' to have shape [1, 1, 2, 2], not [1, 1, 3, 3]",
    ),
    "avg_pool2d: count_include_pad": (
        tensors((1, 1, 4, 4)),
        {**POOL, "count_include_pad": 2},
        "'count_include_pad' to be an int in [0, 1], not 2",
    ),
    "avg_pool2d_backward": (
        tensors((1, 1, 3, 3)),
        {**AVG, "input_shape": (1, 1, 4, 4)},
        "[1, 1, 2, 2]",
    ),
    "global_avg_pool: rank": (tensors((2, 3)), {}, "to have 4 axes"),
    "global_avg_pool_backward": (
        tensors((2, 3, 2, 1)),
        {"input_shape": (2, 3, 4, 4)},
        "[2, 3, 1, 1]",
    ),
    "softmax_cross_entropy: float labels": (
        tensors((2, 3), (2,)),
        {},
        "needs 'in1' to be i32, not f32",
    ),
    "softmax_cross_entropy: label count": (
        tensors((2, 3), (3,), integer=(1,)),
        {},
        "needs 'in1' to have shape [2], not [3]",
    ),
    "softmax_cross_entropy_backward: image": (
        tensors((2, 3, 1, 1), (2,), integer=(1,)),
        {},
        "to have 2 axes",
    ),
    "correct_count: integer logits": (
        tensors((2, 3), (2,), integer=(0, 1)),
        {},
        "needs 'in0' to be f32, not i32",
    ),
    "mse: shapes": (tensors((2, 3), (2, 1)), {}, "shape [2, 3], not [2, 1]"),
    "sgd: learning rate": (
        tensors((2,)),
        {**SGD, "learning_rate": float("inf")},
        "'learning_rate' to be a finite number",
    ),
    "sgd: no momentum tensor": (
        tensors((2,)),
        {**SGD, "momentum": 0.9},
        "updates 0 tensors, not 2",
    ),
    "embedding: float ids": (tensors((2,), (3, 4)), {}, "'in0' to be i32, not f32"),
    "embedding: rank": (tensors((2,), (3,), integer=(0,)), {}, "to have 2 axes"),
    "embedding_backward: gradient": (
        tensors((2, 3), (3, 2, 4), integer=(0,)),
        {"rows": 5},
        "needs 'in1' to have shape [2, 3, 4], not [3, 2, 4]",
    ),
    "embedding_backward_sgd: no momentum tensor": (
        tensors((2, 3), (2, 3, 4), integer=(0,)),
        {**SGD, "rows": 5, "momentum": 0.9},
        "updates 0 tensors, not 2",
    ),
    "embedding_backward_sgd: gradient": (
        tensors((2, 3), (2, 4), integer=(0,)),
        {**SGD, "rows": 5},
        "needs 'in1' to have shape [2, 3, 4], not [2, 4]",
    ),
    "layer_norm: affine": (
        tensors((2, 3), (2, 4)),
        {**ROWS, "channels": 3},
        "needs 'in1' to have shape [2, 3], not [2, 4]",
    ),
    "layer_norm_normalize: statistics": (
        tensors((2, 3, 4), (2, 3), (2, 4)),
        {**ROWS, "channels": 4},
        "needs 'in1' to have shape [2, 6], not [2, 3]",
    ),
    "layer_norm_backward_input: eps": (
        tensors((2, 3), (2, 2), (2, 3), (2, 3)),
        {**ROWS, "channels": 3, "eps": -1.0},
        "'eps' to be a finite number",
    ),
    "layer_norm: groups": (
        tensors((2, 6), (2, 3)),
        {**ROWS, "channels": 3, "inner": 2, "groups": 2},
        "as 3 channels of 2 elements, in 2 groups",
    ),
    "layer_norm: channels": (
        tensors((2, 6), (2, 3)),
        {**ROWS, "channels": 5},
        "as 5 channels of 1 elements, in 1 groups",
    ),
    "take_strided: steps": (
        tensors((2, 3)),
        {"shape": (2, 3), "steps": (1,), "offset": 0},
        "needs a step for each axis, not (1,)",
    ),
    "take_strided: beyond the end": (
        tensors((2, 3)),
        {"shape": (2, 3), "steps": (3, 1), "offset": 1},
        "goes from 1 to 6 in a tensor of 6 elements",
    ),
    "take_strided: before the start": (
        tensors((2, 3)),
        {"shape": (2, 3), "steps": (3, -1), "offset": 1},
        "goes from -1 to 4 in a tensor of 6 elements",
    ),
    "put_strided: beyond the end": (
        tensors((2, 3)),
        {"shape": (5,), "steps": (3, 1), "offset": 0},
        "goes from 0 to 5 in a tensor of 5 elements",
    ),
    "concat: another axis": (
        tensors((2, 3), (3, 3)),
        {"axis": 1},
        "cannot put [3, 3] behind [2, 3] on axis 1",
    ),
    "concat: rank": (tensors((2, 3), (2,)), {"axis": 0}, "cannot put [2] behind"),
    "leaky_relu: slope": (
        tensors((2,)),
        {"slope": -0.1},
        "'slope' to be a finite number in [0, 1000000.0], not -0.1",
    ),
    "matmul: a vector": (
        tensors((3,), (3,)),
        {"transpose_a": 0, "transpose_b": 0},
        "the same leading axes, not shapes [3] and [3]",
    ),
    "matmul: batch": (
        tensors((2, 3, 4), (3, 4, 5)),
        {"transpose_a": 0, "transpose_b": 0},
        "the same leading axes, not shapes [2, 3, 4] and [3, 4, 5]",
    ),
    "matmul: inner": (
        tensors((2, 3, 4), (2, 4, 5)),
        {"transpose_a": 0, "transpose_b": 1},
        "cannot multiply matrices of 3 x 4 with matrices of 5 x 4",
    ),
    "matmul: not turned": (tensors((3, 3), (3, 3)), {}, "'transpose_a' to be an int in"),
    "transpose: axes": (
        tensors((2, 3)),
        {"view": (2, 3), "axes": (1, 1), "shape": (3, 2)},
        "to name each of its 2 axes once, not (1, 1)",
    ),
    "transpose: view": (
        tensors((2, 3)),
        {"view": (2, 4), "axes": (1, 0), "shape": (3, 2)},
        "as its view [2, 4]: that has another number of elements",
    ),
    "transpose: shape": (
        tensors((2, 3)),
        {"view": (2, 3), "axes": (1, 0), "shape": (4, 2)},
        "as its shape [4, 2]: that has another number of elements",
    ),
    "slice: axis": (
        tensors((2, 3)),
        {"axis": 2, "start": 0, "length": 1},
        "'axis' to be an int in [0, 1], not 2",
    ),
    "slice: length": (
        tensors((2, 3)),
        {"axis": 1, "start": 1, "length": 3},
        "'length' to be an int in [1, 2], not 3",
    ),
    "slice_backward: extent": (
        tensors((2, 3)),
        {"axis": 1, "start": 1, "extent": 3},
        "'extent' to be an int at least 4, not 3",
    ),
    "add_broadcast: larger": (
        tensors((3, 4), (2, 3, 4)),
        {},
        "cannot stretch shape [2, 3, 4] to [3, 4]",
    ),
    "add_broadcast: extent": (tensors((3, 4), (3, 2)), {}, "cannot stretch shape [3, 2] to [3, 4]"),
    "sum_to: extent": (tensors((3, 4)), {"shape": (2,)}, "cannot stretch shape [2] to"),
    "scale: factor": (tensors((3,)), {"factor": float("nan")}, "'factor' to be a finite number"),
    "softmax_backward: shapes": (tensors((2, 3), (3, 2)), {}, "[2, 3], not"),
    "gelu: integers": (tensors((2,), integer=(0,)), {}, "to be f32, not i32"),
    "sgd: three inputs": (tensors((2,), (1,), (1,)), SGD, "has 3 inputs, not 1 or 2"),
    "sgd: factor": (tensors((2,), (2,)), SGD, "needs 'in1' to have shape [1], not [2]"),
    "sgd: nesterov": (tensors((2,)), {**SGD, "nesterov": 2}, "'nesterov'"),
    "square_sum: before": (tensors((2,), (2,)), {}, "to have shape [1], not [2]"),
    "clip_factor: sum": (tensors((2,)), {"max_norm": 1.0}, "to have shape [1]"),
    "clip_factor: max_norm": (tensors((1,)), {}, "'max_norm' to be a finite number"),
    "multiply: shapes": (tensors((2,), (3,)), {}, "cannot stretch shape [3] to [2]"),
    "tanh: two inputs": (tensors((2,), (2,)), {}, "has 2 inputs, not 1"),
    "load_x: an input": (tensors((2,)), {"shape": (2,)}, "has 1 inputs, not 0"),
    "load_y: integer": ([], {"shape": (2,)}, "'integer' to be an int in [0, 1]"),
    "transmogrify: unknown": ([], {}, "is a 'transmogrify', which is not an operator of poetfw"),
}
"""Refused ops: operator and flaw; inputs, attributes, and a part of the message."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_by_name(name: str) -> None:
    inputs, attributes, message = REFUSED[name]
    op = op_on(name.partition(":")[0], inputs, attributes)
    with pytest.raises(ModelError, match="op 'the op'.*" + re.escape(message)):
        infer_output(op, inputs, Role.ACTIVATION)


def test_check_shapes_finds_an_output_of_another_shape() -> None:
    (x,) = tensors((2, 3))
    op = op_on("relu", [x])
    check_shapes(Graph("fits", (x, Tensor("out", (2, 3))), (op,), "out"))
    with pytest.raises(ModelError, match=r"op 'the op' has output .*\(3, 2\)"):
        check_shapes(Graph("does not", (x, Tensor("out", (3, 2))), (op,), "out"))


def test_ops_that_update_persistent_tensors_are_never_computed_again() -> None:
    gradients = {name for name, kind in KINDS.items() if kind.streams}
    assert gradients == {"conv2d_backward_weight", "embedding_backward", "linear_backward_weight"}
    in_pieces = {name for name, kind in KINDS.items() if isinstance(kind, PiecedOp)}
    for name in in_pieces:  # as the ops that they wrap
        assert KINDS[name].recomputable == KINDS[name.removeprefix("pieced_")].recomputable
    continued = {name for name, kind in KINDS.items() if isinstance(kind, ContinuedKind)}
    assert {n for n, k in KINDS.items() if not k.recomputable} - in_pieces - continued == {
        "batch_norm_update_running",
        "joined_update",
        "store",
        "loaded_batch_norm_update_running",
        "correct_count",
        "count_step",
        "mse",
        "l1",
        "huber",
        "binary_cross_entropy",
        "pace",
        "softmax_cross_entropy",
        "weighted_cross_entropy",
        "nll",
        "objective",
        "objective_metric",
        *OPTIMIZERS,
        *(fused_name(gradient, update) for gradient in gradients for update in OPTIMIZERS),
        *(streamed_backward_name(family, each) for family in FAMILIES for each in OPTIMIZERS),
        *(loaded_name(update) for update in OPTIMIZERS),
        *(
            loaded_name(fused_name(f"{family}_backward_weight", update))
            for family in FAMILIES
            for update in OPTIMIZERS
        ),
    }


@pytest.mark.parametrize("kind", ["batch_norm_backward_frozen", "sgd", "relu_backward"])
def test_an_operator_without_gradient_says_so(kind: str, tape: Tape) -> None:
    with pytest.raises(ModelError, match=f"op 'the op': operator '{kind}' has no gradient"):
        KINDS[kind].gradient(op_on(kind, tensors((2, 2))), tape, "dy")


@pytest.mark.parametrize(
    ("attributes", "kind", "dtype"),
    [
        ({"shape": (2, 3)}, "load_x", Dtype.F32),
        ({"shape": (2, 3), "integer": 1}, "load_x", Dtype.I32),
        ({"shape": (2,), "integer": 1}, "load_y", Dtype.I32),
        ({"shape": (2, 3), "integer": 0}, "load_y", Dtype.F32),
    ],
)
def test_loads_read_storage_and_can_fail(
    attributes: Mapping[str, Attribute], kind: str, dtype: Dtype
) -> None:
    op = op_on(kind, [], attributes)
    batch = infer_output(op, [], Role.INPUT)
    assert batch == Tensor("out", batch.shape, dtype, Role.INPUT)
    assert batch.shape == attributes["shape"]
    assert kind_of(op).work(op, [], batch).storage_bytes == batch.size_bytes
    graph = Graph("load", (batch,), (op,), "out")
    assert kind_of(op).kernel(op, graph) == Kernel(
        source="", function=f"poet_data_{kind}", arguments=("out",), fallible=True
    )
    with pytest.raises(AssertionError, match="loads are answered by the executor"):
        kind_of(op).compute(op, [], [])


def test_an_operator_with_a_kernel_has_the_workspace_of_its_kernel() -> None:
    inputs = tensors((1, 4), (2, 4))
    op = op_on("linear", inputs)
    graph = Graph("one", (*inputs, Tensor("out", (1, 2))), (op,), "out")
    kernel = kind_of(op).kernel(op, graph)
    assert kind_of(op).workspace_bytes(op, graph) == kernel.workspace_bytes


@pytest.mark.parametrize(("attributes", "row"), [({}, -1), ({"padding": 2}, 2)])
def test_an_embedding_without_a_padding_row_says_minus_one(
    attributes: dict[str, Attribute], row: int
) -> None:
    """As embedding.h has it."""
    inputs = tensors((2,), (3, 4), integer=(0,))
    op = op_on("embedding", inputs, attributes)
    graph = Graph("one", (*inputs, Tensor("out", (2, 4))), (op,), "out")
    assert ("padding", row) in kind_of(op).kernel(op, graph).fields


def test_work_of_a_batched_product_counts_each_matrix() -> None:
    for turned, shapes in ((0, ((2, 3, 4, 5), (2, 3, 5, 6))), (1, ((2, 3, 4, 5), (2, 3, 6, 5)))):
        inputs = tensors(*shapes)
        op = op_on("matmul", inputs, {"transpose_a": 0, "transpose_b": turned})
        work = kind_of(op).work(op, inputs, infer_output(op, inputs, Role.ACTIVATION))
        assert work.macs == 2 * 3 * 4 * 5 * 6
        assert work.bytes_moved == 4 * 2 * 3 * (4 * 5 + 5 * 6 + 4 * 6)


def test_work_of_a_step_counter_is_a_number_read_and_written() -> None:
    op = op_on("count_step", [], updates=("step",))
    work = kind_of(op).work(op, [], None)
    assert (work.macs, work.bytes_moved) == (1, 2 * 4)


def test_work_counts_products_with_padding_and_each_operand_once() -> None:
    x, w, b = tensors((2, 4, 8, 8), (6, 2, 3, 3), (6,))
    op = op_on("conv2d", [x, w, b], {**CONV, "padding": (1, 1, 1, 1), "groups": 2})
    y = infer_output(op, [x, w, b], Role.ACTIVATION)
    work = kind_of(op).work(op, [x, w, b], y)
    assert work.macs == 2 * 6 * 8 * 8 * 2 * 3 * 3
    assert work.bytes_moved == 4 * (2 * 4 * 64 + 6 * 2 * 9 + 6 + 2 * 6 * 64)


def test_work_of_a_linear_layer_is_that_of_its_product() -> None:
    x, w, b = tensors((5, 7), (3, 7), (3,))
    for inputs in ([x, w], [x, w, b]):
        op = op_on("linear", inputs)
        work = kind_of(op).work(op, inputs, infer_output(op, inputs, Role.ACTIVATION))
        assert work.macs == 5 * 7 * 3
        assert work.bytes_moved == 4 * (5 * 7 + 3 * 7 + 5 * 3 + 3 * (len(inputs) - 2))


@pytest.mark.parametrize("kind", ["conv2d", "linear"])
def test_an_absent_bias_is_a_null_pointer_or_another_function(kind: str) -> None:
    shapes = ((1, 1, 4, 4), (2, 1, 3, 3)) if kind == "conv2d" else ((1, 4), (2, 4))
    inputs = tensors(*shapes)
    op = op_on(kind, inputs, CONV if kind == "conv2d" else {})
    output = infer_output(op, inputs, Role.ACTIVATION)
    assert output is not None
    kernel = kind_of(op).kernel(op, Graph("one", (*inputs, output), (op,), "out"))
    if kind == "linear":
        assert (kernel.function, kernel.arguments) == ("poet_matmul_f32", ("in0", "in1", "out"))
    else:
        assert kernel.arguments == ("in0", "in1", None, "out")


def test_sgd_without_momentum_gets_a_null_pointer() -> None:
    gradient, parameter = Tensor("in0", (3,)), Tensor("w", (3,), role=Role.PARAMETER)
    op = op_on("sgd", [gradient], SGD, updates=("w",))
    kernel = kind_of(op).kernel(op, Graph("one", (gradient, parameter), (op,), "w"))
    elements, gradient, factor, constants, *target = kernel.arguments
    assert (elements, gradient, factor) == (3, "in0", None)
    assert isinstance(constants, Constants)
    assert target == [None, "w", None, None, None]  # no pace, no state
    assert dict(constants.fields) == {
        "update.step": "poet_sgd_step_f32",
        "update.learning_rate": 0.1,
        "update.weight_decay": 0.0,
        "update.clip_value": 0.0,
        "update.share": 1.0,
        "momentum": 0.0,
        "nesterov": 0,
    }


FUSED: dict[str, tuple[list[Tensor], Shape, Mapping[str, Attribute]]] = {
    "conv2d_backward_weight": (
        tensors((2, 4, 8, 8), (2, 6, 6, 6)),
        (6, 2, 3, 3),
        {**CONV, "groups": 2, "weight_shape": (6, 2, 3, 3)},
    ),
    "linear_backward_weight": (tensors((2, 7), (2, 5)), (5, 7), {}),
}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("kind", FUSED)
def test_applying_a_gradient_unstored_saves_moving_it_twice(kind: str, momentum: float) -> None:
    inputs, shape, attributes = FUSED[kind]
    descent = {**SGD, "momentum": momentum}
    updates = ("w", "v")[: 2 if momentum else 1]
    gradient = Tensor("out", shape)
    alone = KINDS[kind].work(op_on(kind, inputs, attributes), inputs, gradient)
    update = KINDS["sgd"].work(op_on("sgd", [gradient], descent, updates), [gradient], None)
    fused = fused_name(kind, "sgd")
    both = KINDS[fused].work(op_on(fused, inputs, {**attributes, **descent}, updates), inputs, None)
    assert both.macs == alone.macs + update.macs
    assert both.bytes_moved == alone.bytes_moved + update.bytes_moved - 2 * gradient.size_bytes


@pytest.mark.parametrize("kind", FUSED)
def test_a_fused_update_is_bound_to_the_weight_and_its_momentum(kind: str) -> None:
    inputs, shape, attributes = FUSED[kind]
    states = [Tensor("w", shape, role=Role.PARAMETER), Tensor("v", shape, role=Role.STATE)]
    for momentum, updates in ((0.9, ("w", "v")), (0.0, ("w",))):
        op = op_on(f"{kind}_sgd", inputs, {**attributes, **SGD, "momentum": momentum}, updates)
        kernel = kind_of(op).kernel(op, Graph("one", (*inputs, *states), (op,), "w"))
        x, dy, constants, *target = kernel.arguments
        assert {x, dy} == {"in0", "in1"}
        assert (*target,) == (None, "w", "v" if momentum else None, None, None)
        assert isinstance(constants, Constants)
        assert dict(constants.fields)["momentum"] == momentum
        graph = Graph("one", (*inputs, *states), (op,), "w")
        plain = KINDS[kind].kernel(replace(op, kind=kind, output="w", updates=()), graph)
        assert (kernel.struct, x, dy) == (plain.struct, *plain.arguments[:2])
        *extents, (name, tiles) = kernel.fields
        *plain_extents, (plain_name, plain_tiles) = plain.fields
        assert (extents, name) == (plain_extents, plain_name)
        assert isinstance(tiles, TileTable)
        assert isinstance(plain_tiles, TileTable)
        assert tiles.of == replace(plain_tiles.of, applied=True)


def test_reference_rounds_float_attributes_as_the_kernel_does() -> None:
    """In float32, 1 - momentum is taken from the rounded momentum, as in C."""
    momentum = 0.1
    op = op_on("batch_norm_update_running", tensors((2, 1)), {"momentum": momentum, "count": 2})
    running = np.ones((2, 1), np.float32)
    kind_of(op).compute(op, [np.zeros((2, 1), np.float32)], [running])
    assert running[0, 0] == np.float32(1) - np.float32(momentum)
