# SPDX-License-Identifier: Apache-2.0
"""Makes the files of cases: networks, data sets, boards, firmware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from invalid.case import Make
from poetfw.common.resources import boards_dir

FEATURES, HIDDEN, CLASSES = 4, 6, 3
SAMPLES = 40


def text(name: str, content: str | bytes) -> Make:
    """A file of that content."""

    def make(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def both(*makes: Make) -> Make:
    """Everything that each of them makes, in order."""

    def make(folder: Path) -> None:
        for one in makes:
            one(folder)

    return make


# Networks --------------------------------------------------------------------------------------


def network(names: Sequence[str] = ("dense 1", "relu", "dense 2")) -> onnx.ModelProto:
    """A small classifier. Its nodes and weights are called by the given names."""
    random = np.random.default_rng(0)
    first, middle, last = names
    shapes = {
        f"{first} w": (FEATURES, HIDDEN),
        f"{first} b": (HIDDEN,),
        f"{last} w": (HIDDEN, CLASSES),
        f"{last} b": (CLASSES,),
    }
    weights = [
        numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", f"{first} w", f"{first} b"], [f"{first} out"], first),
        helper.make_node("Relu", [f"{first} out"], [f"{middle} out"], middle),
        helper.make_node("Gemm", [f"{middle} out", f"{last} w", f"{last} b"], ["y"], last),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def onnx_file(change: Callable[[onnx.ModelProto], Any], name: str = "net.onnx") -> Make:
    """The network after a change, and a data set that fits it."""

    def make(folder: Path) -> None:
        model = network()
        change(model)
        (folder / name).write_bytes(model.SerializeToString())
        good_data(folder)

    return make


# Data sets -------------------------------------------------------------------------------------


def good_arrays() -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    return {"x": x, "y": np.arange(SAMPLES) % CLASSES}


def good_data(folder: Path) -> None:
    """data.npz, which fits the network."""
    np.savez(folder / "data.npz", **good_arrays())


def npz(change: Callable[[dict[str, Any]], Any]) -> Make:
    """The network, and the data set after a change."""

    def make(folder: Path) -> None:
        (folder / "net.onnx").write_bytes(network().SerializeToString())
        arrays = good_arrays()
        change(arrays)
        np.savez(folder / "data.npz", **arrays)

    return make


def npz_bytes(change: Callable[[bytes], bytes]) -> Make:
    """The network, and the data set's file after a change of its bytes."""

    def make(folder: Path) -> None:
        npz(lambda arrays: None)(folder)
        path = folder / "data.npz"
        path.write_bytes(change(path.read_bytes()))

    return make


# Boards ----------------------------------------------------------------------------------------


def board_file(old: str, new: str, name: str = "mine.toml") -> Make:
    """linux.toml with one text replaced by another."""

    def make(folder: Path) -> None:
        content = (boards_dir() / "linux.toml").read_text()
        assert content.count(old) == 1, f"{old!r} occurs {content.count(old)} times"
        (folder / name).write_text(content.replace(old, new))

    return make


# Firmware --------------------------------------------------------------------------------------

ELF = "build/linux/.pio/build/linux/firmware.elf"


def firmware(script: str) -> Make:
    """A shell script in the place of the compiled firmware."""

    def make(folder: Path) -> None:
        (folder / ELF).write_text(f"#!/bin/sh\n{script}\n")

    return make


DONE = "@done ticks=1 tick_unit=ns high_water=1 stack_high_water=1 read=1 written=1"


def transcript(*lines: str) -> Make:
    """Firmware that prints these lines and ends as if all were well."""
    return firmware("cat <<'END'\n" + "\n".join(lines) + "\nEND")


def changed(name: str, change: Callable[[bytes], bytes]) -> Make:
    """A file of the built project after a change of its bytes."""

    def make(folder: Path) -> None:
        path = folder / "build/linux" / name
        path.write_bytes(change(path.read_bytes()))

    return make


def removed(name: str) -> Make:
    """A file of the built project that is gone."""
    return lambda folder: (folder / "build/linux" / name).unlink()
