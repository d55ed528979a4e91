# SPDX-License-Identifier: Apache-2.0
"""Data sets: unknown ones, and NPZ files that are wrong in every way."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from invalid.case import Case, cases
from invalid.makers import FEATURES, SAMPLES, good_arrays, network, npz, npz_bytes

BUILD = (
    "build --board linux --model net.onnx --data data.npz --batch 4 --ram 1000000 --generate-only"
)


def set_to(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: arrays.update(values)


def label(value: int) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays["y"][7] = value

    return change


def feature(value: float) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays["x"] = arrays["x"].astype(np.float64)
        arrays["x"][7, 1] = value

    return change


def bomb(folder: Path) -> None:
    """A few kilobytes that unpack to 2 GB of zeros."""
    (folder / "net.onnx").write_bytes(network().SerializeToString())
    with zipfile.ZipFile(
        folder / "data.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9
    ) as archive:
        archive.writestr("y.npy", b"")
        with archive.open("x.npy", "w", force_zip64=True) as stream:
            for _ in range(1025):
                stream.write(bytes(1 << 20))


def lying_header(folder: Path) -> None:
    """An array that claims terabytes and has a hundred bytes."""
    (folder / "net.onnx").write_bytes(network().SerializeToString())
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**11, FEATURES)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(folder / "data.npz", "w") as archive:
        archive.writestr("x.npy", stream.getvalue() + bytes(100))
        archive.writestr("y.npy", stream.getvalue() + bytes(100))


def zipped(**arrays: np.ndarray) -> Callable[[Path], None]:
    """Arrays in a file that is far smaller than they are."""

    def make(folder: Path) -> None:
        (folder / "net.onnx").write_bytes(network().SerializeToString())
        np.savez_compressed(folder / "data.npz", **arrays)

    return make


def corrupt_lzma(folder: Path) -> None:
    npz(lambda arrays: None)(folder)
    with (
        zipfile.ZipFile(folder / "data.npz") as archive,
        zipfile.ZipFile(folder / "lzma.npz", "w", zipfile.ZIP_LZMA) as other,
    ):
        for name in archive.namelist():
            other.writestr(name, archive.read(name))
    content = bytearray((folder / "lzma.npz").read_bytes())
    content[60:90] = b"\xff" * 30
    (folder / "lzma.npz").unlink()
    (folder / "data.npz").write_bytes(content)


CASES = (
    *cases(
        BUILD,
        ("LZMA is corrupt", corrupt_lzma, "data.npz: not an NPZ file, or damaged"),
        (
            "bytes that become 400 MB of float32",
            zipped(x=np.zeros((25_000_000, FEATURES), np.uint8), y=np.zeros(25_000_000, np.uint8)),
            "array x has 400,000,000 bytes, unpacked and as 32-bit numbers",
        ),
        (
            "arrays that are too large together",
            zipped(x=np.zeros((12_500_000, FEATURES), np.uint8), y=np.zeros(20_000_000, np.uint8)),
            "array y has 80,000,000 bytes",
            "are left",
        ),
        (
            "samples that take a block each",
            zipped(x=np.zeros((600_000, FEATURES), np.uint8), y=np.zeros(600_000, np.uint8)),
            "600,000 samples, in blocks of 512 bytes, take 307,200,512 of the 268,435,456",
        ),
        ("data are empty", npz_bytes(lambda b: b""), "data.npz: not an NPZ file"),
        ("data are text", npz_bytes(lambda b: b"x,y\n1,2"), "data.npz: not an NPZ file"),
        ("data are cut short", npz_bytes(lambda b: b[:-99]), "data.npz: not an NPZ file"),
        (
            "data are damaged",
            npz_bytes(lambda b: b[:300] + bytes([b[300] ^ 1]) + b[301:]),
            "data.npz: not an NPZ file, or damaged: Bad CRC-32",
        ),
        ("no y", npz(lambda arrays: arrays.pop("y")), "data.npz: there is no array y"),
        ("no x", npz(lambda arrays: arrays.pop("x")), "data.npz: there is no array x"),
        (
            "x_test without y_test",
            npz(set_to(x_test=good_arrays()["x"])),
            "x_test and y_test must come together",
        ),
        (
            "pickled objects",
            npz(set_to(x=np.array([{}] * SAMPLES, dtype=object))),
            "array x holds Python objects, which poetfw does not unpickle",
        ),
        (
            "features are text",
            npz(set_to(x=np.full((SAMPLES, FEATURES), "a"))),
            "x holds <U1, not numbers",
        ),
        ("data unpack to 1 GB", bomb, "array x has 1,074,790,400 bytes, unpacked"),
        ("array claims terabytes", lying_header, "data.npz:", "do not hold"),
        (
            "features of another shape",
            npz(set_to(x=np.ones((SAMPLES, 5), np.float32))),
            f"x has shape [{SAMPLES}, 5], but model 'net' needs [samples, {FEATURES}]",
        ),
        ("features are one number", npz(set_to(x=np.float32(1))), "x has shape [],"),
        (
            "features are NaN",
            npz(feature(np.nan)),
            "x holds NaN, infinity or numbers beyond float32 in sample 7",
        ),
        ("features beyond float32", npz(feature(1e300)), "beyond float32 in sample 7"),
        ("label out of range", npz(label(3)), "labels from 0 to 3", "classes 0 to 2"),
        ("label below 0", npz(label(-1)), "labels from -1 to 2", "classes 0 to 2"),
        (
            "labels are not whole",
            npz(set_to(y=np.linspace(0, 2, SAMPLES))),
            "y holds float64, but class numbers must be integers",
            "loss mse",
        ),
        (
            "more labels than samples",
            npz(set_to(y=np.zeros(SAMPLES + 1, int))),
            f"y has shape [{SAMPLES + 1}], but {SAMPLES} samples",
        ),
        (
            "no samples",
            npz(set_to(x=np.ones((0, FEATURES), np.float32), y=np.zeros(0, int))),
            "x holds no samples",
        ),
        (
            "no samples to test with",
            npz(set_to(x_test=np.ones((0, FEATURES), np.float32), y_test=np.zeros(0, int))),
            "x_test holds no samples",
        ),
    ),
    Case(
        "unknown data set",
        "build --board linux --data imagenet --generate-only",
        1,
        ("no data set is called 'imagenet'", "digits"),
    ),
    Case(
        "data set file is missing",
        "build --board linux --data none.npz --generate-only",
        1,
        ("none.npz: there is no such file",),
    ),
    Case(
        "data set's path is too long",
        f"build --board linux --data {'n' * 5000}.npz --generate-only",
        1,
        ("File name too long",),
    ),
    Case(
        "built-in data do not fit the model",
        BUILD.replace("data.npz", "digits"),
        1,
        (
            "the digits do not fit model 'net'",
            "64 features",
        ),
        npz(set_to()),
    ),
    Case(
        "fewer samples than a batch",
        BUILD.replace("--batch 4", "--batch 64"),
        1,
        ("there are 32 samples to train with, fewer than the batch of 64",),
        npz(set_to()),
    ),
)
