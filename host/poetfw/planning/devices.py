# SPDX-License-Identifier: Apache-2.0
"""Scheduling problem of a model on several devices, from their files."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from poetfw.boards import Board, list_boards
from poetfw.common.errors import BoardError, ConfigError
from poetfw.common.limits import Deadline
from poetfw.common.reading import first_flaw, read_bytes
from poetfw.common.transfer import Transfer
from poetfw.costs import CostTable, OpCost
from poetfw.ir import Graph
from poetfw.ops import KINDS, kind_of
from poetfw.planning.choices import derive_program, load_model
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import checkpoint_all_schedule
from poetfw.schedule.several import Device, DevicesProblem, Link
from poetfw.settings import BuildSettings
from poetfw.training import AS_FILED

_Value = TypeVar("_Value")
_Line = Annotated[str, Field(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
_PerSecond = Annotated[float, Field(ge=1, le=1e18, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)]
_Watts = Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)]
_Joules = Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)]
_Bytes = Annotated[int, Field(gt=0, le=2**40)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Figure(_Table, Generic[_Value]):
    value: _Value
    source: _Line


class _Link(_Table):
    to: _Name
    bandwidth_bytes_per_s: _Figure[_PerSecond]
    latency_s: _Figure[_Seconds]
    energy_j_per_byte: _Figure[_Joules] | None = None
    energy_j: _Figure[_Joules] | None = None
    buffer_bytes: Annotated[int, Field(ge=0, le=2**40)] = 0

    def transfer(self) -> Transfer:
        """Costs of a copy over the link."""
        return Transfer(
            self.bandwidth_bytes_per_s.value,
            self.latency_s.value,
            0.0 if self.energy_j_per_byte is None else self.energy_j_per_byte.value,
            0.0 if self.energy_j is None else self.energy_j.value,
        )


class DeviceFile(_Table):
    """Content of a device file."""

    name: _Name
    description: _Line
    board: _Line | None = None
    """Name of the board that runs the device's program, as in `--board`."""
    ram_bytes: _Figure[_Bytes]
    flops_per_s: _Figure[_PerSecond]
    launch_s: _Figure[_Seconds]
    active_w: _Figure[_Watts] | None = None
    idle_w: _Figure[_Watts] | None = None
    lacks: list[_Line] = []
    """Kinds of op that the device cannot compute, such as `conv2d`."""
    link: list[_Link] = []


def load_devices_problem(
    paths: Sequence[Path],
    model: str,
    batch: int = 1,
    ram_fractions: Sequence[float] | None = None,
    warn: Callable[[str], None] = lambda text: None,
    deadline: Deadline | None = None,
) -> DevicesProblem:
    """Load the problem of training a model on the devices described by files.

    The time of an op is `launch_s` plus two operations per multiply-accumulate at `flops_per_s`;
    its energy is this time at `active_w`. Parameters are assumed to be present on each device that
    needs them: they are neither copied nor counted. Nothing is paged.

    Args:
        paths: one TOML file per device.
        model: a built-in model's name, or the path of a model's file.
        batch: samples in a batch.
        ram_fractions: RAM of each device as a fraction of the RAM that keeping everything takes;
            None for the RAM in its file.
        warn: called with each warning of the model.
        deadline: deadline of the command.

    Raises:
        BoardError: A file is malformed.
        ConfigError: The number of fractions is not the number of devices.
        ModelError: The model is unknown.
    """
    files = [read_device(path) for path in paths]
    any_board = _any_board()
    settings = BuildSettings(board=any_board.name, model=model, batch=batch, train=AS_FILED)
    loaded = load_model(settings)
    for warning in loaded.warnings:
        warn(warning)
    return devices_problem(
        derive_program(settings, loaded, deadline).training, files, ram_fractions
    )


def _any_board() -> Board:
    """Any known board: a model's graph does not depend on the board, only its costs do."""
    return list_boards(lambda error: None)[0]


def devices_problem(
    graph: Graph, files: Sequence[DeviceFile], ram_fractions: Sequence[float] | None = None
) -> DevicesProblem:
    """The problem of computing a training step on several devices.

    Args:
        graph: the training step.
        files: contents of the device files.
        ram_fractions: RAM of each device as a fraction of the RAM that keeping everything takes;
            None for the RAM in its file.

    Raises:
        ConfigError: The number of fractions is not the number of devices.
    """
    if ram_fractions is not None and len(ram_fractions) != len(files):
        raise ConfigError(
            f"--ram-fraction has {len(ram_fractions)} values for {len(files)} devices",
            "give one for each device, with commas between them",
        )
    any_board = _any_board()
    kinds = {op.name: op.kind for op in graph.ops}
    macs = {}
    for op in graph.ops:
        inputs = [graph.by_name[name] for name in op.inputs]
        output = None if op.output is None else graph.by_name[op.output]
        macs[op.name] = kind_of(op).work(op, inputs, output).macs
    nothing = CostTable("", {name: OpCost(0.0, 0.0) for name in macs})
    bare = replace(schedule_problem(graph, any_board, nothing, None), storage=None)
    peak_bytes = checkpoint_all_schedule(bare).peak_bytes
    devices = []
    for number, file in enumerate(files):
        ram_bytes = file.ram_bytes.value
        if ram_fractions is not None:
            ram_bytes = int(peak_bytes * ram_fractions[number])
        watts = 0.0 if file.active_w is None else file.active_w.value
        times_s = {
            name: file.launch_s.value + 2 * count / file.flops_per_s.value
            for name, count in macs.items()
        }
        nodes = tuple(
            replace(node, time_s=times_s[node.name], energy_j=watts * times_s[node.name])
            for node in bare.nodes
        )
        devices.append(
            Device(
                name=file.name,
                problem=replace(bare, ram_bytes=ram_bytes, nodes=nodes),
                lacks=frozenset(name for name, kind in kinds.items() if kind in file.lacks),
                idle_w=0.0 if file.idle_w is None else file.idle_w.value,
            )
        )
    return DevicesProblem(bare.name, tuple(devices), _links(files))


def _links(files: Sequence[DeviceFile]) -> tuple[Link, ...]:
    """Links between these devices; a link declared in only one file works in both directions."""
    known = {file.name for file in files}
    said = {(file.name, link.to): link for file in files for link in file.link if link.to in known}
    both = {(b, a): link for (a, b), link in said.items()} | said
    return tuple(
        Link(a, b, link.transfer(), link.buffer_bytes) for (a, b), link in sorted(both.items())
    )


def read_device(path: Path) -> DeviceFile:
    """Read a device file.

    Raises:
        BoardError: The file cannot be read, or is malformed.
    """
    try:
        device = DeviceFile.model_validate(tomllib.loads(read_bytes(path).decode()))
    except OSError as error:
        raise BoardError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise BoardError(f"{path}: {first_flaw(error)}") from error
    except ValueError as error:
        raise BoardError(f"{path} is not TOML: {error}") from error
    for kind in device.lacks:
        if kind not in KINDS:
            raise BoardError(
                f"{path}: lacks: there is no operator {kind!r}",
                f"use names such as {', '.join(sorted(KINDS)[:3])}",
            )
    return device
