# SPDX-License-Identifier: Apache-2.0
"""Every format that poetfw reads: a good file of it, made anew for each case, and then changed.

A maker gets a seeded random number generator and the folder the commands run in; the same seed
makes the same files. About one case in four is left as it is, so that odd but legal ones go all
the way: from a network to its training step, its schedule problem and its storage image.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import pt2
from fuzz import mutate
from invalid.makers import DONE, good_data, network
from made import answer
from poetfw.boards import list_boards
from poetfw.common.resources import boards_dir
from poetfw.comparisons import sweep
from poetfw.comparisons.comparison import Trial
from poetfw.comparisons.sweep import Grid
from poetfw.schedule import (
    SCHEDULERS,
    BoundCovers,
    Node,
    ScheduleProblem,
    Storage,
    Transfer,
    checkpoint_all_schedule,
    problem_to_json,
    schedule_to_json,
)

Run = Callable[[list[str]], tuple[int, str, str]]


@dataclass(frozen=True)
class Place:
    """Where a case is made.

    Attributes:
        folder: where its commands run.
        built: a project to copy; its firmware is a script that prints `firmware.elf.txt`.
    """

    folder: Path
    built: Path


@dataclass(frozen=True)
class Case:
    """What is run in the folder.

    Attributes:
        commands: what follows `poetfw`, one after the other.
        outs: files and folders that a command that succeeds may write, and `run` always may.
    """

    commands: list[list[str]]
    outs: tuple[str, ...] = ()


Maker = Callable[[Random, Place], Case]

BUILD = (
    "build --board linux --model net.onnx --data data.npz --batch 4 --ram 4000000 "
    "--scheduler checkpoint-all --generate-only"
).split()
PROJECT = "build/linux"
FIRMWARE = f"{PROJECT}/.pio/build/linux/firmware.elf"


def build_project(folder: Path, run: Run) -> Path:
    """A project whose firmware is a script, for cases to copy."""
    folder.mkdir()
    os.chdir(folder)
    (folder / "net.onnx").write_bytes(network().SerializeToString())
    good_data(folder)
    code, _, err = run(BUILD)
    assert code == 0, err
    report = folder / PROJECT / "build.json"
    report.write_text(json.dumps(json.loads(report.read_text()) | {"elf": FIRMWARE}))
    firmware = folder / FIRMWARE
    firmware.parent.mkdir(parents=True)
    firmware.write_text('#!/bin/sh\nexec cat "$0.txt"\n')
    firmware.chmod(0o755)
    Path(f"{firmware}.txt").write_text("\n".join(_transcript()) + "\n")
    return folder


def _changes(random: Random) -> int:
    return random.choice((0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 5, 12))


def _json(random: Random) -> list[str]:
    return ["--json"] if random.random() < 0.7 else []


# ONNX ------------------------------------------------------------------------------------------


def make_onnx(random: Random, place: Place) -> Case:
    model = network() if random.random() < 0.3 else _image_network(random)
    features = tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)[1:]
    changes = _changes(random)
    for _ in range(changes):
        if random.random() < 0.5:
            _change_onnx(random, model)
        else:
            mutate.message(random, model, 1)
    content = model.SerializeToString()
    if random.random() < 0.08:
        content = mutate.content(random, content, changes)
    (place.folder / "net.onnx").write_bytes(content)
    (place.folder / "w.bin").write_bytes(bytes(4096))
    (place.folder / "loop").symlink_to("loop")
    (place.folder / "out.bin").symlink_to("../outside/sentinel")
    if random.random() < 0.6:
        batch = random.choice(("1", "2", "7"))
        command = f"schedule --board linux --model net.onnx --batch {batch}".split()
        return Case([[*command, "--scheduler", "checkpoint-all", *_json(random)]])
    numbers = np.random.default_rng(random.randrange(2**32))
    x = numbers.normal(size=(10, *features)).astype(np.float32)
    np.savez(place.folder / "data.npz", x=x, y=numbers.integers(0, 3, 10))
    return Case([[*BUILD, *_json(random)]], (PROJECT, "build"))


def _image_network(random: Random) -> onnx.ModelProto:
    """Convolutions and what may come between them, in an order that the seed decides."""
    numbers = np.random.default_rng(random.randrange(2**32))
    channels, side = random.choice((1, 2, 4)), random.choice((4, 5, 8))
    shape = [channels, side, side]
    weights: list[TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    last = "x"

    def constant(values: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values), f"c{len(weights)}"))
        return weights[-1].name

    def node(kind: str, *more: str, **attributes: Any) -> None:
        nonlocal last
        name = f"{kind.lower()} {len(nodes)}" if random.random() < 0.8 else ""
        out = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, [last, *more], [out], name, **attributes))
        last = out

    for _ in range(random.randrange(1, 5)):
        match random.randrange(9):
            case 0 | 1 | 2:
                filters = random.choice((1, 2, 4))
                kernel = random.choice((1, 3))
                w = numbers.normal(size=(filters, shape[0], kernel, kernel)).astype(np.float32)
                pads = [kernel // 2] * 4
                node("Conv", constant(w), kernel_shape=[kernel] * 2, pads=pads, group=1)
                shape[0] = filters
            case 3:
                parts = [numbers.random(shape[0]).astype(np.float32) for _ in range(4)]
                node("BatchNormalization", *map(constant, parts), training_mode=1)
            case 4 if shape[1] > 1:
                kind = random.choice(("MaxPool", "AveragePool"))
                node(kind, kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 0, 0])
                shape[1:] = [shape[1] - 1, shape[2] - 1]
            case 5:
                node("Add", last)
            case 6 if shape[0] > 1:
                bounds = ([0], [random.choice((1, 2**63 - 1))], [1])
                node("Slice", *(constant(np.asarray(b, np.int64)) for b in bounds))
                shape[0] = min(shape[0], bounds[1][0])
            case 7:
                node("Clip", constant(np.float32(0)), constant(np.float32(6)))
            case _:
                node("Relu")
    match random.randrange(4):
        case 0:
            node("GlobalAveragePool")
            shape[1:] = [1, 1]
            node("Flatten", axis=1)
        case 1:
            node("ReduceMean", axes=[2, 3], keepdims=0)
            shape[1:] = [1, 1]
        case 2:
            node("Reshape", constant(np.asarray([-1, int(np.prod(shape))], np.int64)))
        case _:
            node("Flatten", axis=1)
    w = numbers.normal(size=(3, int(np.prod(shape)))).astype(np.float32)
    node("Gemm", constant(w), constant(np.zeros(3, np.float32)), transB=1)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, side, side])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", 3])],
        weights,
    )
    opset = helper.make_opsetid("", random.choice((14, 17)))
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


_KINDS = (
    "Add AveragePool BatchNormalization Clip Concat Constant Conv Dropout Flatten Gather Gemm "
    "GlobalAveragePool Identity LogSoftmax MatMul MaxPool ReduceMean Relu Reshape Shape Slice "
    "Softmax Split Unsqueeze If Loop Scan"
).split()


def _change_onnx(random: Random, model: onnx.ModelProto) -> None:
    """A change that knows what the fields of a model are for."""
    graph = model.graph
    if not graph.node:
        return
    node = random.choice(graph.node)
    names = [t.name for t in graph.initializer] + [o for n in graph.node for o in n.output]
    match random.randrange(11):
        case 0 if node.attribute:
            random.choice(node.attribute).ref_attr_name = mutate.text(random)
        case 1 if node.attribute:
            attribute = random.choice(node.attribute)
            bounded = [min(max(mutate.integer(random), -(2**63)), 2**63 - 1) for _ in range(4)]
            if attribute.ints:
                attribute.ints[random.randrange(len(attribute.ints))] = bounded[0]
            else:
                attribute.i = bounded[0]
        case 2:
            node.op_type = random.choice((*_KINDS, mutate.text(random)))
        case 3 if node.input:
            node.input[random.randrange(len(node.input))] = random.choice([*names, "x", ""])
        case 4 if graph.initializer:
            tensor = random.choice(graph.initializer)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            places = ("w.bin", "loop", "loop/w.bin", "out.bin", "../outside/sentinel", ".", "")
            tensor.external_data.add(key="location", value=random.choice(places))
            for key in ("offset", "length"):
                if random.random() < 0.5:
                    number = str(mutate.integer(random) if random.random() < 0.7 else 96)
                    tensor.external_data.add(key=key, value=number[:4000])
        case 5 if graph.initializer:
            tensor = random.choice(graph.initializer)
            if tensor.dims:
                tensor.dims[random.randrange(len(tensor.dims))] = random.choice(mutate.INTEGERS)
        case 6:
            at = random.randrange(len(graph.node) + 1)
            source = random.choice([*names, "x"])
            kind = random.choice((*_KINDS, "Mish", mutate.text(random)))
            graph.node.insert(at, helper.make_node(kind, [source], [f"new{at}"]))
            target = random.choice(graph.node)
            if target.input:
                target.input[0] = f"new{at}"
        case 7:
            copies = random.choice((2, 30, 300))
            graph.node.extend([node] * copies)
            for number, copied in enumerate(graph.node[-copies:]):
                copied.output[:] = [f"copy {number} {out}" for out in copied.output]
        case 8:
            name = mutate.text(random)
            for other in graph.node:
                other.name = name
        case 9 if graph.initializer:
            tensor = random.choice(graph.initializer)
            shape = [random.randrange(1, 4) for _ in range(random.randrange(5))]
            kind = random.choice((np.float32, np.float64, np.int64, np.float16))
            tensor.CopyFrom(numpy_helper.from_array(np.ones(shape, kind), tensor.name))
        case _:
            dims = graph.input[0].type.tensor_type.shape.dim if graph.input else ()
            if dims:
                random.choice(dims).dim_value = random.choice(mutate.INTEGERS)


# torch.export ----------------------------------------------------------------------------------


def make_pt2(random: Random, place: Place) -> Case:
    """A program whose nodes a seed decides, changed in its JSON, its bytes or its members."""
    members = pt2.network() if random.random() < 0.3 else _program(random)
    changes = _changes(random)
    for _ in range(changes):
        name = random.choice(sorted(members))
        match random.randrange(8):
            case 0:
                members.pop(name)
            case 1:
                members[random.choice(("../x", f"x{mutate.text(random)}", name))] = members[name]
            case 2:
                raw = members[name]
                raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
                members[name] = mutate.content(random, raw)
            case _:
                name = "models/model.json" if random.random() < 0.8 else name
                if not isinstance(members.get(name, b""), bytes):
                    members[name] = mutate.document(random, members[name], 1)
        if not members:
            break
    folder = random.choice(("net/", "net/", "net/", "a/b/", "", "/", f"x{mutate.text(random)}"))
    with warnings.catch_warnings(action="ignore"):  # of members that share a name
        content = pt2.packed(members, folder if changes else "net/")
    if changes and random.random() < 0.1:
        content = mutate.content(random, content)
    (place.folder / "net.pt2").write_bytes(content)
    batch = random.choice(("1", "2", "7"))
    command = f"schedule --board linux --model net.pt2 --batch {batch}".split()
    return Case([[*command, "--scheduler", "checkpoint-all", *_json(random)]])


def _program(random: Random) -> dict[str, Any]:
    """Operators on sequences [2, 3, 6], one behind the other, with the arguments they may have."""
    nodes, shape, last, shapes = [], (2, 3, 6), "x", {}
    weights = {"w": np.ones((3, 6)), "k": np.ones((3, 3, 1)), "c": np.ones(3)}
    integers = (0, 1, 1, 2, 2, 3, -1, -2, *mutate.INTEGERS[:4])

    def numbers(count: int) -> dict[str, Any]:
        return {"as_ints": [random.choice(integers) for _ in range(count)]}

    for index in range(random.randrange(1, 6)):
        name, x = f"n{index}", pt2.tensor(last)
        one = {"as_int": random.choice(integers)}
        made = {
            "relu.default": {"self": x},
            "silu_.default": {"self": x},
            "softmax.int": {"self": x, "dim": one},
            "mul.Tensor": {"self": x, "other": random.choice((one, pt2.tensor("p_w"), x))},
            "add.Tensor": {"self": x, "other": pt2.tensor("p_w"), "alpha": one},
            "conv1d.default": {"input": x, "weight": pt2.tensor("p_k"), "padding": numbers(1)},
            "group_norm.default": {"input": x, "num_groups": one, "weight": pt2.tensor("p_c")},
            "transpose.int": {"self": x, "dim0": one, "dim1": {"as_int": -1}},
            "slice.Tensor": {"self": x, "dim": one, "start": one, "step": one},
            "mean.dim": {"self": x, "dim": numbers(1), "keepdim": {"as_bool": True}},
            "pad.default": {"self": x, "pad": numbers(2), "mode": {"as_string": "reflect"}},
            "max_pool1d.default": {"self": x, "kernel_size": numbers(1), "stride": numbers(1)},
            "cat.default": {"tensors": {"as_tensors": [{"name": last}, {"name": "x"}]}, "dim": one},
            "matmul.default": {"self": x, "other": pt2.tensor("x")},
            "scaled_dot_product_attention.default": {"query": x, "key": x, "value": x},
        }
        target = random.choice(sorted(made))
        nodes.append(pt2.node(target, name, "y = f(x)", **made[target]))
        shapes[name], last = shape, name
    total = {"self": pt2.tensor(last), "dim": {"as_ints": [2]}}
    nodes.append(pt2.node("sum.dim_IntList", "y", **total))
    return pt2.files(nodes, {**shapes, "y": shape[:2]}, weights, "y", x=shape)


# ONNX, node by node ------------------------------------------------------------------------------


def make_nodes(random: Random, place: Place) -> Case:
    """Nodes of any operator, whose inputs and attributes are as many and of the types it has."""
    model = _image_network(random)
    added = min(_changes(random), 4)
    if added:
        model.opset_import[0].version = random.choice((13, 17, 18, 21))
    for number in range(added):
        _add_node(random, model, f"added {number}")
    (place.folder / "net.onnx").write_bytes(model.SerializeToString())
    command = "schedule --board linux --model net.onnx --batch 2 --scheduler checkpoint-all".split()
    return Case([[*command, *_json(random)]])


_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def _add_node(random: Random, model: onnx.ModelProto, name: str) -> None:
    graph, version = model.graph, model.opset_import[0].version
    kind = random.choice(_KINDS if random.random() < 0.5 else _OPERATORS)
    if not onnx.defs.has(kind, version):
        return
    schema = onnx.defs.get_schema(kind, version)
    at = random.randrange(len(graph.node))
    values = ["x", *(out for node in graph.node[:at] for out in node.output)]
    inputs = [random.choice(values)] if schema.min_input else []
    while len(inputs) < schema.min_input or (
        len(inputs) < min(schema.max_input, 5) and random.random() < 0.5
    ):
        if random.random() < 0.7:
            constant = _constant(random)
            constant.name = f"{name} input {len(inputs)}"
            graph.initializer.append(constant)
            inputs.append(constant.name)
        else:
            inputs.append(random.choice([*values, ""]))
    outputs = [
        f"{name} output {i}" for i in range(max(schema.min_output, random.choice((1, 1, 3))))
    ]
    node = helper.make_node(kind, inputs, outputs, name)
    for attribute in schema.attributes.values():
        if attribute.required or random.random() < 0.4:
            node.attribute.append(_attribute(random, attribute.name, int(attribute.type.value)))
    target = random.choice(graph.node[at:])
    graph.node.insert(at, node)
    if random.random() < 0.3:  # rules look whether a bias follows
        bias = _constant(random)
        bias.name = f"{name} bias"
        graph.initializer.append(bias)
        total = f"{name} total"
        graph.node.insert(at + 1, helper.make_node("Add", [outputs[0], bias.name], [total], total))
        outputs[0] = total
    if target.input:
        target.input[0] = outputs[0]


def _constant(random: Random) -> TensorProto:
    if random.random() < 0.5:
        shape = [random.randrange(9) for _ in range(random.randrange(5))]
        return numpy_helper.from_array(np.ones(shape, random.choice((np.float32, np.float16))))
    return numpy_helper.from_array(np.asarray(_integers(random), np.int64))


def _integers(random: Random) -> list[int]:
    return [_integer(random) for _ in range(random.randrange(5))]


def _integer(random: Random) -> int:
    return random.randrange(-3, 5) if random.random() < 0.7 else random.choice(mutate.INTEGERS)


def _attribute(random: Random, name: str, kind: int) -> onnx.AttributeProto:
    attribute = onnx.AttributeProto(name=name, type=kind)
    match kind:
        case onnx.AttributeProto.FLOAT:
            attribute.f = mutate.real(random)
        case onnx.AttributeProto.INT:
            attribute.i = _integer(random)
        case onnx.AttributeProto.STRING:
            known = ("VALID", "SAME_UPPER", "linear", "ij,jk->ik", "1")
            attribute.s = random.choice((*known, mutate.text(random))).encode()
        case onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(_constant(random))
        case onnx.AttributeProto.GRAPH:
            attribute.g.CopyFrom(helper.make_graph([], "body", [], []))
        case onnx.AttributeProto.FLOATS:
            attribute.floats.extend(mutate.real(random) for _ in range(random.randrange(4)))
        case onnx.AttributeProto.INTS:
            attribute.ints.extend(_integers(random))
        case onnx.AttributeProto.STRINGS:
            attribute.strings.extend(
                mutate.text(random).encode() for _ in range(random.randrange(3))
            )
    return attribute


# NPZ -------------------------------------------------------------------------------------------

_TYPES = "<f4 >f4 <f8 <f2 |u1 <i8 >i2 |b1 <c8 <U3 |S3 |V4 <M8[s] <f16 |O".split()


def make_npz(random: Random, place: Place) -> Case:
    (place.folder / "net.onnx").write_bytes(network().SerializeToString())
    changes = _changes(random)
    numbers = np.random.default_rng(random.randrange(2**32))
    samples = random.choice((20, 40))
    arrays: dict[str, Any] = {
        "x": numbers.normal(size=(samples, 4)).astype(random.choice(("<f4", "<f8", ">f4", "<i2"))),
        "y": numbers.integers(0, 3, samples).astype(random.choice(("<i8", "|u1", ">i4"))),
    }
    if random.random() < 0.3:
        arrays |= {"x_test": arrays["x"][:5], "y_test": arrays["y"][:5]}
    members = {f"{name}.npy": _npy(array) for name, array in arrays.items()}
    for _ in range(changes):
        name = random.choice(list(members))
        match random.randrange(7):
            case 0:
                members[name] = _other_header(random, members[name])
            case 1:
                members[name] = mutate.content(random, members[name])
            case 2:
                shape = tuple(random.choice((0, 1, 4, 20, 40)) for _ in range(random.randrange(4)))
                zeros = np.zeros(shape, random.choice(_TYPES))
                members[name] = _npy(zeros)
            case 3:
                array = numbers.normal(size=(40, 4))
                array[random.randrange(40), 0] = mutate.real(random)
                members["x.npy"] = _npy(array)
            case 4:
                members["y.npy"] = _npy(
                    np.asarray([random.choice((0, 1, 2, 3, -1, 2**40)) for _ in range(samples)])
                )
            case 5:
                members[random.choice((mutate.text(random) or "z", "x", "../x.npy"))] = b"junk"
            case _:
                del members[name]
                members.setdefault("y.npy", _npy(np.zeros(3)))
    content = _zipped(random, members)
    if random.random() < 0.3:
        content = mutate.content(random, content, min(changes, 3))
    (place.folder / "data.npz").write_bytes(content)
    return Case([[*BUILD, *_json(random)]], (PROJECT, "build"))


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def _other_header(random: Random, member: bytes) -> bytes:
    """An array whose header says something else about the same data."""
    end = member.find(b"\n") + 1
    shape: Any = tuple(mutate.integer(random) for _ in range(random.randrange(4)))
    header = {
        "descr": random.choice(("<f4", *_TYPES, mutate.text(random))),
        "fortran_order": random.choice((False, True, 0)),
        "shape": random.choice((shape, (40, 4), (160,), list(shape), mutate.value(random))),
    }
    text = random.choice((repr(header), repr(header)[:-9], "(" * 500, mutate.text(random)))
    encoded = text.encode(errors="replace").ljust(118) + b"\n"
    version = random.choice((1, 1, 1, 2, 3, 9))
    length = len(encoded).to_bytes(2 if version == 1 else 4, "little", signed=False)
    return b"\x93NUMPY" + bytes((version, 0)) + length + encoded + member[end:]


def _zipped(random: Random, members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name.replace("\0", "")[:60_000] or "z")
            archive.writestr(entry, content, random.choice(methods))
    return stream.getvalue()


# TOML ------------------------------------------------------------------------------------------


def make_board(random: Random, place: Place) -> Case:
    name = random.choice([board.name for board in list_boards()])
    content = (boards_dir() / f"{name}.toml").read_text()
    changes = _changes(random)
    if random.random() < 0.15:
        raw = mutate.content(random, content.encode(), changes)
    elif random.random() < 0.3:
        raw = content.encode()
        for _ in range(changes):
            raw = _other_number(random, raw)
    else:
        raw = _toml(mutate.document(random, tomllib.loads(content), changes))
    (place.folder / "mine.toml").write_bytes(raw)
    if random.random() < 0.6:
        command = "schedule --board mine.toml --model mlp --scheduler checkpoint-all".split()
        return Case([[*command, *_json(random)]])
    command = [*BUILD, *_json(random)]
    command[2] = "mine.toml"
    (place.folder / "net.onnx").write_bytes(network().SerializeToString())
    good_data(place.folder)
    return Case([command], ("build",))


def _other_number(random: Random, raw: bytes) -> bytes:
    numbers = list(re.finditer(rb"(?<=value = )[\d_.e-]+", raw))
    if not numbers:
        return raw
    match = random.choice(numbers)
    new = random.choice((mutate.integer(random), mutate.real(random)))
    return raw[: match.start()] + str(new).encode() + raw[match.end() :]


def _toml(document: Any) -> bytes:
    """A document as TOML, tables inline."""

    def written(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, list):
            return f"[{', '.join(map(written, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{quoted(str(k))} = {written(v)}' for k, v in value.items())}}}"
        return quoted(str(value))

    def quoted(text: str) -> str:
        shown = "".join(
            c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text
        )
        return f'"{shown}"'

    if not isinstance(document, dict):
        return written(document).encode()
    return "".join(f"{quoted(str(k))} = {written(v)}\n" for k, v in document.items()).encode()


_SETTINGS: Mapping[str, Any] = {
    "board": "linux",
    "model": "mlp",
    "data": "digits",
    "batch": 8,
    "ram": 1_000_000,
    "deadline": 5.0,
    "scheduler": "checkpoint-all",
    "loss": "mse",
    "optimizer": "sgd",
    "learning-rate": 0.1,
    "momentum": 0.9,
    "weight-decay": 0.001,
    "clip-norm": 1.0,
    "freeze": "hidden1*",
    "seed": 3,
    "work-limit": 1,
    "toolchain": "auto",
    "steps": 2,
    "timeout": 5,
    "verify": False,
    "emulator": "qemu",
    "ram-fraction": 0.5,
    "capacity": 4096,
    "bank": "fast=0:64",
    "solver": "HIGHS",
    "model-as": "device",
    "generate-only": True,
}


def make_settings(random: Random, place: Place) -> Case:
    keys = random.sample(sorted(_SETTINGS), random.randrange(1, 5))
    shared = {key: _SETTINGS[key] for key in keys}
    tables = {
        command: {key: _SETTINGS[key] for key in random.sample(sorted(_SETTINGS), 2)}
        for command in random.sample(("build", "run", "schedule", "place"), random.randrange(2))
    }
    raw = _toml(mutate.document(random, {**shared, **tables}, _changes(random)))
    if random.random() < 0.1:
        raw = mutate.content(random, raw)
    (place.folder / "poetfw.toml").write_bytes(raw)
    (place.folder / "buffers.csv").write_text("id,lower,upper,size\na,0,2,8\nb,1,3,8\n")
    command = random.choice(
        (
            "build --board linux --model mlp --generate-only --ram 1000000 "
            "--scheduler checkpoint-all",
            "schedule --board linux --model mlp --scheduler checkpoint-all",
            "place buffers.csv --work-limit 1",
            "models mlp",
            "run --board linux",
        )
    ).split()
    return Case([[*command, *_json(random)]], ("",))


# Schedule problems, answers ----------------------------------------------------------------------


def _problem(random: Random) -> ScheduleProblem:
    nodes: list[Node] = []
    for i in range(random.randrange(1, 9)):
        earlier = [node.name for node in nodes]
        inputs = random.sample(earlier, min(len(earlier), random.choice((1, 1, 2))))
        size = random.choice((0, 64, 64, 128, 4096))
        taken = [node.name for node in nodes if node.name in inputs and node.output_bytes == size]
        nodes.append(
            Node(
                name=random.choice((f"n{i}", f"n{i}", f"n{i} {mutate.text(random)}")),
                inputs=tuple(inputs),
                time_s=random.choice((0.0, 0.01, 1.0)),
                energy_j=random.choice((0.0, 0.001, 2.5)),
                output_bytes=size,
                workspace_bytes=random.choice((0, 0, 32)),
                recompute=random.random() < 0.8,
                page=random.random() < 0.8,
                backward=random.random() < 0.4,
                in_place=random.choice((None, *taken)),
            )
        )
    transfer = Transfer(random.choice((1e3, 1e6)), 0.001, 1e-7, 1e-5)
    storage = Storage(512, transfer, transfer, overlap=random.random() < 0.5)
    enough = sum(node.output_bytes + node.workspace_bytes for node in nodes)
    return ScheduleProblem(
        name=random.choice(("a problem", mutate.text(random))),
        ram_bytes=random.choice((enough, enough, enough // 2 + 1)),
        deadline_s=random.choice((None, None, 100.0)),
        storage=random.choice((None, storage, storage)),
        nodes=tuple(nodes),
    )


def make_problem(random: Random, place: Place) -> Case:
    document = problem_to_json(_problem(random))
    _write_json(random, place.folder / "p.json", document)
    command = ["schedule", "--problem", "p.json", "--work-limit", "1"]
    scheduler = "checkpoint-all" if random.random() < 0.6 else random.choice(tuple(SCHEDULERS))
    command += ["--scheduler", scheduler, *_json(random)]
    options = {
        "--ram": lambda: str(mutate.integer(random))[:400],
        "--ram-fraction": lambda: str(abs(mutate.real(random))),
        "--deadline": lambda: str(abs(mutate.real(random))),
        "--model-as": lambda: "poet",
    }
    if random.random() < 0.4:
        name = random.choice(tuple(options))
        command += [f"{name}={options[name]()}"]
    commands = [command]
    if random.random() < 0.2:
        commands.append("schedule --problem p.json --model-as poet --export q.json".split())
    return Case(commands, ("q.json",))


def make_answer(random: Random, place: Place) -> Case:
    problem = _problem(random)
    enough = sum(node.output_bytes + node.workspace_bytes for node in problem.nodes)
    document = problem_to_json(problem) | {"ram_bytes": enough, "deadline_s": None}
    (place.folder / "p.json").write_text(json.dumps(document))
    answer = schedule_to_json(checkpoint_all_schedule(problem))
    steps = [dict(step) for step in answer["plan"]]
    if random.random() < 0.5:
        for _ in range(random.randrange(4)):
            kind = random.choice(("compute", "page_in", "page_out", "free"))
            name = random.choice(("", *(node.name for node in problem.nodes), mutate.text(random)))
            steps.insert(random.randrange(len(steps) + 1), {"step": kind, "node": name})
        _write_json(random, place.folder / "a.json", {"plan": steps}, changes=0)
    else:
        _write_json(random, place.folder / "a.json", answer)
    command = "schedule --problem p.json --replay a.json".split()
    return Case([[*command, *_json(random)]])


def _write_json(random: Random, path: Path, document: Any, changes: int | None = None) -> None:
    changes = _changes(random) if changes is None else changes
    text = json.dumps(mutate.document(random, document, changes))
    if changes and random.random() < 0.08:
        text = re.sub(r"\d+", lambda m: m[0] if random.random() < 0.9 else "9" * 5000, text)
    if changes and random.random() < 0.08:
        nested = "[" * 50_000
        text = random.choice((text + text, "\ufeff" + text, nested, text.replace(":", ":" * 2)))
    raw = text.encode()
    if changes and random.random() < 0.08:
        raw = mutate.content(random, raw)
    path.write_bytes(raw)


# CSV -------------------------------------------------------------------------------------------


def make_csv(random: Random, place: Place) -> Case:
    columns = ["id", "lower", "upper", "size", "alignment", "offset", "bank"]
    rows: list[list[Any]] = [columns]
    for i in range(random.randrange(1, 12)):
        begin = random.randrange(20)
        rows.append(
            [
                f"b{i}" if random.random() < 0.8 else f"b{i}{mutate.text(random)}",
                *(begin, begin + random.randrange(1, 9), random.choice((0, 4, 64, 1000))),
                *(random.choice((1, 1, 4)), "", random.choice(("", "", "fast"))),
            ]
        )
    rows = mutate.document(random, rows, _changes(random))

    def cell(value: Any) -> str:
        text = str(value)
        quote = random.random() < 0.9 and any(c in text for c in ',"\r\n')
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if quote else text

    lines = [
        ",".join(map(cell, row)) if isinstance(row, list) else cell(row)
        for row in (rows if isinstance(rows, list) else [rows])
    ]
    raw = random.choice(("\n", "\r\n")).join(lines).encode()
    if random.random() < 0.15:
        raw = mutate.content(random, raw)
    (place.folder / "buffers.csv").write_bytes(raw)
    command = "place buffers.csv --work-limit 1 --bank fast=0:256".split()
    if random.random() < 0.4:
        command += [f"--capacity={str(random.choice((mutate.integer(random), 512)))[:400]}"]
    if random.random() < 0.4:
        command += ["--out", "placed.csv"]
    return Case([[*command, *_json(random)]], ("placed.csv",))


# Sweeps ----------------------------------------------------------------------------------------


def make_sweep(random: Random, place: Place) -> Case:
    grid = Grid(
        boards=("linux",),
        models=("mlp",),
        deadline_factors=(None,),
        fractions=(0.5, 0.9),
        schedulers=("checkpoint-all", "poet"),
        batch=1,
        model_as="device",
        solver="HIGHS",
        work_limit=1.0,
        time_limit_s=60.0,
        databases=(None,),
    )
    found = answer(
        scheduler="poet",
        energy_j=1.5,
        paging_energy_j=0.5,
        peak_bytes=900,
        bound_j=1.4,
        bound_covers=BoundCovers.STAGES,
        gap=0.01,
        overhead_gap=0.06,
    )
    lines: list[Any] = [{"schema_version": sweep.SCHEMA_VERSION, "sweep": asdict(grid)}]
    for point in grid.points():
        cell = Trial(
            *("linux", "mlp", 1, "device", None, None, point.ram_fraction, 1000),
            *("poet", "optimal", "", found, False, 0.3),
        )
        cells = [asdict(cell), asdict(cell) | {"scheduler": "checkpoint-all"}]
        lines.append({"point": asdict(point), "cells": cells})
    lines = json.loads(json.dumps(lines))
    head = 1 if random.random() < 0.9 else 0
    for number in range(head, len(lines)):
        if random.random() < 0.7:
            lines[number] = mutate.document(random, lines[number], _changes(random))
    (place.folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    if random.random() < 0.15:
        path = place.folder / "s.jsonl"
        path.write_bytes(mutate.content(random, path.read_bytes()))
    command = (
        "sweep --boards linux --models mlp --fractions 0.5,0.9 --out s.jsonl --work-limit 1 "
        "--time-limit 60 --schedulers checkpoint-all,poet --jobs 1"
    ).split()
    if random.random() < 0.5:
        command += ["--csv", "cells.csv"]
    return Case([[*command, *_json(random)]], ("s.jsonl", "cells.csv"))


# Projects and consoles -------------------------------------------------------------------------


def _transcript(steps: int = 2, batches: int = 2) -> list[str]:
    return [
        "@boot plan=00000000",
        *(f"@step {i} loss=3f800000 ticks=7" for i in range(1, steps + 1)),
        *(f"@eval {i} metric=40000000" for i in range(1, batches + 1)),
        DONE,
    ]


def make_project(random: Random, place: Place) -> Case:
    shutil.copytree(place.built, place.folder, dirs_exist_ok=True)
    project = place.folder / PROJECT
    for _ in range(_changes(random)):
        files = sorted(p for p in project.rglob("*") if p.is_file() and not p.is_symlink())
        file = random.choice(files)
        stages = [p for p in files if p.suffix == ".json" or p.name == "board.toml"]
        match random.randrange(8):
            case 0:
                file.unlink()
            case 1:
                file.unlink()
                file.symlink_to(_outside(random, place))
            case 2:
                folder = random.choice(sorted({f.parent for f in files} - {project}))
                shutil.rmtree(folder)
                folder.symlink_to(_outside(random, place).parent)
            case 3:
                added = project / random.choice(("run", "run/unscheduled", ".pio/core", "src/x"))
                added.parent.mkdir(exist_ok=True)
                if not added.exists() and not added.is_symlink():
                    added.symlink_to(_outside(random, place).parent)
            case 4:
                file.write_bytes(mutate.content(random, file.read_bytes(), 2))
            case _:
                stage = random.choice(stages or [file])
                if stage.suffix == ".json":
                    document: Any = None  # where an earlier change left no JSON
                    with contextlib.suppress(ValueError, RecursionError):
                        document = json.loads(stage.read_bytes())
                    _write_json(random, stage, document, 1)
                else:
                    stage.write_bytes(_other_number(random, stage.read_bytes()))
        if not any(p.is_file() for p in project.rglob("*")):
            break
    if random.random() < 0.7:
        command = ["run", "--board", "linux", "--steps", "2", *_json(random)]
        return Case([command], (f"{PROJECT}/run",))
    return Case([[*BUILD, *_json(random)]], (PROJECT, "build"))


def _outside(random: Random, place: Place) -> Path:
    return place.folder.parent / "outside" / random.choice(("sentinel", "new"))


def make_console(random: Random, place: Place) -> Case:
    shutil.copytree(place.built, place.folder, dirs_exist_ok=True)
    lines = _transcript()
    for _ in range(_changes(random)):
        at = random.randrange(len(lines) + 1)
        match random.randrange(8):
            case 0 if lines:
                del lines[at - 1]
            case 1 if lines:
                lines.insert(at, lines[at - 1])
            case 2:
                lines.insert(at, f"@{random.choice(('step', 'eval', 'error', 'fault', 'x'))} 1 a=b")
            case 3 if lines:
                new = random.choice((mutate.text(random), str(random.choice(mutate.INTEGERS))))
                lines[at - 1] = re.sub(
                    r"=[\w.]+", lambda _, new=new: f"={new}", lines[at - 1], count=1
                )
            case 4 if lines:
                bits = f"{random.choice((0x7FC00000, 0xFF800000, 0, 0x80000000, 0x7F7FFFFF)):08x}"
                lines[at - 1] = re.sub(r"=[0-9a-f]{8}\b", f"={bits}", lines[at - 1])
            case 5:
                lines.insert(at, random.choice(("@done", "@step", "@", "@step 99999999999 loss=0")))
            case _:
                lines.insert(at, mutate.text(random))
    raw = "\n".join(lines).encode(errors="replace") + b"\n"
    if random.random() < 0.3:
        raw = mutate.content(random, raw, 2)
    (place.folder / f"{FIRMWARE}.txt").write_bytes(raw)
    command = ["run", "--board", "linux", "--steps", "2", "--timeout", "20", *_json(random)]
    return Case([command], (f"{PROJECT}/run",))


def make_serial(random: Random, place: Place) -> Case:
    """Sending, fetching and training over a line at whose end a board tells lies."""
    shutil.copytree(place.built, place.folder, dirs_exist_ok=True)
    report = json.loads((place.folder / PROJECT / "build.json").read_text())
    script = {
        "seed": random.randrange(2**32),
        "plan": report["plan_id"],
        "board": report["board"],
        "lies": [int(30 * random.random() ** 2) for _ in range(_changes(random))],
        "blank": random.random() < 0.3,
    }
    shutil.copyfile(place.folder / PROJECT / "storage.img", place.folder / "storage.img")
    (place.folder / "port.json").write_text(json.dumps(script))
    port = ["--board", "linux", "--port", "port.json", *_json(random)]
    if script["blank"]:
        return Case([["flash", "--storage", *port]])
    if random.random() < 0.5:
        return Case([["pull", *port, "-o", "pulled.img"]], ("pulled.img",))
    return Case([["run", "--on-board", "--steps", "2", *port]], (f"{PROJECT}/run",))


FORMATS: Mapping[str, Maker] = {
    "onnx": make_onnx,
    "pt2": make_pt2,
    "nodes": make_nodes,
    "npz": make_npz,
    "board": make_board,
    "settings": make_settings,
    "problem": make_problem,
    "answer": make_answer,
    "csv": make_csv,
    "sweep": make_sweep,
    "project": make_project,
    "console": make_console,
    "serial": make_serial,
}
"""What makes a case of each format."""

NEED_PROJECT = ("project", "console", "serial")
"""The formats whose cases copy a built project."""
