# SPDX-License-Identifier: Apache-2.0
"""Export of trained weights from a storage image to a file, under the model author's names."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import ConfigError, DataError, ToolError
from poetfw.firmware import IMAGE, read_committed
from poetfw.firmware.project import RUN_DIR
from poetfw.importers.weight_files import Arrays, npz_bytes, safetensors_bytes
from poetfw.models import StateEntry
from poetfw.runs.execution import BuiltProject


def state_entries(project: BuiltProject) -> tuple[StateEntry, ...]:
    """Mapping of the author's tensors to the graph's; a built-in model uses the graph's names."""
    program = project.stages.program
    if project.stages.state_dict:
        return project.stages.state_dict
    others = {program.loss.name, program.metric.name, *program.optimizer_states}
    shapes = {t.name: t.shape for t in program.persistent if t.name not in others}
    shapes |= {name: values.shape for name, values in project.stages.frozen.items()}
    return tuple(StateEntry(name, name, shape) for name, shape in shapes.items())


def trained_weights(project: BuiltProject, image: Path | None) -> dict[str, NDArray[np.float32]]:
    """State dict that a run left in a storage image.

    Args:
        project: the project that ran; of several programs, the one that evaluates.
        image: the image, such as one pulled from a board; None for the project's last run.

    Raises:
        DataError: There is no image: the project has not run.
        DeviceError: The image is damaged or not one of the project.
    """
    image = image or project.folder / RUN_DIR / IMAGE
    if not image.is_file():
        raise DataError(
            f"{image}: there is no such storage image",
            "run what was built: `poetfw run`",
            "or name an image: --image",
        )
    stages = project.stages
    values = read_committed(image, stages.slots, project.tensors) | dict(stages.frozen)
    return {e.name: e.of(values[e.tensor]) for e in state_entries(project)}


def _onnx_bytes(arrays: Arrays, model: Path | None) -> bytes:
    """The built ONNX file's content, with the trained weights in place of its own."""
    from onnx import numpy_helper  # slow to import, and seldom needed

    from poetfw.importers.onnx.file import read_model

    if model is None or model.suffix != ".onnx":
        raise ConfigError(
            "--as onnx puts the weights into the ONNX file that was built: name it with --model"
        )
    proto = read_model(model)
    by_name = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, values in arrays.items():
        if name not in by_name or tuple(by_name[name].dims) != values.shape:
            raise DataError(f"{model}: it has no weights {name!r:.80} of shape {values.shape}")
        by_name[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), name))
    content: bytes = proto.SerializeToString()
    return content


def _torch_bytes(arrays: Arrays, model: Path | None) -> bytes:
    """State dict file for `torch.load` and `load_state_dict`."""
    try:
        import torch
    except ImportError as error:
        raise ToolError(
            "--as torch needs PyTorch to write its own format",
            "pip install 'poetfw[torch]'",
            "or use --as safetensors, which PyTorch reads with the package of that name",
        ) from error
    stream = io.BytesIO()
    torch.save({n: torch.from_numpy(np.array(values)) for n, values in arrays.items()}, stream)
    return stream.getvalue()


FORMATS: Mapping[str, Callable[[Arrays, Path | None], bytes]] = MappingProxyType(
    {
        "npz": lambda arrays, model: npz_bytes(arrays),
        "safetensors": lambda arrays, model: safetensors_bytes(arrays),
        "onnx": _onnx_bytes,
        "torch": _torch_bytes,
    }
)
"""Writers by format: state dict files, and for ONNX the built file with trained weights."""
