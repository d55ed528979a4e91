# SPDX-License-Identifier: Apache-2.0
"""Samples recorded by a device: copies between the ring in a storage and NPZ files."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from poetfw.common.errors import ConfigError, DataError, OutputError
from poetfw.common.output_file import replace_file
from poetfw.firmware import (
    BLOCK_BYTES,
    Commit,
    Places,
    ReadBlock,
    RingRegion,
    RingSamples,
    append_samples,
    places,
    read_ring,
    ring_region,
)
from poetfw.importers.npz import read_npz
from poetfw.importers.weight_files import npz_bytes
from poetfw.ir import NUMPY_TYPES, Tensor, array_names
from poetfw.ops import Array
from poetfw.runs.execution import BuiltProject


def region_of(project: BuiltProject) -> RingRegion:
    """Location of the ring in a project's storage.

    Raises:
        ConfigError: The build has no ring.
        DeviceError: The project's image is damaged.
    """
    region = ring_region(project.image, project.stages.slots, project.stages.program)
    if region.samples == 0:
        raise ConfigError(
            f"the build in {project.folder} keeps no samples of the device's own",
            "build it with --ring",
        )
    return region


def write_samples(project: BuiltProject, held: RingSamples, out: Path) -> int:
    """Write the samples of a ring to an NPZ file; returns their number.

    Its arrays are those of a data set, `labelled`, whether a sample has its target, and `id`.

    Raises:
        OutputError: The file cannot be written.
    """
    program = project.stages.program
    x, y = program.x.samples(held.x), program.y.samples(held.y)
    columns = (*program.x.split(x), *program.y.split(y))
    names = array_names(program.x, program.y)
    arrays = dict(zip(names, columns, strict=True))
    arrays |= {_free("labelled", names): held.labelled, _free("id", names): held.ids}
    replace_file(out, npz_bytes(arrays))
    return len(held.ids)


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that no member of a sample has."""
    while name in taken:
        name += "_"
    return name


def read_samples_file(project: BuiltProject, path: Path) -> tuple[Array, Array, Array]:
    """Read samples for a ring from an NPZ file: features and targets as bytes, and label flags.

    Raises:
        DataError: The file is malformed, or its samples do not fit the network.
    """
    program = project.stages.program
    names = array_names(program.x, program.y)
    key = _free("labelled", names)
    arrays = read_npz(path, names, (key,))
    n = len(arrays[names[0]]) if arrays[names[0]].ndim else 0
    labelled = np.asarray(arrays.get(key, np.ones(n, bool)))
    if labelled.dtype != bool or labelled.shape != (n,):
        raise DataError(f"{path}: `{key}` must be {n} booleans")
    tensors = (*program.x.members, *program.y.members)
    columns = [
        _column(path, name, arrays[name], tensor, n)
        for name, tensor in zip(names, tensors, strict=True)
    ]
    inputs = len(program.x.members)
    x, y = program.x.join(columns[:inputs], n), program.y.join(columns[inputs:], n)
    metric = program.evaluation.ops[-1]
    if metric.kind == "correct_count":
        classes = program.evaluation.by_name[metric.inputs[0]].shape[1]
        known = y[labelled]
        if ((known < 0) | (known >= classes)).any():
            raise DataError(f"{path}: a label is not one of the classes 0 to {classes - 1}")
    return program.x.rows(x), program.y.rows(y), labelled


def _column(path: Path, name: str, values: Array, tensor: Tensor, samples: int) -> Array:
    wanted = (samples, *tensor.shape[1:])
    right = values.shape[:1] == (samples,) and values.size == math.prod(wanted)
    if not right or values.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: {name} has shape {list(values.shape)} and type {values.dtype}; the network "
            f"takes as many numbers as [samples{''.join(f', {n}' for n in wanted[1:])}]"
        )
    if not np.isfinite(values).all():
        raise DataError(f"{path}: {name} holds what is not finite")
    return np.ascontiguousarray(values, NUMPY_TYPES[tensor.dtype]).reshape(wanted)


def new_blocks(
    project: BuiltProject, region: RingRegion, where: Places, file: Path, read_block: ReadBlock
) -> tuple[int, Mapping[int, bytes]]:
    """Number of a file's samples, and the blocks to write that append them to a storage's ring.

    Raises:
        DataError: The file is malformed, or holds more samples than the ring has slots.
    """
    x, y, labelled = read_samples_file(project, file)
    if len(x) > region.samples:
        raise DataError(f"{file}: {len(x)} samples do not fit the ring, which has {region.samples}")
    commits = [Commit.unpack(read_block(block), region.identity) for block in where.record_blocks]
    events = max((commit.ring for commit in commits if commit is not None), default=0)
    held = read_ring(region, read_block)
    return len(x), append_samples(region, held, events, x, y, labelled)


def pull_from_image(project: BuiltProject, image: Path, out: Path) -> int:
    """Write the ring of a storage image to an NPZ file; returns the number of samples.

    Raises:
        ConfigError: The build has no ring.
        DeviceError: The file is not a storage image of this build.
        OutputError: The file cannot be written.
    """
    region, _ = _of_image(project, image)
    content = image.read_bytes()
    return write_samples(project, read_ring(region, lambda block: _block(content, block)), out)


def push_to_image(project: BuiltProject, image: Path, file: Path) -> int:
    """Append a file's samples to the ring of a storage image; returns their number.

    Raises:
        ConfigError: The build has no ring.
        DataError: The file is malformed, or its samples do not fit the network.
        DeviceError: The image is not a storage image of this build.
        OutputError: The image cannot be written.
    """
    region, where = _of_image(project, image)
    content = image.read_bytes()
    samples, blocks = new_blocks(project, region, where, file, lambda block: _block(content, block))
    try:
        with image.open("r+b") as opened:
            for block, data in blocks.items():
                opened.seek(block * BLOCK_BYTES)
                opened.write(data)
    except OSError as error:
        raise OutputError(f"{image} cannot be written: {error.strerror or error}") from error
    return samples


def _of_image(project: BuiltProject, image: Path) -> tuple[RingRegion, Places]:
    region_of(project)  # raises if the build has no ring
    slots = project.stages.slots
    return ring_region(image, slots, project.stages.program), places(image, slots)


def _block(content: bytes, block: int) -> bytes:
    return content[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
