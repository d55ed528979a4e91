# SPDX-License-Identifier: Apache-2.0
"""Samples recorded by a device: copies between the ring in a storage and NPZ files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from poetfw.common.errors import ConfigError, DataError, OutputError
from poetfw.common.output_file import replace_file
from poetfw.firmware import (
    BLOCK_BYTES,
    NUMPY_TYPES,
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
from poetfw.ir import Tensor
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

    Arrays, with n samples: `x` and `y` as in a data set, `labelled` (n booleans: whether `y` is
    valid) and `id` (n sample numbers).

    Raises:
        OutputError: The file cannot be written.
    """
    program, n = project.stages.program, len(held.ids)
    arrays = {
        name: raw.view(NUMPY_TYPES[tensor.dtype]).reshape(n, *tensor.shape[1:])
        for name, raw, tensor in (("x", held.x, program.input), ("y", held.y, program.label))
    }
    replace_file(out, npz_bytes({**arrays, "labelled": held.labelled, "id": held.ids}))
    return n


def read_samples_file(project: BuiltProject, path: Path) -> tuple[Array, Array, Array]:
    """Read samples for a ring from an NPZ file: features and targets as bytes, and label flags.

    Raises:
        DataError: The file is malformed, or its samples do not fit the network.
    """
    program = project.stages.program
    arrays = read_npz(path, ("x", "y"), ("labelled",))
    n = len(arrays["x"]) if arrays["x"].ndim else 0
    labelled = np.asarray(arrays.get("labelled", np.ones(n, bool)))
    if labelled.dtype != bool or labelled.shape != (n,):
        raise DataError(f"{path}: `labelled` must be {n} booleans")
    x = _column(path, "x", arrays["x"], program.input, n)
    y = _column(path, "y", arrays["y"], program.label, n)
    metric = program.evaluation.ops[-1]
    if metric.kind == "correct_count":
        classes = program.evaluation.by_name[metric.inputs[0]].shape[1]
        known = y[labelled]
        if ((known < 0) | (known >= classes)).any():
            raise DataError(f"{path}: a label is not one of the classes 0 to {classes - 1}")
    return x.view(np.uint8).reshape(n, -1), y.view(np.uint8).reshape(n, -1), labelled


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
    return np.ascontiguousarray(values, NUMPY_TYPES[tensor.dtype])


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
