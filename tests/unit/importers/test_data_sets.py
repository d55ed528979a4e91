# SPDX-License-Identifier: Apache-2.0
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import datasets

from poetfw.common.errors import DataError
from poetfw.importers import load_data
from poetfw.importers.digits import load_digits
from poetfw.importers.onnx import import_onnx
from poetfw.importers.split import split
from poetfw.ir import Dtype
from poetfw.models import MODELS, GraphBuilder, Model, build_model
from poetfw.training import Sgd

MLP = build_model("mlp", batch=4)
X = np.random.default_rng(5).standard_normal((20, 64)).astype(np.float32)
Y = np.arange(20, dtype=np.int64) % 10


def regression(outputs: int = 3) -> Model:
    builder = GraphBuilder("line", "x", (4, 64))
    weight = builder.parameter("w", np.ones((outputs, 64), np.float32))
    graph, weights = builder.build(builder.op("linear", "y", (builder.input, weight)))
    return Model(graph, weights, "mse", "a line", Sgd(), 1)


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("name", [*MODELS])
def test_synthetic_data_fit_every_built_in_model(name: str):
    model = build_model(name, batch=4)
    data, again = load_data("synthetic", model), load_data("synthetic", model)
    assert data.x_train.shape[1:] == model.input.shape[1:]
    assert len(data.x_train) >= 3 * model.batch
    assert len(data.x_test) >= 3
    np.testing.assert_array_equal(data.x_train, again.x_train)
    if model.classes is None:
        np.testing.assert_array_equal(data.x_train, data.y_train)
    elif name == "mobilenetv2":  # a sample of each of 1,000 classes would take 600 MB
        assert 8 < len(set(data.y_train)) <= len(data.y_train) / 4
        assert set(data.y_train) == set(data.y_test) == set(range(max(data.y_train) + 1))
    else:
        assert set(data.y_train) == set(range(model.classes))


def test_synthetic_targets_are_a_linear_function_of_the_input():
    data = load_data("synthetic", regression())
    x, y = data.x_train, data.y_train
    weights, *_ = np.linalg.lstsq(x, y, rcond=None)
    np.testing.assert_allclose(data.x_test @ weights, data.y_test, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "name",
    ["digits-cnn", "lenet5", "mlp", "resnet8", "resnet18", "resnet50", "vgg16", "squeeze-excite"],
)
def test_the_digits_fit_every_built_in_model_of_images(name: str):
    model = build_model(name, batch=4)
    data = load_data("digits", model)
    assert data.x_train.shape == (1437, *model.input.shape[1:])
    assert data.x_test.shape == (360, *model.input.shape[1:])
    assert data.x_train.dtype == np.float32
    assert (data.y_train.dtype, data.y_train.shape) == (np.int32, (1437,))
    assert (float(data.x_train.min()), float(data.x_train.max())) == (0.0, 2.0)


@pytest.mark.parametrize("name", ["lstm", "gru", "transformer-tiny"])
def test_the_digits_are_rows_for_models_of_sequences(name: str):
    rows = load_data("digits", build_model(name, batch=4)).x_train
    np.testing.assert_array_equal(rows.reshape(-1, 64), load_data("digits", MLP).x_train)


def test_the_digits_are_split_evenly_and_always_alike():
    first, again = load_data("digits", MLP), load_data("digits", MLP)
    np.testing.assert_array_equal(first.x_train, again.x_train)
    np.testing.assert_array_equal(first.y_test, again.y_test)
    shares = np.bincount(first.y_test) / (np.bincount(first.y_train) + np.bincount(first.y_test))
    assert shares == pytest.approx(0.2, abs=0.01)


def test_enlarged_digits_are_the_same_image_in_every_channel():
    small = load_data("digits", build_model("digits-cnn", batch=4)).x_test
    large = load_data("digits", build_model("resnet8", batch=4)).x_test
    for channel in range(3):
        np.testing.assert_array_equal(large[:, channel, ::4, ::4], small[:, 0])
    bordered = load_data("digits", build_model("lenet5", batch=4)).x_test
    np.testing.assert_array_equal(bordered[:, :, 3:26:3, 3:26:3], small)
    assert not bordered[:, :, [0, 1, 26, 27]].any()


def test_the_digits_become_one_hot_for_mse():
    data = load_data("digits", regression(12))
    assert data.y_train.dtype == np.float32
    assert data.y_train.shape == (1437, 12)
    np.testing.assert_array_equal(data.y_train.sum(axis=1), 1)
    classes = load_data("digits", MLP).y_train
    np.testing.assert_array_equal(data.y_train.argmax(axis=1), classes)


def test_the_digits_need_ten_outputs():
    with pytest.raises(DataError, match="has 10 classes, but model 'line' gives"):
        load_data("digits", regression(9))


def test_the_digits_need_an_input_they_fit():
    builder = GraphBuilder("wide", "x", (4, 1, 8, 9))
    graph, weights = builder.build(builder.op("relu", "y", (builder.input,)))
    with pytest.raises(DataError, match="the digits do not fit model 'wide'"):
        load_data("digits", Model(graph, weights, "mse", "", Sgd(), 1))


def test_an_npz_file_is_split_or_taken_as_it_is_split(tmp_path: Path):
    data = load_data(save(tmp_path, x=X, y=Y), MLP)
    assert (len(data.x_train), len(data.x_test)) == (16, 4)
    together = np.concatenate([data.x_train, data.x_test])
    assert {row.tobytes() for row in together} == {row.tobytes() for row in X}
    data = load_data(str(save(tmp_path, x=X, y=Y, x_test=X[:3], y_test=Y[:3])), MLP)
    np.testing.assert_array_equal(data.x_train, X)
    np.testing.assert_array_equal(data.y_test, Y[:3])


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.int64, ">f4", ">i2"])
def test_any_numbers_become_float32(tmp_path: Path, dtype: Any):
    x = np.arange(20 * 64).reshape(20, 64) % 100
    data = load_data(save(tmp_path, x=x.astype(dtype), y=Y), MLP)
    assert data.x_train.dtype == np.float32
    np.testing.assert_array_equal(data.x_train, x[split(Y, 20)[0]])


def test_fortran_order_and_compression_are_read(tmp_path: Path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=np.asfortranarray(X), y=Y, x_test=X[:1], y_test=Y[:1])
    np.testing.assert_array_equal(load_data(path, MLP).x_train, X)


def test_targets_of_mse_are_floats_of_the_outputs_shape(tmp_path: Path):
    model = regression()
    data = load_data(save(tmp_path, x=X, y=np.ones((20, 3), int)), model)
    assert data.y_train.dtype == np.float32
    with pytest.raises(DataError, match=r"need \[20, 3\]"):
        load_data(save(tmp_path, x=X, y=np.ones(20)), model)


NAN_X, INF_X, BIG_X = X.copy(), X.copy(), X.astype(np.float64)
NAN_X[7, 3], INF_X[0, 0], BIG_X[19, 63] = np.nan, -np.inf, 1e300


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "there is no array y; it holds 'x'"),
        ({"images": X, "labels": Y}, "there is no array x and no array y"),
        ({}, "there is no array x and no array y; it holds nothing"),
        ({"x": X, "y": Y, "x_test": X}, "x_test and y_test must come together"),
        (
            {"x": X[:, :63], "y": Y},
            r"x has shape \[20, 63\], but model 'mlp' needs \[samples, 64\]",
        ),
        ({"x": X.reshape(20, 8, 8), "y": Y}, r"x has shape \[20, 8, 8\]"),
        ({"x": np.float32(1), "y": Y}, r"x has shape \[\]"),
        ({"x": NAN_X, "y": Y}, "x holds NaN, infinity or numbers beyond float32 in sample 7"),
        ({"x": INF_X, "y": Y}, "in sample 0"),
        ({"x": BIG_X, "y": Y}, "in sample 19"),
        ({"x": X.astype(complex), "y": Y}, "x holds complex128, not numbers"),
        ({"x": X.astype(str), "y": Y}, "x holds <U32, not numbers"),
        ({"x": X.astype(object), "y": Y}, "array x holds Python objects"),
        ({"x": X, "y": Y[:19]}, r"y has shape \[19\], but 20 samples"),
        ({"x": X, "y": Y.reshape(20, 1)}, r"y has shape \[20, 1\]"),
        ({"x": X, "y": Y + 1}, "y holds labels from 1 to 10, but model 'mlp' has classes 0 to 9"),
        ({"x": X, "y": Y - 1}, "y holds labels from -1 to 8"),
        ({"x": X, "y": Y.astype(np.uint64) + 2**63}, "y holds labels from 9223372036854775808"),
        ({"x": X, "y": Y.astype(float)}, "y holds float64, but class numbers must be integers"),
        ({"x": X[:0], "y": Y[:0]}, "x holds no samples"),
        ({"x": X, "y": Y, "x_test": X[:0], "y_test": Y[:0]}, "x_test holds no samples"),
        ({"x": X[:4], "y": Y[:4]}, "3 samples to train with, fewer than the batch of 4"),
        ({"x": X[:1], "y": Y[:1]}, "0 samples to train with, fewer than the batch of 4"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str):
    path = save(tmp_path, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        load_data(path, MLP)
    assert str(caught.value).startswith(f"{path}: ")


def test_an_unknown_data_set_lists_the_known_ones():
    with pytest.raises(DataError, match=r"^no data set is called 'cifar'$") as caught:
        load_data("cifar", MLP)
    assert caught.value.try_next[0] == "use one of: digits, synthetic"


def test_a_name_that_no_file_can_have_is_refused():
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        load_data("x" * 5000, MLP)


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="there is no such file"):
        load_data(tmp_path / "none.npz", MLP)
    with pytest.raises(DataError, match="there is no such file"):
        load_data(tmp_path / "none.csv.gz", MLP)


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npy_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def archive(folder: Path, x: bytes) -> Path:
    path = folder / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", x)
        file.writestr("y.npy", npy(Y))
    return path


@pytest.mark.parametrize(
    "x",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00" + bytes(100),
        npy(X)[:-1],
        npy(X) + b"\0",
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 64)}\n"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-20, 64)}\n"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': 'x'}\n"),
        npy_header("{'descr': 'what', 'fortran_order': False, 'shape': (20, 64)}\n"),
        npy_header("__import__('os').system('true')\n"),
        npy_header("{" * 200),
        pickle.dumps(X),
    ],
    ids=range(12),
)
def test_a_malformed_array_is_refused(tmp_path: Path, x: bytes):
    with pytest.raises(DataError, match=r"data\.npz: "):
        load_data(archive(tmp_path, x), MLP)


def test_an_array_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("poetfw.importers.npz.LARGEST_BYTES", 1000)
    with pytest.raises(DataError, match=r"array x has 5,248 bytes, unpacked and as"):
        load_data(archive(tmp_path, npy(X)), MLP)


def test_damaged_files_are_refused_wherever_the_damage_is(tmp_path: Path):
    path = archive(tmp_path, npy(X))
    content = path.read_bytes()
    refused = 0
    for position in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            load_data(path, MLP)
        except DataError:
            refused += 1
        path.write_bytes(content[:position])
        with pytest.raises(DataError):
            load_data(path, MLP)
    assert refused > 40


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path):
    path = tmp_path / "data.npz"
    for content in (b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), npy(X), bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"data\.npz: "):
            load_data(path, MLP)


def test_an_imported_model_trains_with_data_of_its_own_shape(tmp_path: Path):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 5])],
        [helper.make_tensor_value_info("y", 1, ["n", 3])],
        [onnx.numpy_helper.from_array(np.ones((5, 3), np.float32), "w")],
    )
    model_path = tmp_path / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model_path.write_bytes(model.SerializeToString())
    path = save(tmp_path, x=X[:, :5], y=Y % 3)
    assert load_data(path, import_onnx(model_path, 4)).x_train.shape == (16, 5)


def test_the_digits_are_those_of_scikit_learn():
    images, labels = datasets.load_digits(return_X_y=True)
    x, y = load_digits(MLP)
    np.testing.assert_array_equal(x * 8, images)
    np.testing.assert_array_equal(y, labels)


def ids_model() -> Model:
    builder = GraphBuilder("ids", "ids", (2, 3), Dtype.I32)
    table = builder.parameter("table", np.ones((4, 2), np.float32))
    rows = builder.op("embedding", "rows", (builder.input, table))
    flat = builder.op("reshape", "flat", (rows,), {"shape": (2, 6)})
    return Model(*builder.build(flat), loss="softmax_cross_entropy", description="")


def test_ids_are_integers(tmp_path: Path) -> None:
    path = tmp_path / "ids.npz"
    x, y = np.arange(30).reshape(10, 3) % 4, np.arange(10) % 6
    np.savez(path, x=x, y=y)
    data = load_data(path, ids_model())
    assert data.x_train.dtype == np.int32
    for wrong, reason in (
        (x.astype(np.float32), "the model reads integer ids"),
        (x - 1, "ids from -1 to 2, but model 'ids' has 0 to 3"),
        (x + 1, "ids from 1 to 4, but"),
        (x + 2**32, "ids from 4294967296"),
    ):
        np.savez(path, x=wrong, y=y)
        with pytest.raises(DataError, match=reason):
            load_data(path, ids_model())
    with pytest.raises(DataError, match="the digits do not fit"):
        load_data("digits", ids_model())
