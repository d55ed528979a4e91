# SPDX-License-Identifier: Apache-2.0
"""Models: unknown ones, and ONNX files of every kind of malice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from invalid.case import Case, cases
from invalid.makers import FEATURES, good_data, network, onnx_file, text

BUILD = (
    "build --board linux --model net.onnx --data data.npz --batch 4 --ram 1000000 --generate-only"
)


def unsupported(model: onnx.ModelProto) -> None:
    graph = model.graph
    graph.node[1].op_type = "Shrink"
    graph.node[2].input[0] = "sharpened"
    graph.node.insert(
        2, helper.make_node("Hardmax", [graph.node[1].output[0]], ["sharpened"], "sharpen")
    )
    model.opset_import[0].version = 18


def cyclic(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = model.graph.node[1].output[0]


def missing_weights(model: onnx.ModelProto) -> None:
    del model.graph.initializer[0]


def nan_weights(model: onnx.ModelProto) -> None:
    replace_weights(model, np.full((FEATURES, 6), np.nan, np.float32))


def short_weights(model: onnx.ModelProto) -> None:
    weights = model.graph.initializer[0]
    weights.raw_data = weights.raw_data[:-4]


def other_shape(model: onnx.ModelProto) -> None:
    replace_weights(model, np.ones((FEATURES + 1, 6), np.float32))


def replace_weights(model: onnx.ModelProto, values: np.ndarray) -> None:
    name = model.graph.initializer[0].name
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, name))


def external(location: str, **entries: str) -> object:
    def change(model: onnx.ModelProto) -> None:
        weights = model.graph.initializer[0]
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            weights.external_data.add(key=key, value=value)

    return change


def opset(version: int) -> object:
    def change(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = version

    return change


def second_input(model: onnx.ModelProto) -> None:
    more = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", FEATURES])
    model.graph.input.append(more)


def no_output(model: onnx.ModelProto) -> None:
    del model.graph.output[:]


def open_features(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "features"


def in_halves(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16


def no_weights(folder: Path) -> None:
    model = network()
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Relu", ["x"], ["y"]))
    del model.graph.initializer[:]
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = FEATURES
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    good_data(folder)


def truncated(folder: Path) -> None:
    (folder / "net.onnx").write_bytes(network().SerializeToString()[:-37])


def linked_weights(folder: Path) -> None:
    """The weights' file is a link that leads out of the folder."""
    outside = folder.parent / "secret"
    outside.write_bytes(bytes(4 * FEATURES * 6))
    (folder / "w.bin").symlink_to(outside)
    onnx_file(external("w.bin"))(folder)


def images(
    kind: str, more: dict[str, np.ndarray] | None = None, **attributes: object
) -> Callable[[Path], None]:
    """A network of one node of that kind on images, a Flatten and a Gemm; data that fit."""

    def make(folder: Path) -> None:
        constants = dict(more or {})
        nodes = [
            helper.make_node(kind, ["x", *constants], ["seen"], "odd", **attributes),
            helper.make_node("Flatten", ["seen"], ["flat"], "flat"),
            helper.make_node("Gemm", ["flat", "w"], ["y"], "dense"),
        ]
        constants["w"] = np.ones((16, 3), np.float32)
        graph = helper.make_graph(
            nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 4, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        (folder / "net.onnx").write_bytes(model.SerializeToString())
        np.savez(folder / "data.npz", x=np.ones((40, 1, 4, 4), np.float32), y=np.arange(40) % 3)

    return make


KERNEL = {"k": np.ones((1, 1, 1, 1), np.float32)}


def by_reference(node: int, attribute: str, kind: int) -> Callable[[onnx.ModelProto], None]:
    """An attribute whose value is one of a function's, though the node is in no function."""

    def change(model: onnx.ModelProto) -> None:
        model.graph.node[node].attribute.add(name=attribute, type=kind, ref_attr_name="elsewhere")

    return change


def on_images(
    make: Callable[[Path], None], change: Callable[[onnx.ModelProto], object]
) -> Callable[[Path], None]:
    """What `images` makes, after a change of the model."""

    def made(folder: Path) -> None:
        make(folder)
        path = folder / "net.onnx"
        model = onnx.ModelProto.FromString(path.read_bytes())
        change(model)
        path.write_bytes(model.SerializeToString())

    return made


def calculated_shape(axis: int) -> Callable[[onnx.ModelProto], None]:
    """A Reshape to a shape that an Unsqueeze with that axis makes."""

    def change(model: onnx.ModelProto) -> None:
        graph = model.graph
        for name, value in (("one", 1), ("axis", axis)):
            graph.initializer.append(numpy_helper.from_array(np.asarray([value], np.int64), name))
        graph.node.insert(0, helper.make_node("Unsqueeze", ["one", "axis"], ["shape"], "odd"))
        graph.node.insert(1, helper.make_node("Reshape", ["x", "shape"], ["again"], "reshape"))
        graph.node[2].input[0] = "again"

    return change


def linked_in_a_loop(folder: Path) -> None:
    (folder / "w.bin").symlink_to("w.bin")
    onnx_file(external("w.bin"))(folder)


def forged(model: onnx.ModelProto) -> None:
    model.graph.node[1].op_type = "Erf\nerror: all is well\x1b[2J"


def many_unknown(model: onnx.ModelProto) -> None:
    del model.graph.node[2]
    last = model.graph.node[1].output[0]
    for number in range(20_000):
        model.graph.node.append(
            helper.make_node("Hardmax", [last], [f"m{number}"], f"m number {number}")
        )
        last = f"m{number}"
    model.graph.node[-1].output[0] = "y"


def many_of_one_name(model: onnx.ModelProto) -> None:
    for number in range(20_000):
        last = model.graph.node[-1]
        before, last.output[0] = last.output[0], f"n{number}"
        model.graph.node.append(helper.make_node("Relu", [f"n{number}"], [before], "dense 1"))


REFERENCE = "an attribute of a function that the node is not in"

CASES = (
    *cases(
        BUILD,
        (
            "padding that makes an image of terabytes",
            images("Conv", KERNEL, pads=[0, 0, 2**31 - 9, 2**31 - 9]),
            "are more than any board has",
        ),
        (
            "Unsqueeze with an axis of 2^40",
            onnx_file(calculated_shape(2**40)),
            "'odd' (Unsqueeze): its constant cannot be calculated",
        ),
        ("weights behind a loop of links", linked_in_a_loop, "net.onnx: 'w.bin' cannot be read:"),
        (
            "operator whose name forges a line",
            onnx_file(forged),
            r"'relu' (Erf\nerror: all is well\x1b[2J)",
        ),
        (
            "20,000 nodes of one name",
            onnx_file(many_of_one_name),
            "model 'net' has more than 1,000 ops: poetfw trains none so large",
        ),
        (
            "20,000 unknown operators",
            onnx_file(many_unknown),
            "cannot train 20,000 nodes of the model",
            "'m number 19' (Hardmax)",
            "… and 19,980 more",
        ),
        (
            "model is a folder",
            lambda folder: (folder / "net.onnx").mkdir(),
            "net.onnx: there is no such file",
        ),
        ("model is empty", text("net.onnx", ""), "net.onnx: not an ONNX model"),
        ("model is text", text("net.onnx", "import torch"), "net.onnx: not an ONNX model"),
        ("model is cut short", truncated, "net.onnx: not an ONNX model, or damaged"),
        (
            "unknown operators",
            onnx_file(unsupported),
            "cannot train 2 nodes of the model",
            "'relu' (Shrink)",
            "'sharpen' (Hardmax)",
            "networks of",
        ),
        ("cyclic model", onnx_file(cyclic), "net.onnx: not a valid ONNX model"),
        (
            "model lacks weights",
            onnx_file(missing_weights),
            "net.onnx: not a valid ONNX model",
            "dense 1 w",
        ),
        ("weights are NaN", onnx_file(nan_weights), "net.onnx:", "dense 1 w", "NaN"),
        ("weights are too few bytes", onnx_file(short_weights), "net.onnx:", "dense 1 w"),
        ("weights of another shape", onnx_file(other_shape), "net.onnx:", "dense 1"),
        (
            "weights outside the folder",
            onnx_file(external("../secret")),
            "said to be in '../secret'; poetfw reads only files in the model's own folder",
        ),
        (
            "weights at an absolute path",
            onnx_file(external("/etc/passwd")),
            "said to be in '/etc/passwd'; poetfw reads only files in the model's own folder",
        ),
        (
            "weights behind a link out of the folder",
            linked_weights,
            "said to be in 'w.bin'; poetfw reads only files in the model's own folder",
        ),
        (
            "weights beyond the end of their file",
            onnx_file(external("data.npz", offset="1000000", length="96")),
            "the weights 'dense 1 w' are bytes 1000000 to 1000096 of 'data.npz'",
        ),
        ("opset too old", onnx_file(opset(11)), "uses opset 11; poetfw reads 13 to 21"),
        ("opset too new", onnx_file(opset(99)), "uses opset 99; poetfw reads 13 to 21"),
        ("two inputs", onnx_file(second_input), "there is no array z"),
        ("no output", onnx_file(no_output), "net.onnx:"),
        (
            "features left open",
            onnx_file(open_features),
            "the model's input 'x' has the shape [0, 0]",
            "only the batch left open",
        ),
        ("input in float16", onnx_file(in_halves), "net.onnx:", "float"),
        ("nothing to train", no_weights, "has no parameters to train"),
    ),
    *(
        Case(f"{kind}.{name} by reference", BUILD, 1, (f"{name} stands for", REFERENCE), make)
        for kind, name, make in (
            ("Conv", "group", on_images(images("Conv", KERNEL), by_reference(0, "group", 2))),
            ("Conv", "pads", on_images(images("Conv", KERNEL), by_reference(0, "pads", 7))),
            ("Flatten", "axis", on_images(images("Relu"), by_reference(1, "axis", 2))),
            ("Split", "axis", on_images(images("Split"), by_reference(0, "axis", 2))),
            ("Gemm", "transB", onnx_file(by_reference(0, "transB", 2))),
        )
    ),
    *(
        Case(f"{kind} with {name} of {value}", BUILD, 1, (f"{name} holds {value}, which",), make)
        for kind, name, value, make in (
            ("Conv", "pads", 2**62, images("Conv", KERNEL, pads=[0, 0, 2**62, 0])),
            ("Conv", "strides", 2**62, images("Conv", KERNEL, strides=[2**62, 1])),
            ("MaxPool", "kernel_shape", 2**40, images("MaxPool", kernel_shape=[2**40, 1])),
            ("Flatten", "axis", -(2**63), images("Flatten", axis=-(2**63))),
        )
    ),
    Case(
        "unknown model",
        "build --board linux --model alexnet --generate-only",
        1,
        ("no model is called 'alexnet'", "digits-cnn"),
    ),
    Case("model file is missing", BUILD, 1, ("net.onnx: there is no such file",)),
    Case(
        "model's path is too long",
        f"build --board linux --model {'n' * 5000}.onnx",
        1,
        ("cannot be read: File name too long",),
    ),
    Case(
        "model that is a program",
        BUILD.replace("net.onnx", "nets.py"),
        1,
        (
            "nets.py: not a file of a model",
            ".pt2",
            ".onnx",
        ),
        text("nets.py", "net = 1\n"),
    ),
)
