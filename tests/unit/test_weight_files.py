# SPDX-License-Identifier: Apache-2.0
"""Files of weights: what is written is read again, and what lies is refused."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pt2
from poetfw.common.errors import DataError, ModelError
from poetfw.importers.onnx import import_onnx
from poetfw.importers.torch_export import import_torch
from poetfw.importers.weight_files import npz_bytes, read_weights, safetensors_bytes
from poetfw.models import Model
from poetfw.planning import BuildSettings, load_model
from poetfw.planning.choices import start_from
from poetfw.runs.trained import FORMATS

ARRAYS = {
    "conv.weight": np.arange(6, dtype=np.float32).reshape(1, 2, 3),
    "gate": np.array(0.5, np.float32),
    "ünï": np.zeros(1, np.float32),
}


def safetensors(header: Any, data: bytes, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_what_is_written_is_read_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"w.{kind}"
    content = FORMATS[kind](ARRAYS, None)
    assert content == FORMATS[kind](ARRAYS, None)
    path.write_bytes(content)
    for name, values in read_weights(path, list(ARRAYS)).items():
        np.testing.assert_array_equal(values, ARRAYS[name])
        assert values.shape == ARRAYS[name].shape


def test_numpy_reads_the_npz(tmp_path: Path) -> None:
    (tmp_path / "w.npz").write_bytes(npz_bytes(ARRAYS))
    with np.load(tmp_path / "w.npz") as archive:
        for name, values in ARRAYS.items():
            np.testing.assert_array_equal(archive[name], values)
    with zipfile.ZipFile(tmp_path / "w.npz") as members:
        assert {info.date_time for info in members.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_safetensors_are_as_their_format_says() -> None:
    """A length in 8 bytes, a JSON header that ends at a multiple of 8, elements end to end."""
    content = safetensors_bytes(ARRAYS)
    (length,) = struct.unpack_from("<Q", content)
    assert length % 8 == 0
    header = json.loads(content[8 : 8 + length])
    assert header["conv.weight"] == {"dtype": "F32", "shape": [1, 2, 3], "data_offsets": [0, 24]}
    assert header["gate"] == {"dtype": "F32", "shape": [], "data_offsets": [24, 28]}
    assert len(content) == 8 + length + 4 * (6 + 1 + 1)


ENTRY: dict[str, Any] = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
LIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "header too small"),
    "header beyond the file": (safetensors({}, b"", 1 << 40), "header too large"),
    "no JSON": (safetensors(b"\xff", b""), "damaged"),
    "no object": (safetensors([], b""), "invalid JSON in header"),
    "overlap": (safetensors({"w": ENTRY, "v": ENTRY}, bytes(8)), "invalid offset for tensor"),
    "bytes behind": (safetensors({"w": ENTRY}, bytes(12)), "file not fully covered"),
    "another's lie": (safetensors({"w": ENTRY, "v": {}}, bytes(8)), "damaged"),
    "no entry": (safetensors({"w": 3}, b""), "damaged"),
    "other type": (
        safetensors({"w": {**ENTRY, "dtype": "F16", "data_offsets": [0, 4]}}, bytes(4)),
        "poetfw reads F32",
    ),
    "end beyond": (safetensors({"w": {**ENTRY}}, bytes(7)), "file not fully covered"),
    "end before start": (
        safetensors({"w": {**ENTRY, "data_offsets": [8, 0]}}, bytes(8)),
        "invalid offset for tensor",
    ),
    "below 0": (
        safetensors({"w": {**ENTRY, "data_offsets": [-8, 0]}}, bytes(8)),
        "expected usize",
    ),
    "another length": (safetensors({"w": {**ENTRY, "shape": [3]}}, bytes(8)), "invalid shape"),
    "huge shape": (safetensors({"w": {**ENTRY, "shape": [1 << 62, 4]}}, bytes(8)), "overflow"),
    "a number that is none": (
        safetensors({"w": {**ENTRY, "shape": [True]}}, bytes(8)),
        "expected usize",
    ),
    "NaN": (
        safetensors({"w": ENTRY}, np.full(2, np.nan, "<f4").tobytes()),
        "hold NaN or infinity",
    ),
}


@pytest.mark.parametrize(("content", "reason"), LIES.values(), ids=LIES)
def test_safetensors_that_lie_are_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_weights(path, ["w"])


def test_pickled_weights_are_never_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"reads weights from \.npz and \.safetensors"):
        read_weights(tmp_path / "w.pt", ["w"])
    np.savez(tmp_path / "w.npz", w=np.array([object()]))
    with pytest.raises(DataError, match="does not unpickle"):
        read_weights(tmp_path / "w.npz", ["w"])


def author_s_weights(model: Model) -> dict[str, np.ndarray]:
    return {entry.name: entry.of(model.weights[entry.tensor]) for entry in model.state_dict}


def test_a_model_starts_from_a_file_of_its_author_s_weights(tmp_path: Path) -> None:
    model = import_torch(pt2.write(tmp_path / "net.pt2", pt2.network()), 2)
    other = {name: values + 1 for name, values in author_s_weights(model).items()}
    path = tmp_path / "w.safetensors"
    path.write_bytes(safetensors_bytes({**other, "unused": np.ones(1, np.float32)}))
    started = author_s_weights(start_from(model, path))
    assert set(started) == {"first.weight", "first.bias", "last.weight"}
    for name, values in started.items():
        np.testing.assert_array_equal(values, other[name])
    path.write_bytes(safetensors_bytes({**other, "first.bias": np.ones((1, 5), np.float32)}))
    with pytest.raises(DataError, match=r"'first.bias' have shape \[1, 5\], but .* has \[5\]"):
        start_from(model, path)
    path.write_bytes(safetensors_bytes({"first.bias": np.ones(5, np.float32)}))
    with pytest.raises(DataError, match=r"holds no weights 'first.weight', 'last.weight'"):
        start_from(model, path)


def test_an_onnx_file_gets_its_trained_weights(tmp_path: Path) -> None:
    """Turned matrices and pairs that poetfw keeps as one tensor included."""
    random = np.random.default_rng(1)
    constants = {
        "w": random.normal(size=(6, 4)),
        **{name: random.random(4) + 0.5 for name in ("scale", "shift", "mean", "variance")},
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node(
                "BatchNormalization",
                ["a", "scale", "shift", "mean", "variance"],
                ["y"],
                training_mode=1,
            ),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    arrays = {name: values + 1 for name, values in author_s_weights(import_onnx(path, 2)).items()}
    assert {name: values.shape for name, values in arrays.items()} == {
        name: values.shape for name, values in constants.items()
    }
    trained = tmp_path / "trained.onnx"
    trained.write_bytes(FORMATS["onnx"](arrays, path))
    for name, values in author_s_weights(import_onnx(trained, 2)).items():
        np.testing.assert_array_equal(values, arrays[name])
    weights = tmp_path / "w.npz"
    weights.write_bytes(npz_bytes(arrays))
    for name, values in author_s_weights(start_from(import_onnx(path, 2), weights)).items():
        np.testing.assert_array_equal(values, arrays[name])


@pytest.mark.parametrize("name", ["net.pt", "net.PTH", "pytorch_model.bin", "net.ckpt"])
def test_pickled_models_are_never_opened(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"are pickled: .* poetfw never reads one"):
        load_model(BuildSettings("linux", str(tmp_path / name)))
