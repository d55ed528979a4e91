# SPDX-License-Identifier: Apache-2.0
"""Programs as `torch.export.save` writes them, made without PyTorch: to be changed and refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Document = dict[str, Any]


def meta(shape: Sequence[int], dtype: int = 7, *, trained: bool = True) -> Document:
    """What the file says of a tensor."""
    steps = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return {
        "dtype": dtype,
        "sizes": [{"as_int": extent} for extent in shape],
        "requires_grad": trained,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": step} for step in steps],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def node(target: str, output: str, line: str = "", **arguments: Document) -> Document:
    """A node with one result; each argument as the file has it, such as `{"as_int": 1}`."""
    trace = f'  File "/home/author/net.py", line 7, in forward\n    {line}\n' if line else ""
    return {
        "target": f"torch.ops.aten.{target}",
        "inputs": [{"name": name, "arg": arg, "kind": 1} for name, arg in arguments.items()],
        "outputs": [{"as_tensor": {"name": output}}],
        "metadata": {"stack_trace": trace} if trace else {},
        "name": output,
    }


def tensor(name: str) -> Document:
    """An argument that is a tensor."""
    return {"as_tensor": {"name": name}}


def files(
    nodes: Sequence[Document],
    shapes: Mapping[str, Sequence[int]],
    weights: Mapping[str, np.ndarray],
    output: str,
    *,
    x: Sequence[int] = (2, 6),
) -> dict[str, Any]:
    """The members of a file from input x, by their names; JSON as documents, weights as bytes."""
    values = {"x": meta(x, trained=False)}
    values |= {name: meta(shape) for name, shape in shapes.items()}
    values |= {f"p_{name}": meta(value.shape) for name, value in weights.items()}
    specs = [
        {"parameter": {"arg": {"name": f"p_{name}"}, "parameter_name": name}} for name in weights
    ]
    specs.append({"user_input": {"arg": tensor("x")}})
    graph = {
        "inputs": [tensor(name) for name in (*(f"p_{name}" for name in weights), "x")],
        "outputs": [tensor(output)],
        "nodes": list(nodes),
        "tensor_values": values,
        "sym_int_values": {},
    }
    signature = {
        "input_specs": specs,
        "output_specs": [{"user_output": {"arg": tensor(output)}}],
    }
    config = {
        name: {
            "path_name": f"weight_{number}",
            "is_param": True,
            "use_pickle": False,
            "tensor_meta": meta(value.shape),
        }
        for number, (name, value) in enumerate(weights.items())
    }
    return {
        "models/model.json": {
            "graph_module": {"graph": graph, "signature": signature},
            "schema_version": {"major": 8, "minor": 20},
            "opset_version": {"aten": 10},
            "verifiers": ["TRAINING"],
        },
        "data/weights/model_weights_config.json": {"config": config},
        "data/constants/model_constants_config.json": {"config": {}},
        "byteorder": b"little",
        **{
            f"data/weights/weight_{number}": value.astype("<f4").tobytes()
            for number, value in enumerate(weights.values())
        },
    }


def network() -> dict[str, Any]:
    """Two linear layers with a ReLU between them."""
    numbers = np.random.default_rng(3)
    weights = {
        "first.weight": numbers.normal(size=(5, 6)),
        "first.bias": numbers.normal(size=5),
        "last.weight": numbers.normal(size=(3, 5)),
    }
    nodes = [
        node(
            "linear.default",
            "a",
            input=tensor("x"),
            weight=tensor("p_first.weight"),
            bias=tensor("p_first.bias"),
        ),
        node("relu.default", "b", "return self.last(F.relu(x))", self=tensor("a")),
        node("linear.default", "y", input=tensor("b"), weight=tensor("p_last.weight")),
    ]
    return files(nodes, {"a": (2, 5), "b": (2, 5), "y": (2, 3)}, weights, "y")


def packed(members: Mapping[str, Any], folder: str = "net/") -> bytes:
    """The bytes of a file with these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            archive.writestr(folder + name, raw)
    return stream.getvalue()


def write(path: Path, members: Mapping[str, Any]) -> Path:
    """Write a file with these members."""
    path.write_bytes(packed(members))
    return path
