# SPDX-License-Identifier: Apache-2.0
"""`.pt2` files as nobody vouches for them: what is read, and what is refused, and how."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pt2
from poetfw.common.errors import ModelError
from poetfw.importers.network import Network
from poetfw.importers.torch_export import import_torch, schema
from poetfw.importers.torch_export.rules.registry import aten
from poetfw.models import GraphBuilder, Model
from poetfw.ops import kind_of
from pt2 import node, tensor

Change = Callable[[dict[str, Any]], Any]


def graph(members: dict[str, Any]) -> dict[str, Any]:
    return members["models/model.json"]["graph_module"]["graph"]


def signature(members: dict[str, Any]) -> dict[str, Any]:
    return members["models/model.json"]["graph_module"]["signature"]


def config(members: dict[str, Any]) -> dict[str, Any]:
    return members["data/weights/model_weights_config.json"]["config"]


def infer(model: Model, x: np.ndarray) -> np.ndarray:
    values = {**model.weights, model.input.name: x}
    for op in model.graph.ops:
        values[op.output] = kind_of(op).compute(op, [values[name] for name in op.inputs], [])
    return values[model.graph.output]


def test_a_program_is_read_without_torch(tmp_path: Path) -> None:
    path = pt2.write(tmp_path / "net.pt2", pt2.network())
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from poetfw.importers.torch_export import import_torch\n"
        f"model = import_torch(Path({str(path)!r}), 4)\n"
        "assert 'torch' not in sys.modules\n"
        "print([op.kind for op in model.graph.ops], [e.name for e in model.state_dict])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == (
        "['linear', 'relu', 'linear'] ['first.weight', 'first.bias', 'last.weight']\n"
    ), done.stderr


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_the_batch_is_the_one_asked_for(tmp_path: Path, batch: int) -> None:
    members = pt2.network()
    model = import_torch(pt2.write(tmp_path / "net.pt2", members), batch)
    assert model.input.shape == (batch, 6)
    x = np.random.default_rng(1).normal(size=(batch, 6)).astype(np.float32)
    w = {
        name: np.frombuffer(members[f"data/weights/{each['path_name']}"], "<f4").reshape(
            [size["as_int"] for size in each["tensor_meta"]["sizes"]]
        )
        for name, each in config(members).items()
    }
    hidden = np.maximum(x @ w["first.weight"].T + w["first.bias"], 0)
    np.testing.assert_allclose(infer(model, x), hidden @ w["last.weight"].T, rtol=1e-5)


def test_frozen_parameters_stay_frozen(tmp_path: Path) -> None:
    members = pt2.network()
    config(members)["first.weight"]["tensor_meta"]["requires_grad"] = False
    model = import_torch(pt2.write(tmp_path / "net.pt2", members), 2)
    assert model.frozen == ("first.weight",)


def test_strides_and_offsets_of_weights_are_followed(tmp_path: Path) -> None:
    members = pt2.network()
    each = config(members)["last.weight"]["tensor_meta"]
    stored = np.arange(20, dtype="<f4")
    members["data/weights/weight_2"] = stored.tobytes()
    each["strides"] = [{"as_int": 1}, {"as_int": 3}]
    each["storage_offset"] = {"as_int": 4}
    model = import_torch(pt2.write(tmp_path / "net.pt2", members), 2)
    np.testing.assert_array_equal(model.weights["last.weight"], stored[4:19].reshape(5, 3).T)


def sizes(*shape: int) -> list[dict[str, int]]:
    return [{"as_int": extent} for extent in shape]


def last_input(members: dict[str, Any], name: str, arg: Any) -> None:
    graph(members)["nodes"][-1]["inputs"].append({"name": name, "arg": arg, "kind": 1})


REFUSED: dict[str, tuple[Change, str]] = {
    "another schema": (
        lambda m: m["models/model.json"].update(schema_version={"major": 9, "minor": 0}),
        "schema version 9.0; poetfw reads version 8, which PyTorch 2.13 writes",
    ),
    "no schema": (
        lambda m: m["models/model.json"].pop("schema_version"),
        "not a program of torch.export, or damaged",
    ),
    "decomposed": (
        lambda m: m["models/model.json"].update(verifiers=["ATEN"]),
        "in the dialect 'ATEN', in which it can no longer be trained",
    ),
    "big-endian": (lambda m: m.update(byteorder=b"big"), "not little-endian"),
    "no JSON": (lambda m: m.update({"models/model.json": b"{"}), "not a .pt2 file"),
    "JSON of another kind": (lambda m: m.update({"models/model.json": []}), "is not an object"),
    "two models": (
        lambda m: m.update({"more/models/model.json": {}}),
        "holds 2 models: poetfw reads files of 1",
    ),
    "pickled weights": (
        lambda m: config(m)["last.weight"].update(use_pickle=True),
        "the weights 'last.weight' are pickled, which poetfw never opens",
    ),
    "missing bytes": (
        lambda m: m.pop("data/weights/weight_1"),
        "'data/weights/weight_1' is not in it",
    ),
    "missing weight": (lambda m: config(m).pop("first.bias"), "'first.bias' are not in it"),
    "short bytes": (
        lambda m: m.update({"data/weights/weight_2": bytes(56)}),
        "'last.weight' need 15 numbers for shape [3, 5], which its 56 bytes do not hold",
    ),
    "path outside": (
        lambda m: config(m)["last.weight"].update(path_name="../../../etc/passwd"),
        "etc/passwd' is not in it",
    ),
    "float64": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(dtype=8),
        "'last.weight' are float64; poetfw reads float32",
    ),
    "unknown type": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(dtype=99),
        "are of an unknown type",
    ),
    "sparse": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(layout=1),
        "'last.weight' are sparse",
    ),
    "negative stride": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(strides=sizes(-5, 1)),
        "have shape [3, 5] and strides [-5, 1]",
    ),
    "stride 0 stretches": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(
            sizes=sizes(1 << 40, 5), strides=sizes(0, 1)
        ),
        "which its 60 bytes do not hold",
    ),
    "offset beyond": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(storage_offset={"as_int": 1}),
        "need 16 numbers",
    ),
    "ranks differ": (
        lambda m: config(m)["last.weight"]["tensor_meta"].update(strides=sizes(1)),
        "have a shape that makes no sense",
    ),
    "NaN": (
        lambda m: m.update({"data/weights/weight_1": np.full(5, np.nan, "<f4").tobytes()}),
        "'first.bias' hold NaN or infinity",
    ),
    "open batch": (
        lambda m: graph(m)["tensor_values"]["x"].update(
            sizes=[{"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}}, {"as_int": 6}]
        ),
        "the model's input 'x' leaves axis 0 open ('s0')",
    ),
    "open size in a node": (
        lambda m: last_input(m, "bias", {"as_sym_int": {"as_name": "s0"}}),
        "it depends on a size that numbers decide",
    ),
    "two inputs": (
        lambda m: signature(m)["input_specs"].append({"user_input": {"arg": tensor("z")}}),
        "input 'z' has no shape in the file",
    ),
    "a buffer changes": (
        lambda m: signature(m)["output_specs"].append({"buffer_mutation": {"buffer_name": "b"}}),
        "has 2 outputs, of which 1 are tensors",
    ),
    "integers": (
        lambda m: graph(m)["tensor_values"]["x"].update(dtype=1),
        "and is uint8; poetfw needs float32, int64, int32 or bool",
    ),
    "unknown argument": (
        lambda m: last_input(m, "surprise", {"as_int": 1}),
        "'last' (aten.linear.default): its argument 'surprise' is not understood",
    ),
    "argument of another type": (
        lambda m: last_input(m, "bias", {"as_string": "text"}),
        "its argument 'bias' is not understood",
    ),
    "argument twice over": (
        lambda m: last_input(m, "bias", {"as_none": True, "as_int": 1}),
        "too many values to unpack",
    ),
    "weights that do not fit": (
        lambda m: graph(m)["nodes"][2]["inputs"][1].update(arg=tensor("p_first.weight")),
        "needs 'first.weight' to have shape",
    ),
    "the file's shape is another": (
        lambda m: graph(m)["tensor_values"]["y"].update(sizes=sizes(2, 4)),
        "its result has shape [2, 4] in the file, but [2, 3] in poetfw",
    ),
    "output of a weight": (
        lambda m: signature(m)["output_specs"][0].update(
            user_output={"arg": tensor("p_last.weight")}
        ),
        "is not calculated from its input",
    ),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_trained_is_refused(tmp_path: Path, change: Change, reason: str) -> None:
    members = pt2.network()
    change(members)
    for each in graph(members)["nodes"] if isinstance(members["models/model.json"], dict) else ():
        each["metadata"].setdefault("nn_module_stack", "")
        if each["outputs"] == [tensor("y")]:
            each["metadata"]["nn_module_stack"] = "L__self___last,last,torch.nn.Linear"
    path = pt2.write(tmp_path / "net.pt2", members)
    with pytest.raises(ModelError) as caught:
        import_torch(path, 2)
    assert caught.value.message.startswith(f"{path}: ")
    assert reason in caught.value.message


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02}q\x00.", b"text"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"not a .pt2 file of torch.export, or damaged"):
        import_torch(path, 2)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    members = pt2.network()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", b" " * (1 << 26))
        archive.writestr("net/byteorder", members["byteorder"])
    with pytest.raises(ModelError, match="67,108,864 bytes, more than are read"):
        import_torch(path, 2)


def test_all_nodes_are_named_with_their_author_s_line(tmp_path: Path) -> None:
    nodes = [
        node("angle.default", "a", "y = torch.angle(x)", self=tensor("x")),
        node("bad\n.default", "b", self=tensor("a")),
        node("relu.default", "c", self=tensor("b")),
        node("celu.default", "y", "F.celu(y, [2])", self=tensor("c"), alpha={"as_ints": [2]}),
    ]
    members = pt2.files(nodes, dict.fromkeys("abcy", (2, 6)), {}, "y")
    with pytest.raises(ModelError) as caught:
        import_torch(pt2.write(tmp_path / "net.pt2", members), 2)
    assert caught.value.message.endswith(
        "poetfw cannot train 3 nodes of the model: "
        "'a' (aten.angle.default, net.py:7: 'y = torch.angle(x)'), 'b' (aten.bad\n.default): "
        "poetfw has no such operator; "
        "'y' (aten.celu.default, net.py:7: 'F.celu(y, [2])'): its argument 'alpha' is not "
        "understood: an integer was expected"
    )


def test_of_many_nodes_the_first_twenty_are_named(tmp_path: Path) -> None:
    nodes = [
        node("angle.default", f"n{i}", self=tensor(f"n{i - 1}" if i else "x")) for i in range(50)
    ]
    members = pt2.files(nodes, {f"n{i}": (2, 6) for i in range(50)}, {}, "n49")
    with pytest.raises(ModelError, match=r"cannot train 50 nodes .* 'n19' .*… and 30 more$"):
        import_torch(pt2.write(tmp_path / "net.pt2", members), 2)


def test_an_average_beyond_the_edge_counts_no_more_than_there_is(tmp_path: Path) -> None:
    window = {"kernel_size": {"as_ints": [2, 2]}, "stride": {"as_ints": [2, 2]}}
    nodes = [
        node("avg_pool2d.default", "y", self=tensor("x"), ceil_mode={"as_bool": True}, **window)
    ]
    members = pt2.files(nodes, {"y": (2, 1, 3, 3)}, {}, "y", x=(2, 1, 5, 5))
    model = import_torch(pt2.write(tmp_path / "net.pt2", members), 2, "mse")
    np.testing.assert_array_equal(infer(model, np.ones((2, 1, 5, 5))), np.ones((2, 1, 3, 3)))


@pytest.mark.parametrize("read_again", [False, True])
def test_what_is_changed_in_place_is_not_read_again(tmp_path: Path, read_again: bool) -> None:
    nodes = [
        node("exp.default", "a", self=tensor("x")),
        node("view.default", "b", self=tensor("a"), size={"as_ints": [2, 6]}),
        node("relu_.default", "c", "x.relu_()", self=tensor("a")),
        node("add.Tensor", "y", self=tensor("c"), other=tensor("b" if read_again else "c")),
    ]
    members = pt2.files(nodes, dict.fromkeys("abcy", (2, 6)), {}, "y")
    path = pt2.write(tmp_path / "net.pt2", members)
    if not read_again:
        assert [op.kind for op in import_torch(path, 2).graph.ops] == ["exp", "relu", "add"]
        return
    with pytest.raises(ModelError, match=r"it reads 'b', which aten.relu_.*x.relu_.* has changed"):
        import_torch(path, 2)


def test_a_change_in_place_counts_though_nothing_reads_its_result(tmp_path: Path) -> None:
    nodes = [
        node("exp.default", "a", self=tensor("x")),
        node("mul_.Tensor", "b", self=tensor("a"), other={"as_int": 2}),
        node("relu.default", "y", self=tensor("a")),
    ]
    members = pt2.files(nodes, dict.fromkeys("aby", (2, 6)), {}, "y")
    with pytest.raises(ModelError, match=r"it reads 'a', which aten.mul_.Tensor has changed"):
        import_torch(pt2.write(tmp_path / "net.pt2", members), 2)


TWICE = {"other": {"as_int": 2}}


@pytest.mark.parametrize(
    ("view", "change"),
    [
        (node("diagonal.default", "v", self=tensor("h")), None),
        (
            node(
                "broadcast_tensors.default",
                "v",
                tensors={"as_tensors": [{"name": "x"}, {"name": "h"}]},
            ),
            None,
        ),
        (
            None,
            node("_foreach_mul_.Scalar", "c", self={"as_tensors": [{"name": "x"}, {"name": "h"}]}),
        ),
        (None, node("mul.out", "c", self=tensor("x"), other=tensor("x"), out=tensor("h"))),
        (None, node("__ixor__.Scalar", "c", self=tensor("h"), other={"as_int": 1})),
        (
            None,
            {**node("double", "c", self=tensor("h")), "target": "torch.ops.mine.double.default"},
        ),
    ],
    ids=["unknown view", "list", "foreach", "out", "dunder", "custom"],
)
@pytest.mark.parametrize("output", ["h", "y"])
def test_a_change_through_a_view_that_nothing_reads_is_refused(
    tmp_path: Path, view: Any, change: Any, output: str
) -> None:
    """And so is the output itself, changed after it was calculated."""
    change = change or node("mul_.Tensor", "c", self=tensor("w"), **TWICE)
    nodes = [node("exp.default", "h", self=tensor("x"))]
    nodes += [view, node("alias.default", "w", self=tensor("v"))] if view else []
    nodes += [change, node("relu.default", "y", self=tensor("h"))]
    members = pt2.files(nodes, dict.fromkeys("hvwcy", (2, 6)), {}, output)
    said = (
        "it reads 'h', which .* has changed" if output == "y" else "changed the model's output 'h'"
    )
    with pytest.raises(ModelError, match=said):
        import_torch(pt2.write(tmp_path / "net.pt2", members), 2)


def test_what_nothing_needs_may_change_in_place(tmp_path: Path) -> None:
    nodes = [
        node("exp.default", "h", self=tensor("x")),
        node("clone.default", "v", self=tensor("h")),
        node("mul_.Tensor", "c", self=tensor("v"), **TWICE),
        node("add_.Tensor", "d", self=tensor("p_count"), other={"as_int": 1}),
        node("relu.default", "y", self=tensor("h")),
    ]
    shapes = dict.fromkeys("hvcdy", (2, 6))
    members = pt2.files(nodes, shapes, {"count": np.ones((2, 6))}, "y")
    ops = import_torch(pt2.write(tmp_path / "net.pt2", members), 2).graph.ops
    assert [op.kind for op in ops] == ["exp", "relu"]


@pytest.mark.parametrize("read_first", [False, True])
def test_a_parameter_that_is_changed_through_a_view_is_refused(
    tmp_path: Path, read_first: bool
) -> None:
    """Though what is read is its result, or what it was before: the next step reads the change."""
    change = [
        node("view.default", "a", self=tensor("p_w"), size={"as_ints": [6]}),
        node("mul_.Tensor", "b", self=tensor("a"), **TWICE),
    ]
    product = node("mul.Tensor", "y", self=tensor("x"), other=tensor("p_w" if read_first else "b"))
    nodes = [product, *change] if read_first else [*change, product]
    members = pt2.files(nodes, {"a": (6,), "b": (6,), "y": (2, 6)}, {"w": np.ones(6)}, "y")
    with pytest.raises(ModelError, match="changes a parameter or a buffer in place"):
        import_torch(pt2.write(tmp_path / "net.pt2", members), 2)


def test_a_parameter_that_is_changed_in_place_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("mul_.Tensor", "b", self=tensor("p_w"), other={"as_int": 2}),
        node("mul.Tensor", "y", self=tensor("x"), other=tensor("b")),
    ]
    members = pt2.files(nodes, {"b": (6,), "y": (2, 6)}, {"w": np.ones(6)}, "y")
    with pytest.raises(ModelError, match="changes a parameter or a buffer in place"):
        import_torch(pt2.write(tmp_path / "net.pt2", members), 2)


def of_shapes(nodes: list[Any], shapes: dict[str, Any], path: Path, x: tuple[int, ...]) -> Path:
    return pt2.write(path / "net.pt2", pt2.files(nodes, shapes, {}, "y", x=x))


def integers(*values: int) -> dict[str, Any]:
    return {"as_ints": list(values)}


def test_the_batch_is_followed_to_other_axes_and_through_views(tmp_path: Path) -> None:
    """From [N, 3, 8] to [3, N, 8], [3, 2N, 4], [2N, 3, 4], back to [3, N, 8] and [N, 3, 8]."""
    nodes = [
        node("permute.default", "a", self=tensor("x"), dims=integers(1, 0, 2)),
        node("view.default", "b", self=tensor("a"), size=integers(3, 4, 4)),
        node("permute.default", "c", self=tensor("b"), dims=integers(1, 0, 2)),
        node("exp.default", "d", self=tensor("c")),
        node("permute.default", "e", self=tensor("d"), dims=integers(1, 0, 2)),
        node("reshape.default", "f", self=tensor("e"), shape=integers(6, 8)),
        node("relu.default", "g", self=tensor("f")),
        node("view.default", "h", self=tensor("g"), size=integers(3, 2, 8)),
        node("permute.default", "y", self=tensor("h"), dims=integers(1, 0, 2)),
    ]
    shapes = {"a": (3, 2, 8), "b": (3, 4, 4), "c": (4, 3, 4), "d": (4, 3, 4), "e": (3, 4, 4)}
    shapes |= {"f": (6, 8), "g": (6, 8), "h": (3, 2, 8), "y": (2, 3, 8)}
    path = of_shapes(nodes, shapes, tmp_path, (2, 3, 8))
    x = np.random.default_rng(1).normal(size=(5, 3, 8)).astype(np.float32)
    np.testing.assert_array_equal(infer(import_torch(path, 5, "mse"), x), np.exp(x))


def test_a_weight_is_stretched_to_the_batch(tmp_path: Path) -> None:
    """The token that each sample begins with."""
    parts = {"as_tensors": [{"name": "a"}, {"name": "x"}]}
    nodes = [
        node("expand.default", "a", self=tensor("p_token"), size=integers(2, -1, -1)),
        node("cat.default", "b", tensors=parts, dim={"as_int": 1}),
        node("view.default", "y", self=tensor("b"), size=integers(2, 32)),
    ]
    token = np.arange(8).reshape(1, 1, 8)
    shapes = {"a": (2, 1, 8), "b": (2, 4, 8), "y": (2, 32)}
    members = pt2.files(nodes, shapes, {"token": token}, "y", x=(2, 3, 8))
    model = import_torch(pt2.write(tmp_path / "net.pt2", members), 5)
    y = infer(model, np.full((5, 3, 8), 9, np.float32))
    np.testing.assert_array_equal(y, [[*range(8), *([9] * 24)]] * 5)


@pytest.mark.parametrize(
    ("change", "size", "result"),
    [
        (node("cat.default", "a", tensors={"as_tensors": [{"name": "x"}] * 2}), (4, 6), (2, 2, 6)),
        (node("slice.Tensor", "a", self=tensor("x"), end={"as_int": 2}), (2, 6), (2, 6)),
        (node("matmul.default", "a", self=tensor("x"), other=tensor("t")), (2, 2), (2, 2)),
    ],
    ids=["cat", "slice", "product"],
)
def test_what_mixes_samples_needs_the_batch_of_the_file(
    tmp_path: Path, change: Any, size: Any, result: Any
) -> None:
    turned = node("permute.default", "t", self=tensor("x"), dims=integers(1, 0))
    view = node("view.default", "y", self=tensor("a"), size=integers(*result))
    shapes = {"t": (6, 2), "a": size, "y": result}
    path = of_shapes([turned, change, view], shapes, tmp_path, (2, 6))
    import_torch(path, 2, "mse")
    with pytest.raises(ModelError, match="export it with the batch that is trained with, 4"):
        import_torch(path, 4, "mse")


def test_a_target_that_comes_from_itself_is_refused(tmp_path: Path) -> None:
    view = node("view.default", "t", self=tensor("t"), size=integers(2, 6))
    loss = node("mse_loss.default", "y", self=tensor("x"))
    loss["inputs"].append({"name": "target", "arg": tensor("t"), "kind": 1})
    path = of_shapes([view, loss], {"t": (2, 6), "y": ()}, tmp_path, (2, 6))
    with pytest.raises(ModelError, match="cannot be told what the network predicts"):
        import_torch(path, 2)


@pytest.mark.parametrize(
    "equation", ["ij,jk->ki", "ij,kj", "ij,ij->j", "ij,jk->k", "ij->ji", "ij->i"]
)
def test_einstein_s_sum_is_numpy_s(equation: str) -> None:
    random = np.random.default_rng(2)
    builder = GraphBuilder("net", "x", (3, 4))
    x = random.normal(size=(3, 4)).astype(np.float32)
    factors, values = [builder.input], [x]
    if "," in equation:
        shape = {"ij": (3, 4), "jk": (4, 5), "kj": (5, 4)}[equation[3:5]]
        values.append(random.normal(size=shape).astype(np.float32))
        factors.append(builder.state("b", values[1]))
    net = Network(builder, "mse")
    graph, weights = builder.build(net.einsum("y", equation, factors))
    known = {**weights, "x": x}
    for op in graph.ops:
        known[op.output] = kind_of(op).compute(op, [known[name] for name in op.inputs], [])
    np.testing.assert_allclose(known[graph.output], np.einsum(equation, *values), rtol=1e-5)


def test_an_operator_has_one_rule() -> None:
    with pytest.raises(ValueError, match=r"relu\.default has a rule already"):
        aten("relu.default")(lambda call, self: "other")


def test_tensors_are_renamed_wherever_an_argument_names_them() -> None:
    argument = {
        "as_tensor": {"name": "x"},
        "as_tensors": [{"name": "x"}, {"name": "y"}],
        "as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}],
        "as_string": "x",
    }
    assert schema.renamed(argument, str.upper) == {
        "as_tensor": {"name": "X"},
        "as_tensors": [{"name": "X"}, {"name": "Y"}],
        "as_optional_tensors": [{"as_tensor": {"name": "X"}}, {"as_none": True}],
        "as_string": "x",
    }
