# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.ir import Role
from poetfw.models import Model
from poetfw.ops import kind_of
from poetfw.training import Reference, Sgd, TrainedNames, make_program

Array = NDArray[np.float32]
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def write(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, NDArray[np.generic]],
    *,
    x: Sequence[int | str | None] = (2, 3, 8, 8),
    y: Sequence[int | str | None] = ("n", "m"),
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
) -> Path:
    """A model from input x to output y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", dtype, x)],
        [helper.make_tensor_value_info("y", dtype, y)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def infer(model: Model, x: Array) -> Array:
    values = {**model.weights, model.input.name: x}
    for op in model.graph.ops:
        assert op.output is not None
        result = kind_of(op).compute(op, [values[name] for name in op.inputs], [])
        assert result is not None
        values[op.output] = result.astype(np.float32)
    return values[model.graph.output]


def assert_same_inference(path: Path, model: Model) -> None:
    x = floats(*model.input.shape)
    proto = onnx.load(path)
    for each in proto.graph.node:
        if each.op_type == "BatchNormalization":
            each.attribute.remove(next(a for a in each.attribute if a.name == "training_mode"))
    (expected,) = ReferenceEvaluator(proto).run(None, {model.input.name: x})
    np.testing.assert_allclose(infer(model, x), expected, rtol=1e-5, atol=1e-5)


def node(kind: str, inputs: str, output: str = "y", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(
        kind, inputs.split(",") if inputs else [], [output], name=f"the {kind}", **attributes
    )


W = {"w": floats(4, 3, 3, 3)}
HALF = {"w": floats(6, 1, 3, 3), "b": floats(6)}
ROW = {"g": floats(3, 1, 1), "h": floats(8)}
PAIR = {"s": floats(3), "b": floats(3)}
TRANSPOSED = {"w": floats(3, 2, 3, 3), "b": floats(2)}


@pytest.mark.parametrize(
    ("nodes", "constants", "kinds"),
    [
        ([node("Conv", "x,w", pads=[1, 0, 2, 1], strides=[2, 1])], W, ["conv2d"]),
        ([node("Conv", "x,w,b", group=3)], HALF, ["conv2d"]),
        ([node("Conv", "x,w", auto_pad="SAME_UPPER", strides=[2, 2])], W, ["conv2d"]),
        ([node("Conv", "x,w", auto_pad="SAME_LOWER", strides=[2, 2])], W, ["conv2d"]),
        ([node("Conv", "x,w", auto_pad="VALID", strides=[3, 2])], W, ["conv2d"]),
        ([node("Relu", "x")], {}, ["relu"]),
        ([node("Clip", "x,l,h")], {"l": np.float32([0]), "h": np.float32(6)}, ["relu6"]),
        ([node("Clip", "x,l")], {"l": np.float32(0)}, ["relu"]),
        (
            [node("Constant", "", "l", value_float=0.0), node("Clip", "x,l")],
            {},
            ["relu"],
        ),
        ([node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2])], {}, ["max_pool2d"]),
        (
            [node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)],
            {},
            ["max_pool2d"],
        ),
        (
            [node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
            {},
            ["avg_pool2d"],
        ),
        (
            [node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)],
            {},
            ["avg_pool2d"],
        ),
        ([node("GlobalAveragePool", "x")], {}, ["global_avg_pool"]),
        ([node("GlobalMaxPool", "x")], {}, ["reshape", "max_pool2d", "reshape"]),
        ([node("ReduceMean", "x", axes=[3, -2])], {}, ["global_avg_pool"]),
        ([node("ReduceMean", "x", axes=[2, 3], keepdims=0)], {}, ["global_avg_pool", "reshape"]),
        ([node("Relu", "x", "r"), node("Add", "r,x")], {}, ["relu", "add"]),
        ([node("Slice", "x,s,e")], {"s": np.int64([0, 1]), "e": np.int64([9, 9])}, ["slice"]),
        (
            [node("Slice", "x,s,e,a,t")],
            {
                "s": np.int64([-5, 1]),
                "e": np.int64([-2, 3]),
                "a": np.int64([-1, 2]),
                "t": np.int64([1, 1]),
            },
            ["slice", "slice"],
        ),
        (
            [
                helper.make_node("Split", ["x", "l"], ["a", "b"], axis=-1),
                helper.make_node("Conv", ["b", "w"], ["y"]),
            ],
            {"l": np.int64([5, 3]), **W},
            ["slice", "slice", "conv2d"],
        ),
        (
            [
                helper.make_node("Split", ["x"], ["a", "b"], axis=2),
                node("Add", "a,b"),
            ],
            {},
            ["slice", "slice", "add"],
        ),
        ([node("Flatten", "x")], {}, ["reshape"]),
        ([node("Flatten", "x", axis=-3)], {}, ["reshape"]),
        ([node("Reshape", "x,s")], {"s": np.int64([0, -1])}, ["reshape"]),
        ([node("Reshape", "x,s")], {"s": np.int64([-1, 192])}, ["reshape"]),
        ([node("Reshape", "x,s")], {"s": np.int64([2, 0, -1])}, ["reshape"]),
        ([node("Reshape", "x,s", allowzero=1)], {"s": np.int64([2, 192])}, ["reshape"]),
        (
            [
                node("Shape", "x", "s", end=1),
                node("Concat", "s,r", "t", axis=0),
                node("Reshape", "x,t"),
            ],
            {"r": np.int64([-1])},
            ["reshape"],
        ),
        ([node("Identity", "x", "i"), node("Relu", "i")], {}, ["relu"]),
        ([node("Relu", "x", "r"), node("Dropout", "r,p")], {"p": np.float32(0)}, ["relu"]),
        ([node("Relu", "x"), node("Round", "x", "unused")], {}, ["relu"]),
        ([node("Conv", "x,w", dilations=[2, 1])], W, ["put_strided", "conv2d"]),
        (
            [node("Conv", "x,w", dilations=[2, 2], auto_pad="SAME_UPPER")],
            W,
            ["put_strided", "conv2d"],
        ),
        ([node("ConvTranspose", "x,w")], TRANSPOSED, ["conv2d_backward_input"]),
        (
            [
                node(
                    *("ConvTranspose", "x,w,b"),
                    **{"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
                )
            ],
            TRANSPOSED,
            ["conv2d_backward_input", "reshape", "add_broadcast"],
        ),
        (
            [node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
            {},
            ["max_pool2d"],
        ),
        (
            [node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)],
            {},
            ["avg_pool2d"],
        ),
        ([node("ReduceMean", "x", axes=[1])], {}, ["sum_to", "scale"]),
        ([node("ReduceMean", "x", axes=[1, -1], keepdims=0)], {}, ["sum_to", "scale", "reshape"]),
        ([node("ReduceSum", "x,a")], {"a": np.int64([3])}, ["sum_to"]),
        (
            [node("Slice", "x,s,e,a,t")],
            {
                "s": np.int64([6, 0]),
                "e": np.int64([-100, 9]),
                "a": np.int64([2, 3]),
                "t": np.int64([-2, 3]),
            },
            ["take_strided", "take_strided"],
        ),
        (
            [node("Relu", "x", "r"), node("Concat", "x,r,x", axis=1)],
            {},
            ["relu", "concat", "concat"],
        ),
        ([node("Mul", "x,g")], ROW, ["multiply"]),
        ([node("Mul", "h,x")], ROW, ["multiply"]),
        ([node("Mul", "x,n")], {"n": np.float32(0.25)}, ["scale"]),
        ([node("Sub", "x,g")], ROW, ["scale", "add_broadcast"]),
        ([node("Sub", "x,n")], {"n": np.float32([0.25])}, ["add_broadcast"]),
        ([node("Sub", "n,x")], {"n": np.float32([0.25])}, ["scale", "add_broadcast"]),
        (
            [node("Relu", "x", "r"), node("Greater", "x,n", "m"), node("Where", "m,x,r")],
            {"n": np.float32(-0.25)},
            ["relu", "add_broadcast", "positive", "where"],
        ),
        ([node("Add", "x,n")], {"n": np.float32(0.25)}, ["add_broadcast"]),
        ([node("Div", "x,n")], {"n": np.float32(0.25)}, ["scale"]),
        (
            [node("Sigmoid", "x", "s"), node("Div", "x,s")],
            {},
            ["sigmoid", "reciprocal", "multiply"],
        ),
        ([node("Neg", "x")], {}, ["scale"]),
        ([node("Pow", "x,n")], {"n": np.float32(2)}, ["square"]),
        ([node("LeakyRelu", "x", alpha=0.2)], {}, ["leaky_relu"]),
        ([node("Elu", "x", alpha=0.5)], {}, ["elu"]),
        ([helper.make_node("Selu", ["x"], ["y"], name="x")], {}, ["elu", "scale"]),
        ([node("HardSigmoid", "x", alpha=1 / 6)], {}, ["hard_sigmoid"]),
        ([node("HardSwish", "x")], {}, ["hard_swish"]),
        ([node("Softplus", "x")], {}, ["softplus"]),
        ([node("Tanh", "x")], {}, ["tanh"]),
        ([node("Transpose", "x", perm=[0, 2, 3, 1])], {}, ["transpose"]),
        ([node("Pad", "x,p")], {"p": np.int64([0, 0, 1, 2, 0, 0, 3, 0])}, ["put_strided"] * 2),
        (
            [node("Pad", "x,p", mode="reflect")],
            {"p": np.int64([0, 0, 1, 0, 0, 0, 2, 0])},
            ["take_strided", "take_strided", "concat", "concat"],
        ),
        (
            [node("Pad", "x,p", mode="edge")],
            {"p": np.int64([0, 0, 0, 3, 0, 0, 0, 0])},
            ["slice", "take_strided", "concat"],
        ),
        ([node("LayerNormalization", "x,h,h", axis=-1)], ROW, ["layer_norm"]),
        ([node("InstanceNormalization", "x,s,b")], PAIR, ["layer_norm"]),
        ([node("Softmax", "x", axis=1)], {}, ["transpose", "softmax", "transpose"]),
        ([node("LogSoftmax", "x")], {}, ["softmax", "log"]),
        (
            [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x,t")],
            {},
            ["transpose", "matmul"],
        ),
        ([node("Gather", "x,i", axis=2)], {"i": np.int64(-3)}, ["slice", "reshape"]),
        (
            [node("Unsqueeze", "x,i", "u"), node("Squeeze", "u,i")],
            {"i": np.int64([2])},
            ["reshape", "reshape"],
        ),
        (
            [
                node(
                    *("Resize", "x,,f"),
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
            ],
            {"f": np.float32([1, 1, 2, 3])},
            ["take_strided", "reshape"],
        ),
    ],
)
def test_an_operator_gives_what_onnx_says(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, NDArray[np.generic]],
    kinds: list[str],
):
    path = write(tmp_path, nodes, constants)
    numbers = tuple(name for name, value in constants.items() if value.size == 1)
    model = import_onnx(path, 2, loss="mse", chosen=TrainedNames(("*",), numbers))
    assert [op.kind for op in model.graph.ops] == kinds
    assert_same_inference(path, model)


def test_reduce_mean_takes_its_axes_from_an_input(tmp_path: Path):
    nodes = [node("ReduceMean", "x,a", keepdims=0)]
    path = write(tmp_path, nodes, {"a": np.int64([2, 3])}, opset=18)
    assert_same_inference(path, import_onnx(path, 2))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("strides", [[2, 3], [3, 2]])
def test_same_padding_of_extents_that_strides_do_not_divide(
    tmp_path: Path, mode: str, strides: list[int]
):
    path = write(tmp_path, [node("Conv", "x,w", auto_pad=mode, strides=strides)], W, x=[2, 3, 7, 5])
    assert_same_inference(path, import_onnx(path, 2, loss="mse"))


@pytest.mark.parametrize(
    ("nodes", "kinds"),
    [
        ([node("MatMul", "x,w", "m"), node("Mul", "m,b")], ["linear", "multiply"]),
        (
            [node("MatMul", "x,w", "m"), node("Add", "m,b", "s"), node("Add", "s,m")],
            ["linear", "add_broadcast", "add"],
        ),
    ],
)
def test_only_the_addition_that_alone_reads_a_product_is_its_bias(
    tmp_path: Path, nodes: list[onnx.NodeProto], kinds: list[str]
):
    path = write(tmp_path, nodes, {"w": floats(6, 4), "b": floats(4)}, x=[2, 6])
    model = import_onnx(path, 2, loss="mse", chosen=TrainedNames(("*",)))
    assert [op.kind for op in model.graph.ops] == kinds
    assert_same_inference(path, model)


@pytest.mark.parametrize(
    ("nodes", "constants", "kinds"),
    [
        (
            [node("Conv", "x,w", pads=[1, 2], strides=[2], dilations=[2])],
            {"w": floats(4, 3, 3)},
            ["reshape", "put_strided", "conv2d", "reshape"],
        ),
        (
            [node("MaxPool", "x", kernel_shape=[3], strides=[2])],
            {},
            ["reshape", "max_pool2d", "reshape"],
        ),
        ([node("GlobalAveragePool", "x")], {}, ["reshape", "global_avg_pool", "reshape"]),
        (
            [node("BatchNormalization", "x,s,s,s,v", training_mode=1)],
            {"s": floats(3), "v": np.abs(floats(3))},
            ["reshape", "batch_norm", "reshape"],
        ),
    ],
)
def test_sequences_are_images_of_height_1(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, NDArray[np.generic]],
    kinds: list[str],
):
    path = write(tmp_path, nodes, constants, x=[2, 3, 9])
    if "s" in constants:
        constants |= {f"s{i}": floats(3) for i in range(3)}
        nodes = [node("BatchNormalization", "x,s0,s1,s2,v", training_mode=1)]
        path = write(tmp_path, nodes, constants, x=[2, 3, 9])
    model = import_onnx(path, 2, loss="mse")
    assert [op.kind for op in model.graph.ops] == kinds
    assert_same_inference(path, model)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("axis", [1, 3])
def test_a_split_may_be_uneven(tmp_path: Path, axis: int, part: int):
    """8 into 3, 3 and 2, as ONNX has it: the last part is the smaller one."""
    split = helper.make_node("Split", ["x"], ["p0", "p1", "p2"], axis=axis, num_outputs=3)
    extents = [2, 4, 4, 4]
    extents[axis] = 8
    path = write(tmp_path, [split, node("Relu", f"p{part}")], {}, x=extents, opset=18)
    assert_same_inference(path, import_onnx(path, 2, loss="mse"))


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("Gemm", "x,w,b", transB=1)], {"w": floats(4, 6), "b": floats(4)}),
        ([node("Gemm", "x,w,b")], {"w": floats(6, 4), "b": floats(1, 4)}),
        ([node("Gemm", "x,w")], {"w": floats(6, 4)}),
        ([node("MatMul", "x,w")], {"w": floats(6, 4)}),
        ([node("MatMul", "x,w", "m"), node("Add", "m,b")], {"w": floats(6, 4), "b": floats(4)}),
        ([node("MatMul", "x,w", "m"), node("Add", "b,m")], {"w": floats(6, 4), "b": floats(1, 4)}),
        ([node("MatMul", "x,w", "m"), node("Add", "m,m")], {"w": floats(6, 4)}),
    ],
)
def test_a_product_becomes_a_linear_layer(
    tmp_path: Path, nodes: list[onnx.NodeProto], constants: dict[str, NDArray[np.generic]]
):
    path = write(tmp_path, nodes, constants, x=[2, 6])
    model = import_onnx(path, 2)
    assert model.graph.ops[0].kind == "linear"
    assert_same_inference(path, model)


def batch_norm(**attributes: object) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    constants = {"g": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3))}
    return [node("BatchNormalization", "x,g,b,m,v", epsilon=1e-3, **attributes)], constants


@pytest.mark.parametrize("opset", [13, 14, 15, 17, 21])
def test_batch_norm_keeps_weights_and_statistics(tmp_path: Path, opset: int):
    nodes, constants = batch_norm(momentum=0.9, **in_training(opset))
    if opset < 14:
        nodes[0].output.extend(["m2", "v2", "m3", "v3"])
    path = write(tmp_path, nodes, constants, opset=opset)
    model = import_onnx(path, 2, loss="mse")
    x = floats(2, 3, 8, 8)
    g, b, m, v = (constants[name].reshape(3, 1, 1) for name in "gbmv")
    expected = g * (x - m) / np.sqrt(v + 1e-3) + b
    np.testing.assert_allclose(infer(model, x), expected, rtol=1e-5, atol=1e-5)
    (op,) = model.graph.ops
    assert op.number("momentum") == pytest.approx(0.1, rel=1e-12)
    assert op.number("eps") == 1e-3
    assert [t.role for t in model.graph.persistent] == [Role.PARAMETER, Role.STATE]


def in_training(opset: int = 17) -> dict[str, int]:
    """The attribute of training form; before operator set 14, more outputs were the sign."""
    return {} if opset < 14 else {"training_mode": 1}


def test_batch_norm_may_give_its_new_statistics(tmp_path: Path):
    nodes, constants = batch_norm(training_mode=1)
    nodes[0].output.extend(["m2", "v2"])
    model = import_onnx(write(tmp_path, nodes, constants), 2, loss="mse")
    assert [op.kind for op in model.graph.ops] == ["batch_norm"]


@pytest.mark.parametrize(("opset", "attributes"), [(13, {}), (17, {}), (21, {"training_mode": 0})])
def test_batch_norm_in_evaluation_mode_keeps_its_statistics(
    tmp_path: Path, opset: int, attributes: dict[str, int]
):
    """As the file has it, if the user says so, since exporters write it unasked."""
    nodes, constants = batch_norm(**attributes)
    second = node("BatchNormalization", "y,g,b,m,v", "z", **attributes)
    path = write(tmp_path, [*nodes, second, node("Relu", "z", "y2")], constants, opset=opset)
    model = onnx.load(path)
    model.graph.output[0].name = "y2"
    onnx.save(model, path)
    with pytest.raises(
        ModelError, match="the file does not say whether the network trains so"
    ) as e:
        import_onnx(path, 2, loss="mse", chosen=TrainedNames(("*",)))
    assert "--freeze 'y.running_mean,m' if the network trains so" in e.value.try_next
    stay = TrainedNames((), ("*.running_mean", "m"))
    imported = import_onnx(path, 2, loss="mse", chosen=stay)
    assert imported.warnings == ()
    program = make_program(imported.graph, "mse", Sgd())
    kinds = [op.kind for op in program.training.ops]
    assert kinds.count("batch_norm") == 2
    assert "batch_norm_statistics" not in kinds


@pytest.mark.parametrize("batch", ["n", None, 1, 7])
def test_the_batch_asked_for_replaces_the_files(tmp_path: Path, batch: int | str | None):
    target = np.int64([batch if isinstance(batch, int) else -1, 192])
    path = write(tmp_path, [node("Reshape", "x,s")], {"s": target}, x=[batch, 3, 8, 8])
    model = import_onnx(path, 5)
    assert model.input.shape == (5, 3, 8, 8)
    assert model.output.shape == (5, 192)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_a_softmax_at_the_end_is_left_to_the_loss(tmp_path: Path, kind: str):
    nodes = [node("Gemm", "x,w", "logits"), node(kind, "logits")]
    path = write(tmp_path, nodes, {"w": floats(6, 4)}, x=[2, 6])
    assert [op.kind for op in import_onnx(path, 2).graph.ops] == ["linear"]
    kept = [op.kind for op in import_onnx(path, 2, loss="mse").graph.ops]
    assert kept == ["linear", "softmax", "log"][: 2 if kind == "Softmax" else 3]


def test_shared_weights_stay_shared_and_equal_constants_apart(tmp_path: Path):
    nodes = [
        node("Identity", "w", "w2"),
        node("Gemm", "x,w", "a"),
        helper.make_node("Gemm", ["a", "w"], ["b"]),
        helper.make_node("Gemm", ["b", "w2"], ["y"]),
    ]
    path = write(tmp_path, nodes, {"w": floats(6, 6)}, x=[2, 6])
    model = import_onnx(path, 2)
    assert [t.name for t in model.graph.with_role(Role.PARAMETER)] == ["w", "w2"]
    assert_same_inference(path, model)


def test_names_may_hold_any_text(tmp_path: Path):
    names = ['*/ #include "x"\n', "a;\nb", "%s{{ x }}"]
    nodes = [
        helper.make_node("Relu", ["x"], [names[0]], name=names[1]),
        helper.make_node("Relu", [names[0]], [names[2]], name=names[1]),
        helper.make_node("Relu", [names[2]], ["y"], name=names[1]),
    ]
    path = write(tmp_path, nodes, {})
    model = import_onnx(path, 2, loss="mse")
    assert len({op.name for op in model.graph.ops}) == 3
    assert_same_inference(path, model)


def test_operators_that_onnx_itself_does_not_know_are_named_with_the_others(tmp_path: Path):
    nodes = [
        node("Conv", "x,w", "a", auto_pad="SAME"),
        node("Round", "a", "b"),
        helper.make_node("Add", ["x", "half"], ["c"], name="bad\nadd"),
        helper.make_node("Grommet", ["c"], ["d"], domain="com.example", name="custom"),
        helper.make_node("Add", ["b", "d"], ["y"], name="fine"),
    ]
    path = write(tmp_path, nodes, W | {"half": np.float32([np.nan])})
    with pytest.raises(ModelError) as caught:
        import_onnx(path, 2)
    message = str(caught.value)
    assert message == (
        f"{path}: poetfw cannot train 4 nodes of the model: "
        "'the Conv' (Conv): auto_pad is 'SAME', which ONNX does not define; "
        "'the Round' (Round), 'custom' (com.example.Grommet): poetfw has no such operator; "
        "'bad\\nadd' (Add): its weights 'half' hold NaN or infinity"
    )


def test_all_nodes_that_cannot_be_trained_are_named_at_once(tmp_path: Path):
    nodes = [
        node("MaxPool", "x", "a", kernel_shape=[3, 3], dilations=[2, 2]),
        node("Round", "a", "b"),
        helper.make_node("Add", ["x", "half"], ["c"], name="bad\nadd"),
        helper.make_node("Add", ["b", "c"], ["y"], name="unlike"),
    ]
    path = write(tmp_path, nodes, W | {"half": np.float32([np.nan])})
    with pytest.raises(ModelError) as caught:
        import_onnx(path, 2)
    assert str(caught.value) == (
        f"{path}: poetfw cannot train 4 nodes of the model: "
        "'the MaxPool' (MaxPool): its dilation is [2, 2], but must be 1; "
        "'the Round' (Round): poetfw has no such operator; "
        "'bad\\nadd' (Add): its weights 'half' hold NaN or infinity; "
        "'unlike' (Add): shape mismatch: objects cannot be broadcast to a single shape.  "
        "Mismatch is "
        "between arg 0 with shape (2, 3, 4, 4) and arg 1 with shape (2, 3, 8, 8)."
    )


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_onnx_own_operators_are_checked_by_either_name_of_their_domain(tmp_path: Path, domain: str):
    nodes = [
        helper.make_node("Grommet", ["x"], ["a"], domain="com.example"),
        helper.make_node("Concat", ["a", "a"], ["y"], domain=domain),  # without its axis
    ]
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        import_onnx(write(tmp_path, nodes, {}), 2)


def test_nodes_behind_one_that_cannot_be_trained_are_named_too(tmp_path: Path):
    nodes = [
        node("Round", "x", "a"),
        node("MaxPool", "a", "b", kernel_shape=[2, 2], dilations=[2, 2]),
        node("Flatten", "b", "c"),
        node("MatMul", "c,wide", "d"),  # whose bias is no fault of its own
        node("Add", "d,bias", "e"),
        node("Relu", "e", "f"),
        node("Dropout", "f", "g"),
        node("Softmax", "g", "h", axis=0),
        node("BitwiseNot", "h", "i"),  # not of this opset, so ONNX cannot tell its output's shape
        node("Dropout", "i", "j"),
        node("Sign", "j", "y"),
    ]
    wide = np.full((6 * 6 * 3, 2), np.nan, np.float32)
    path = write(tmp_path, nodes, {"wide": wide, "bias": np.ones(2, np.float32)})
    with pytest.raises(ModelError) as caught:
        import_onnx(path, 5)
    named = [
        part.partition(": ")[0] for part in caught.value.message.split("model: ")[1].split("; ")
    ]
    unknown = ", ".join(f"'the {kind}' ({kind})" for kind in ("Round", "BitwiseNot", "Sign"))
    known = [f"'the {kind}' ({kind})" for kind in ("MaxPool", "MatMul", "Softmax")]
    assert named == [unknown, *known]


LOOP = helper.make_graph(
    [helper.make_node("Identity", ["go"], ["on"])],
    "body",
    [helper.make_tensor_value_info("i", TensorProto.INT64, [])]
    + [helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
    + [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "ab"],
    [helper.make_tensor_value_info("on", TensorProto.BOOL, [])],
)
NONE = {"none": np.zeros(0, np.int64), "two": np.int64(2)}


@pytest.mark.parametrize(
    ("refused", "constants"),
    [
        (node("Clip", "x,w", "a"), {"w": np.float32(1)}),
        (node("STFT", "x,none,,two", "a"), NONE),
        (node("Loop", ",,x,x", "a", body=LOOP), {}),
    ],
    ids=["ValueError", "IndexError", "RuntimeError"],
)
def test_a_node_that_onnx_itself_stumbles_over_is_named(
    tmp_path: Path, refused: onnx.NodeProto, constants: dict[str, NDArray[np.generic]]
):
    path = write(tmp_path, [refused, node("Relu", "a")], constants, x=(2, 3, 1))
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.data_type = 1_000_000  # which is none
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=f"cannot train 1 node .*'the {refused.op_type}'"):
        import_onnx(path, 2)


@pytest.mark.parametrize(
    ("refused", "constants"),
    [
        (node("LayerNormalization", "x,one", "a", axis=2**40), {"one": np.float32([1])}),
        (node("GatherND", "x,index", "a"), {"index": np.zeros((2, 3, 8, 8, 4), np.int64)}),
        (node("Concat", "x,none", "a", axis=2), {"none": np.zeros((2, 3, 0, 8), np.float32)}),
    ],
    ids=["a number beyond all", "an operator", "an empty tensor"],
)
def test_onnx_is_not_asked_where_its_answer_may_be_the_end_of_the_process(
    tmp_path: Path, refused: onnx.NodeProto, constants: dict[str, NDArray[np.generic]]
):
    """It would know that the shape stays, so that the node behind would be named as well."""
    behind = node("MaxPool", "a", kernel_shape=[2, 2], dilations=[2, 2])
    path = write(tmp_path, [refused, behind], constants)
    with pytest.raises(ModelError, match=f"cannot train 1 node .*'the {refused.op_type}'"):
        import_onnx(path, 2)


def test_sparse_weights_that_onnx_stumbles_over_are_refused(tmp_path: Path):
    indices = helper.make_tensor("", TensorProto.INT64, [2], [0, 1])
    weights = helper.make_sparse_tensor(numpy_helper.from_array(np.float32([1, 2])), indices, [3])
    weights.indices.int64_data.append(2)
    path = write(tmp_path, [node("Constant", "", "a", sparse_value=weights), node("Relu", "x")], {})
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        import_onnx(path, 2)


def test_a_bias_behind_a_product_that_onnx_refuses_as_well_has_nothing_stood_in(tmp_path: Path):
    nodes = [node("MatMul", "x,half", "a"), node("Add", "a,bias", "b"), node("Relu", "b")]
    constants = {"half": np.ones((8, 2), np.int32), "bias": floats(2)}
    with pytest.raises(ModelError, match=r"cannot train 1 node .*'the MatMul'"):
        import_onnx(write(tmp_path, nodes, constants), 2)


NAN = {"w": np.full((4, 3, 3, 3), np.nan, np.float32)}


@pytest.mark.parametrize(
    ("nodes", "constants", "reason"),
    [
        ([node("Conv", "x,w")], {"w": W["w"].astype(np.float64)}, "is DOUBLE, but must be FLOAT"),
        ([node("Conv", "x,w")], {"w": W["w"].astype(np.float16)}, "is FLOAT16, but must be FLOAT"),
        ([node("Conv", "x,w")], NAN, "'w' hold NaN or infinity"),
        ([node("Conv", "x,w")], {"w": floats(4, 2, 3, 3)}, "channels"),
        ([node("Conv", "x,w")], {"w": floats(4, 3, 9, 9)}, "kernel"),
        ([node("Conv", "x,w")], {"w": floats(4, 3, 3)}, "weight has 3 axes"),
        ([node("Conv", "x,w")], {"w": floats(0, 3, 3, 3)}, "must be 1 or more"),
        ([node("Conv", "x,w", group=0)], W, "groups"),
        ([node("Conv", "x,w", group=-1)], W, "groups"),
        ([node("Conv", "x,w", strides=[0, 1])], W, "stride"),
        ([node("Conv", "x,w", strides=[0, 0], auto_pad="SAME_UPPER")], W, "strides is"),
        ([node("Conv", "x,w", pads=[-1, 0, 0, 0])], W, "padding"),
        ([node("Conv", "x,w", pads=[1, 1])], W, "pads is"),
        ([node("Conv", "x,w", auto_pad="SAME")], W, "auto_pad is 'SAME'"),
        ([node("Conv", "x,w", kernel_shape=[5, 5])], W, "kernel_shape is"),
        ([node("Conv", "x,x")], {}, "its weights have the batch on axis 0"),
        ([node("Conv", ",w")], W, "not a valid ONNX model"),
        ([node("Conv", "x,w,b")], W | {"b": floats(3)}, "its bias 'b' has shape"),
        (  # ONNX would add one number to all of a sample's outputs
            [node("Flatten", "x", "f"), node("Gemm", "f,w,b")],
            {"w": floats(192, 2), "b": floats(2, 1)},
            "cannot be broadcast",
        ),
        ([node("MaxPool", "x", kernel_shape=[2])], {}, "kernel_shape is"),
        (
            [helper.make_node("MaxPool", ["x"], ["z", "y"], name="p", kernel_shape=[2, 2])],
            {},
            "only the first may be",
        ),
        ([node("ReduceMean", "x", axes=[0])], {}, r"reduces axes \[0\]: axis 0 is the batch"),
        ([node("ReduceMean", "x")], {}, "axis 0 is the batch"),
        ([node("ReduceMean", "x", axes=[2, 99])], {}, "out of range"),
        ([node("Clip", "x,l,h")], {"l": np.float32(1), "h": np.float32(-1)}, r"clips to \[1, -1\]"),
        ([node("Clip", "x,x,x")], {}, "must be a constant"),
        (
            [
                node(
                    *("MaxPool", "x"),
                    **{"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 0]},
                    ceil_mode=1,
                )
            ],
            {},
            "ceil_mode",
        ),
        (
            [node("Reshape", "x,s", allowzero=1)],
            {"s": np.int64([2, 0, 64])},
            "does not fit",
        ),
        ([node("Flatten", "x", axis=2)], {}, "axis is 2"),
        ([node("Slice", "x,s,e")], {"s": np.int64([1]), "e": np.int64([2])}, "a part of axis 0"),
        (
            [node("Slice", "x,s,e,a,t")],
            {f: np.int64([n]) for f, n in zip("seat", (2, 4, 2, 0), strict=True)},
            "step cannot be zero",
        ),
        (
            [node("Slice", "x,s,e,a")],
            {"s": np.int64([2]), "e": np.int64([2]), "a": np.int64([2])},
            "it takes nothing",
        ),
        ([node("Slice", "x,s,s,s")], {"s": np.int64([9])}, "out of range"),
        ([node("Slice", "x,x,x")], {}, "must be a constant"),
        ([node("Reshape", "x,s")], {"s": np.int64([3, -1])}, "does not keep axis 0"),
        ([node("Reshape", "x,s")], {"s": np.int64([-1, 64])}, "does not fit"),
        ([node("Reshape", "x,s")], {"s": np.int64([-1, -1])}, "does not fit"),
        ([node("Reshape", "x,s")], {"s": np.int64([2, 0, -1, 0, 0])}, "does not fit"),
        ([node("Reshape", "x,s")], {"s": np.int64([])}, "does not keep axis 0"),
        ([node("Reshape", "x,x")], {}, "must be a constant"),
        ([node("Concat", "x,x", axis=0)], {}, "along axis 0: axis 0 is the batch"),
        ([node("Transpose", "x")], {}, "axis 0 is the batch"),
        ([node("Pad", "x,p")], {"p": np.int64([1] + [0] * 7)}, "pads axis 0: axis 0 is the batch"),
        ([node("Pad", "x,p,v")], {"p": np.int64([0] * 8), "v": np.float32(1)}, "something else"),
        ([node("Resize", "x,,f", mode="cubic")], {"f": np.float32([1, 1, 2, 2])}, "mode is"),
        (
            [node("Resize", "x,,f", mode="linear")],
            {"f": np.float32([1, 1, 1.3, 2])},
            "whole pixels",
        ),
        (
            [node("Resize", "x,,f", nearest_mode="ceil")],
            {"f": np.float32([1, 1, 2, 2])},
            "_mode is",
        ),
        ([node("Resize", "x,,f")], {"f": np.float32([1, 1, 1.5, 2])}, "whole times"),
        ([node("Sign", "x")], {}, "no such operator"),
        (
            [node("Shape", "x", "s"), node("Gather", "s,i", "j"), node("Reshape", "x,j")],
            {"i": np.int64([9])},
            "the Gather' .*out of bounds",
        ),
        (
            [
                node("Shape", "x", "s"),
                node("Concat", "s,s,s,s,s", "j", axis=0),
                node("Reshape", "x,j"),
            ],
            {},
            "'j' has 20 entries, like no shape",
        ),
        ([node("Gemm", "x,w")], {"w": floats(8, 4)}, "2 axes only"),
        ([node("Gemm", "x,w", transA=1)], {"w": floats(8, 4)}, "2 axes only"),
        (
            [node("Softmax", "x", "s", axis=0), node("Relu", "s")],
            {},
            "its axis is 0: axis 0 is the batch",
        ),
        (
            [node("BatchNormalization", "x,w,w,w,v", training_mode=1)],
            {"w": floats(3), "v": floats(2)},
            "differ in",
        ),
        (
            [node("BatchNormalization", "x,w,w,w,v", training_mode=1)],
            {"w": floats(3), "v": np.float32([1, -1, 1])},
            "variance is negative",
        ),
        (
            [node("Constant", "", "c", value_string="c"), node("Reshape", "x,c")],
            {},
            "neither a tensor nor numbers",
        ),
        ([node("Constant", "", "y", value_float=1.0)], {}, "is not calculated from its input"),
        ([node("Relu", "missing")], {}, "not a valid ONNX model"),
        ([node("Relu", "a", "y"), node("Relu", "y", "a")], {}, "not a valid ONNX model"),
        ([node("Relu", "x"), node("Relu", "x")], {}, "not a valid ONNX model"),
        ([node("Conv", "x")], {}, "not a valid ONNX model"),
        ([node("Conv", "x,w", pads="text")], W, "not a valid ONNX model"),
        ([node("Relu", "x", "z")], {}, "is not calculated|not a valid ONNX"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, NDArray[np.generic]],
    reason: str,
):
    path = write(tmp_path, nodes, constants)
    with pytest.raises(ModelError, match=reason) as caught:
        import_onnx(path, 4, loss="mse")  # another batch than the file's, 2
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_weights_shared_in_two_forms_are_refused(tmp_path: Path):
    nodes = [node("Gemm", "x,w", "a"), helper.make_node("Gemm", ["a", "w"], ["y"], transB=1)]
    path = write(tmp_path, nodes, {"w": floats(6, 6)}, x=[2, 6])
    with pytest.raises(ModelError, match="'w' are shared with a node that uses them in another"):
        import_onnx(path, 2)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        ([2, 3, "h", 8], "only the batch left open"),
        ([2, 3, 0, 8], "only the batch left open"),
        ([2, -3, 8, 8], "only the batch left open"),
        ([], "only the batch left open"),
    ],
)
def test_the_input_needs_a_shape(tmp_path: Path, x: list[int | str | None], reason: str):
    with pytest.raises(ModelError, match=reason):
        import_onnx(write(tmp_path, [node("Relu", "x")], {}, x=x), 2, loss="mse")


def test_the_input_must_be_of_numbers_or_ids(tmp_path: Path):
    path = write(tmp_path, [node("Relu", "x")], {}, dtype=TensorProto.DOUBLE)
    with pytest.raises(ModelError, match="input 'x' is neither float32 nor int64"):
        import_onnx(path, 2, loss="mse")


@pytest.mark.parametrize("opset", [12, 22])
def test_other_opsets_are_refused(tmp_path: Path, opset: int):
    with pytest.raises(ModelError, match=f"uses opset {opset}; poetfw reads 13 to 21"):
        import_onnx(write(tmp_path, [node("Relu", "x")], {}, opset=opset), 2)


@pytest.mark.parametrize("batch", [0, -1, 10**9])
def test_the_batch_must_be_sensible(tmp_path: Path, batch: int):
    with pytest.raises(ModelError, match="the batch is"):
        import_onnx(write(tmp_path, [node("Relu", "x")], {}), batch, loss="mse")


def test_an_output_that_the_loss_does_not_fit_is_refused(tmp_path: Path):
    with pytest.raises(ModelError, match="softmax cross-entropy needs") as caught:
        import_onnx(write(tmp_path, [node("Relu", "x")], {}), 2)
    assert "choose the loss mse" in caught.value.try_next


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"not a model", b"\x08\xff\xff", bytes(1000)], ids=repr
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not an ONNX model"):
        import_onnx(path, 2)


def test_a_truncated_model_is_refused(tmp_path: Path):
    path = write(tmp_path, [node("Conv", "x,w")], W)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"model\.onnx: "):
        import_onnx(path, 2)


@pytest.mark.parametrize("kind", ["Identity", "OfAnotherDomain"])
def test_a_node_without_outputs_is_no_traceback(tmp_path: Path, kind: str):
    nodes = [helper.make_node(kind, ["w"], []), node("Conv", "x,w")]
    path = write(tmp_path, nodes, W)
    model = onnx.load(path)
    model.producer_name = "pytorch"
    model.graph.initializer[0].name = model.graph.node[0].input[0] = "weight"
    model.graph.node[1].input[1] = "weight"
    onnx.save(model, path)
    if kind == "Identity":
        with pytest.raises(ModelError, match="not a valid ONNX model"):
            import_onnx(path, 2, loss="mse")
    else:
        assert len(import_onnx(path, 2, loss="mse").graph.ops) == 1


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(ModelError, match="there is no such file"):
        import_onnx(tmp_path / "none.onnx", 2)
    with pytest.raises(ModelError, match="there is no such file"):
        import_onnx(tmp_path, 2)


def test_inputs_of_unlike_batches_are_refused(tmp_path: Path):
    path = write(tmp_path, [node("Relu", "x")], {})
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 8]))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="unlike counts of samples: 'z' has 3, but 'x' has 2"):
        import_onnx(path, 2)


def test_a_mean_and_a_bias_of_one_initializer_are_two_tensors(tmp_path: Path):
    """Exporters store equal tensors once; the statistics follow training, the bias is trained."""
    values = {"scale": np.ones(3, np.float32), "zeros": np.zeros(3, np.float32)}
    norm = node("BatchNormalization", "x,scale,zeros,zeros,scale", training_mode=1)
    model = import_onnx(write(tmp_path, [norm], values), 2, loss="mse")
    (op,) = (op for op in model.graph.ops if op.kind == "batch_norm")
    roles = [model.graph.by_name[name].role for name in op.inputs[1:]]
    assert roles == [Role.PARAMETER, Role.STATE]
    np.testing.assert_array_equal(model.weights[op.inputs[2]], [[0] * 3, [1] * 3])
    program = make_program(model.graph, model.loss, Sgd(learning_rate=0.5, momentum=0.0))
    reference, random = Reference(program, model.weights), np.random.default_rng(2)
    reference.step(random.normal(2, 3, (2, 3, 8, 8)), random.normal(size=(2, 3, 8, 8)))
    bias, mean = reference.persistent[op.inputs[1]][1], reference.persistent[op.inputs[2]][0]
    assert (np.abs(bias) > 1e-4).all()
    assert (np.abs(mean - bias) > 1e-2).all()


def external(folder: Path, location: str, **entries: str) -> Path:
    """A convolution whose weights are said to be elsewhere."""
    path = write(folder, [node("Conv", "x,w")], W)
    model = onnx.load(path)
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_may_lie_beside_the_model(tmp_path: Path):
    (tmp_path / "weights.bin").write_bytes(b"1234" + W["w"].tobytes() + b"more")
    path = external(tmp_path, "weights.bin", offset="4", length=str(W["w"].nbytes))
    model = import_onnx(path, 2, loss="mse")
    np.testing.assert_array_equal(model.weights["w"], W["w"])


def test_a_model_and_its_weights_may_have_so_many_bytes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "weights.bin").write_bytes(W["w"].tobytes())
    path = external(tmp_path, "weights.bin")
    most = path.stat().st_size + W["w"].nbytes
    monkeypatch.setattr("poetfw.importers.onnx.file.LARGEST_FILE_BYTES", most)
    assert import_onnx(path, 2, loss="mse")
    monkeypatch.setattr("poetfw.importers.onnx.file.LARGEST_FILE_BYTES", most - 1)
    with pytest.raises(ModelError, match=f"the model has more than {most - 1} bytes"):
        import_onnx(path, 2, loss="mse")


def test_a_constant_may_have_so_many_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nodes = [node("Expand", "one,shape", "a"), node("Neg", "a", "b"), node("Add", "x,b")]
    constants = {"one": np.float32([1]), "shape": np.int64([2, 6])}
    path = write(tmp_path, nodes, constants, x=[2, 6])
    monkeypatch.setattr("poetfw.importers.onnx.constants.LARGEST", 12)
    one = TrainedNames((), ("one",))
    assert_same_inference(path, import_onnx(path, 2, loss="mse", chosen=one))
    monkeypatch.setattr("poetfw.importers.onnx.constants.LARGEST", 11)
    with pytest.raises(ModelError, match="it makes too large a constant"):
        import_onnx(path, 2, loss="mse", chosen=one)


@pytest.mark.parametrize(
    ("location", "entries", "reason"),
    [
        ("", {}, "only files in the model's own folder"),
        ("../secret.bin", {}, "only files in the model's own folder"),
        ("a/../../secret.bin", {}, "only files in the model's own folder"),
        ("..\\secret.bin", {}, "only files in the model's own folder"),
        ("/etc/passwd", {}, "only files in the model's own folder"),
        ("C:\\secret.bin", {}, "only files in the model's own folder"),
        ("a\0b", {}, "only files in the model's own folder"),
        ("link.bin", {}, "only files in the model's own folder"),
        ("none.bin", {}, "is not there"),
        (".", {}, "is not there"),
        ("a" * 300, {}, "File name too long|is not there"),
        ("loop", {}, "cannot be read|is not there"),
        ("short.bin", {}, "too small for the declared shape"),
        ("short.bin", {"offset": "9"}, "which has 4"),
        ("short.bin", {"offset": "-1"}, "which has 4"),
        ("short.bin", {"length": "99999999999"}, "which has 4"),
        ("short.bin", {"offset": "one"}, "is not a number"),
    ],
)
def test_weights_elsewhere_are_refused(
    tmp_path: Path, location: str, entries: dict[str, str], reason: str
):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(W["w"].tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "loop").symlink_to("loop")
    (folder / "short.bin").write_bytes(b"1234")
    with pytest.raises(ModelError, match=reason):
        import_onnx(external(folder, location, **entries), 2, loss="mse")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path):
    path = write(tmp_path, [helper.make_node("Relu", ["x"], ["y"], name="NAME")], {})
    path.write_bytes(path.read_bytes().replace(b"NAME", b"\xff\xfeME"))
    with pytest.raises(ModelError, match="text that is not UTF-8"):
        import_onnx(path, 2, loss="mse")


def test_damaged_models_are_refused_or_read_wherever_the_damage_is(tmp_path: Path):
    """Nothing but ModelError may come of any single damaged byte."""
    nodes = [
        node("Conv", "x,w", "a", pads=[1, 1, 1, 1]),
        node("MaxPool", "a", "b", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "b,s", "c"),
        node("Gemm", "c,v", transB=1),
    ]
    constants = {"w": floats(1, 3, 1, 1), "s": np.int64([2, -1]), "v": floats(2, 25)}
    path = write(tmp_path, nodes, constants)
    content = path.read_bytes()
    refused = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            import_onnx(path, 2)
        except ModelError:
            refused += 1
    assert refused > len(content) / 4


@pytest.mark.parametrize("weight", [(), (3,), (2, 3, 4)])
def test_a_refused_product_by_no_matrix_is_refused_by_name(
    tmp_path: Path, weight: tuple[int, ...]
) -> None:
    """Behind it is an addition, which would be its bias if it were a product by a matrix."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Add", ["p", "b"], ["y"], "sum"),
    ]
    path = write(tmp_path, nodes, {"w": floats(*weight), "b": floats(4)}, x=(2, 3))
    with pytest.raises(ModelError):
        import_onnx(path, 2)
