# SPDX-License-Identifier: Apache-2.0
"""Models of float64, float16 and bfloat16, converted to float32 as `.float()` does."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.importers.torch_export import import_torch
from poetfw.models import Model
from poetfw.ops import Array
from poetfw.training import Reference, Sgd, make_program

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

BATCH, RATE, STEPS = 4, 0.05, 10
TYPES = {"float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Mixed(nn.Module):
    """Parameters, buffers, constants, and conversions between types."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(16, 3)
        self.register_buffer("gain", torch.linspace(0.5, 1.5, 16))
        self.fixed = nn.Linear(16, 16).requires_grad_(False)

    def forward(self, x):
        h = self.norm(self.conv(x)).relu().flatten(1) * self.gain
        with torch.no_grad():
            h = self.fixed(h) + torch.ones(16, dtype=h.dtype)
        return self.head(h.to(x.dtype)) + torch.tensor([0.5, 0.0, -0.5], dtype=x.dtype)


def mixed(kind: str) -> nn.Module:
    torch.manual_seed(4)
    return Mixed().train().to(TYPES[kind])


def saved(net: nn.Module, path: Path) -> Path:
    example = torch.zeros(BATCH, 1, 4, 4, dtype=next(net.parameters()).dtype)
    torch.export.save(torch.export.export(copy.deepcopy(net), (example,)), path)
    return path


def train(model: Model, theirs: nn.Module) -> dict[str, tuple[Array, Array]]:
    """Weights after STEPS steps by name in the state dict: here, and in PyTorch."""
    sgd = Sgd(learning_rate=RATE, momentum=0.9)
    program = make_program(model.graph, model.loss, sgd, model.frozen)
    ours = Reference(program, model.weights)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=RATE, momentum=0.9)
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        x = random.normal(size=(BATCH, *model.input.shape[1:])).astype(np.float32)
        y = random.integers(0, 3, BATCH)
        optimizer.zero_grad()
        F.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y)).backward()
        optimizer.step()
        ours.step(x, y.astype(np.int32))
    state = theirs.state_dict()
    return {
        entry.name: (entry.of(ours.persistent[entry.tensor]), state[entry.name].numpy())
        for entry in model.state_dict
    }


@pytest.mark.parametrize("kind", TYPES)
def test_a_program_converted_to_float32_trains_as_its_float_copy_does(
    kind: str, tmp_path: Path
) -> None:
    net = mixed(kind)
    model = import_torch(saved(net, tmp_path / "net.pt2"), BATCH, as_float32=True)
    weights = train(model, net.float())
    assert {"conv.weight", "norm.running_var", "gain", "head.bias"} <= set(weights)
    for name, (ours, theirs) in weights.items():
        np.testing.assert_allclose(ours, theirs, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("kind", TYPES)
def test_an_onnx_model_converted_to_float32_trains_as_its_float_copy_does(
    kind: str, tmp_path: Path
) -> None:
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to(TYPES[kind])
    path, example = tmp_path / "net.onnx", torch.zeros(BATCH, 6, dtype=TYPES[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (example,), path, opset_version=17, dynamo=False)
    for name, (ours, theirs) in train(
        import_onnx(path, BATCH, as_float32=True), net.float()
    ).items():
        np.testing.assert_allclose(ours, theirs, atol=1e-3, err_msg=name)


def onnx_file(path: Path, weight: np.ndarray[Any, Any]) -> Path:
    """A product with a matrix, of the matrix's type, and a bias that a Cast makes."""
    kind = helper.np_dtype_to_tensor_dtype(weight.dtype)
    bias = numpy_helper.from_array(np.float32([1, 2]))
    nodes = [
        helper.make_node("Constant", [], ["float"], value=bias),
        helper.make_node("Cast", ["float"], ["bias"], to=kind),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "bias"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, kind, [1, e]) for n, e in (("x", 3), ("y", 2))]
    initial = [numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], initial)
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


def test_types_in_onnx_nodes_are_converted_too(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "n.onnx", np.arange(6.0).reshape(3, 2))
    model = import_onnx(path, 1, as_float32=True)
    (weight,) = (v for v in model.weights.values() if v.size == 6)
    assert weight.dtype == np.float32
    with pytest.raises(ModelError) as caught:
        import_onnx(path, 1)
    assert any("--as-float32" in each for each in caught.value.try_next)


def test_a_weight_beyond_float32_is_refused_by_name(tmp_path: Path) -> None:
    net = mixed("float64")
    net.head.weight.data[1, 2] = -1e300
    with pytest.raises(ModelError, match=r"'head.weight' hold -1e\+300, which float32 cannot"):
        import_torch(saved(net, tmp_path / "net.pt2"), BATCH, as_float32=True)
    path = onnx_file(tmp_path / "n.onnx", np.full((3, 2), 1e39))
    with pytest.raises(ModelError, match=r"n.onnx: the weights 'w' hold 1e\+39, which"):
        import_onnx(path, 1, as_float32=True)


def test_a_weight_whose_data_do_not_fill_its_shape_is_refused_by_name(tmp_path: Path) -> None:
    model = onnx.load(onnx_file(tmp_path / "n.onnx", np.ones((3, 2))))
    model.graph.initializer[0].raw_data = bytes(40)
    (tmp_path / "n.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="the data of 'w' do not fill its shape"):
        import_onnx(tmp_path / "n.onnx", 1, as_float32=True)


@pytest.mark.parametrize("kind", TYPES)
def test_a_refusal_names_float_and_the_option(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"are {kind}; poetfw reads float32") as caught:
        import_torch(saved(mixed(kind), tmp_path / "net.pt2"), BATCH)
    export, option = caught.value.try_next
    assert ".float()" in export
    assert "--as-float32" in option
