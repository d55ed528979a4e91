# SPDX-License-Identifier: Apache-2.0
"""Tensors of a network's own in ONNX files: trained as in PyTorch, or asked for."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from poetfw.common.errors import ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.models import Model
from poetfw.training import Reference, Sgd, TrainedNames, make_program

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
from torch.nn import functional as F  # noqa: E402

from unit.importers.beside_torch import train_beside  # noqa: E402
from workloads.own_tensors import NETWORKS  # noqa: E402

BATCH = 4
TRAINING = torch.onnx.TrainingMode.TRAINING
PLAIN = {"dynamo": False, "do_constant_folding": False, "training": TRAINING}
FOLDED = {"dynamo": False, "training": TRAINING}
ALL = ("*",)


def exported(name: str, folder: Path, arguments: dict[str, Any]) -> tuple[Any, Path]:
    make, shape = NETWORKS[name]
    torch.manual_seed(1)
    net, path = make().train(), folder / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            *(copy.deepcopy(net), (torch.randn(BATCH, *shape),), path), verbose=False, **arguments
        )
    return net, path


def expect_the_same(name: str, net: Any, model: Model) -> None:
    assert model.warnings == ()
    program = make_program(
        model.graph, model.loss, Sgd(learning_rate=0.1, momentum=0.9), model.frozen
    )
    random = np.random.default_rng(2)
    samples = (
        (
            random.standard_normal((BATCH, *NETWORKS[name][1])).astype(np.float32),
            random.integers(0, 10, BATCH),
        )
        for _ in range(6)
    )
    train_beside(
        *(Reference(program, model.weights), net, 0.1, samples),
        lambda x, y: F.cross_entropy(net(x), y),
        **{"rel": 2e-5, "abs": 1e-6},
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("group norm", PLAIN),
        ("RMS norm", PLAIN),
        ("weight norm of sequences", PLAIN),
        ("causal mask", PLAIN),  # its buffer is called bias, and compared with 0
        ("equal weights", {"dynamo": False}),
        ("detached", {"optimize": False}),
        ("group norm", {}),
        ("Sobel", {}),  # has no bias that the exporter could leave out
    ],
)
def test_what_the_file_tells_is_trained_unasked(
    name: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    net, path = exported(name, tmp_path, arguments)
    expect_the_same(name, net, import_onnx(path, BATCH))


@pytest.mark.parametrize(
    ("name", "arguments", "asked", "chosen"),
    [
        ("temperature", PLAIN, "'1.temperature'", TrainedNames(ALL)),
        ("mean and deviation", PLAIN, "'body.0.mean', 'body.0.std'", TrainedNames((), ("*.0.*",))),
        ("names like an exporter's", PLAIN, "'head_output_1', 'Consta", TrainedNames(ALL)),
        ("masked weights", PLAIN, "'0.weight', '0.mask'", TrainedNames(ALL, ("0.mask",))),
        ("frozen batch norm", PLAIN, "'body.4.weight', ", TrainedNames(ALL, ("body.4.*",))),
        ("blur called weight", PLAIN, "'body.4.weight'", TrainedNames(ALL, ("body.4.*",))),
        ("GRU with a trained start", PLAIN, "'h0'", TrainedNames(ALL)),
        (  # stored once
            *("shift and mean of zeros", {"dynamo": False}, "'1.shift', '1.mean'"),
            TrainedNames(ALL, ("1.mean",)),
        ),
        ("sinusoidal position", {}, "'slice_1' \\(of 'pe'\\)", TrainedNames(ALL, ("pe",))),
    ],
)
def test_what_the_file_does_not_tell_is_asked_for(
    name: str, arguments: dict[str, Any], asked: str, chosen: TrainedNames, tmp_path: Path
) -> None:
    net, path = exported(name, tmp_path, arguments)
    with pytest.raises(ModelError, match=f"whether these are weights or constants: {asked}") as e:
        import_onnx(path, BATCH)
    assert any("--train '*'" in remedy for remedy in e.value.try_next)
    expect_the_same(name, net, import_onnx(path, BATCH, chosen=chosen))


@pytest.mark.parametrize("name", ["viewed layer scale", "masked weights of sequences"])
def test_what_the_exporter_calculated_is_not_taken_as_it_is_by_a_word_for_all(
    name: str, tmp_path: Path
) -> None:
    _, path = exported(name, tmp_path, FOLDED)
    with pytest.raises(ModelError, match="PyTorch's exporter calculated these") as e:
        import_onnx(path, BATCH, chosen=TrainedNames(ALL))
    assert "do_constant_folding=False" in e.value.try_next[0]


def test_a_weight_that_stands_for_an_equal_buffer_is_refused(tmp_path: Path) -> None:
    _, path = exported("shift and mean of zeros", tmp_path, {})
    with pytest.raises(ModelError, match=r"share '1\.shift': the network has them apart"):
        import_onnx(path, BATCH)


@pytest.mark.parametrize(("name", "lost"), [("trained Swish", "mul"), ("detached", "detach")])
def test_calls_that_the_exporter_left_out_are_named(name: str, lost: str, tmp_path: Path) -> None:
    _, path = exported(name, tmp_path, {})
    with pytest.raises(ModelError, match=f"has left out '{lost}'") as e:
        import_onnx(path, BATCH)
    assert "optimize=False" in e.value.try_next[0]


def test_a_power_that_may_be_a_weight_is_refused_where_poetfw_trains_none(tmp_path: Path) -> None:
    _, path = exported("trained power", tmp_path, PLAIN)
    with pytest.raises(ModelError, match=r"'body\.1\.p' may be a weight, and poetfw does not"):
        import_onnx(path, BATCH, chosen=TrainedNames(ALL))


@pytest.mark.parametrize("arguments", [PLAIN, {}])
def test_a_row_of_padding_is_not_trained_where_it_is_noted_and_asked_for_where_not(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    nn, path = torch.nn, tmp_path / "net.onnx"
    net = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 3))
    ids = torch.randint(0, 9, (BATCH, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net.train(), (ids,), path, verbose=False, **arguments)
    chosen = TrainedNames()
    if arguments:
        with pytest.raises(ModelError, match=r"row of zeros, .*: '0\.weight'"):
            import_onnx(path, BATCH, chosen=TrainedNames(ALL))
        chosen = TrainedNames(("*", "0.weight"))
    (lookup,) = (
        op for op in import_onnx(path, BATCH, chosen=chosen).graph.ops if op.kind == "embedding"
    )
    assert lookup.attributes.get("padding") == (None if arguments else 0)


def attention(*, rate: float) -> onnx.ModelProto:
    """A node of dropout as PyTorch writes it in attention: with a rate, and without a mode."""
    graph = helper.make_graph(
        [
            helper.make_node("Dropout", ["x", "p"], ["d"]),
            helper.make_node("Gemm", ["d", "weight"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (BATCH, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (BATCH, 3))],
        [
            numpy_helper.from_array(np.float32(rate), "p"),
            numpy_helper.from_array(np.random.default_rng(0).random((6, 3), np.float32), "weight"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(("producer", "dropouts"), [("pytorch", 1), ("another", 0)])
def test_dropout_without_a_mode_drops_if_pytorch_wrote_it(
    producer: str, dropouts: int, tmp_path: Path
) -> None:
    model = attention(rate=0.5)
    model.producer_name = producer
    model.graph.node[0].input[1] = "p"
    onnx.save(model, tmp_path / "net.onnx")
    if not dropouts:
        with pytest.raises(ModelError, match="these drop nothing, as in evaluation mode"):
            import_onnx(tmp_path / "net.onnx", BATCH)
    chosen = TrainedNames((), ("p",)) if dropouts else TrainedNames(ALL)
    imported = import_onnx(tmp_path / "net.onnx", BATCH, chosen=chosen)
    assert [op.kind for op in imported.graph.ops].count("dropout") == dropouts
