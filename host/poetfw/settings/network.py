# SPDX-License-Identifier: Apache-2.0
"""Settings of networks and their training."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import click

from poetfw.common.errors import ConfigError
from poetfw.common.option_values import (
    DATA,
    DEFAULT_BATCH,
    DEFAULT_MODEL,
    FEATURES,
    FROZEN_FORMATS,
    LOSSES,
    STORED_FORMS,
)
from poetfw.optimizers import LARGEST_COUNT, OPTIMIZERS
from poetfw.settings.declaration import Setting, Settings, parts, setting
from poetfw.settings.values import DATA_SET, MODEL, Listed, NameOrFile, Numbers


@dataclass(frozen=True)
class NetworkSettings(Settings, group="Network and data"):
    """Network, initial weights and training data."""

    model: str = setting(
        "A built-in model (`poetfw models`), or a .pt2 or .onnx file.",
        DEFAULT_MODEL,
        type=MODEL,
        metavar="NAME|FILE",
        first=True,
    )
    as_float32: bool = setting(
        "Convert a file's model from float64, float16 or bfloat16 to float32.", False
    )
    weights: str | None = setting(
        "Start from the weights in a .npz or .safetensors file.",
        otherwise="the model's own",
        type=NameOrFile(),
        metavar="FILE",
        first=True,
    )
    data: str = setting(
        "A built-in data set, an .npz or .csv file, or a folder of images, sounds or .npy files.",
        DATA[0],
        type=DATA_SET,
        metavar="NAME|PATH",
        first=True,
    )
    features: str | None = setting(
        "Features computed from sounds.", otherwise=FEATURES[0], type=click.Choice(FEATURES)
    )
    seed: int = setting(
        "Random seed of initial weights and sample order.",
        0,
        type=click.IntRange(0, 2**32 - 1),
        group="Training",
    )


def _of_optimizers() -> dict[str, Setting]:
    """Settings that only some optimizers have, by name."""
    found: dict[str, tuple[Any, str, list[str]]] = {}
    for kind, optimizer in sorted(OPTIMIZERS.items()):
        for one in fields(optimizer):
            if "help" in one.metadata:
                found.setdefault(one.name, (one.default, one.metadata["help"], []))[2].append(kind)
    types: dict[type, click.ParamType[Any]] = {bool: click.BOOL, float: click.FLOAT}
    return {
        name: Setting(
            f"{', '.join(kinds)}: {text}",
            type=Numbers(len(value)) if isinstance(value, tuple) else types[type(value)],
            metavar="NUMBER,..." if isinstance(value, tuple) else None,
        )
        for name, (value, text, kinds) in found.items()
    }


def _patterns(what: str, first: bool = False) -> Any:
    return setting(what, (), type=Listed(), metavar="PATTERN,...", multiple=True, first=first)


@dataclass(frozen=True)
class TrainingSettings(Settings, group="Training"):
    """All settings besides the network that determine a training step's ops.

    None means the model's or the board's default. Momentum is a field of its own, not among
    `optimizer_settings`, since a board may set its default.
    """

    batch: int | None = setting(
        "Batch size in samples.",
        otherwise=f"the board's, or {DEFAULT_BATCH}",
        type=click.IntRange(1),
        first=True,
    )
    micro_batch: int | None = setting(
        "Compute gradients of so many samples at a time and add them up to a batch: saves "
        "activation memory; a training step is then one micro-batch.",
        otherwise="whole batches",
        type=click.IntRange(1),
        metavar="SAMPLES",
    )
    loss: str | None = setting("Loss function.", otherwise="the model's", type=click.Choice(LOSSES))
    class_weights: tuple[float, ...] = setting(
        "Weight of each class in a classifier's loss.",
        (),
        otherwise="equal weights",
        type=Numbers(),
        metavar="W,W,...",
    )
    label_smoothing: float = setting(
        "Label smoothing: share of each label that is spread over all classes.",
        0.0,
        otherwise="0",
        type=click.FLOAT,
        metavar="SHARE",
    )
    ignore_index: int | None = setting(
        "Exclude samples with this label from the loss.",
        otherwise="none",
        type=click.INT,
        metavar="LABEL",
    )
    optimizer: str | None = setting(
        f"{', '.join(sorted(OPTIMIZERS))}, with PyTorch's defaults.",
        otherwise="the model's",
        type=click.Choice(sorted(OPTIMIZERS)),
        metavar="NAME",
        first=True,
    )
    learning_rate: float | None = setting(
        "Step size.", otherwise="the optimizer's", type=click.FLOAT
    )
    weight_decay: float | None = setting(
        "L2 penalty.", otherwise="the optimizer's", type=click.FLOAT
    )
    optimizer_settings: tuple[tuple[str, Any], ...] = parts(
        {name: declared for name, declared in _of_optimizers().items() if name != "momentum"}
    )
    momentum: float | None = setting(**vars(_of_optimizers()["momentum"]))
    schedule: str | None = setting(
        "Learning rate schedule: constant; cosine:STEPS or linear:STEPS, which decay to 0; or "
        "step:STEPS:FACTOR, which multiplies by FACTOR.",
        otherwise="constant",
        metavar="SHAPE:STEPS",
    )
    warm_up: int | None = setting(
        "Steps of linear learning rate warm-up before the schedule.",
        otherwise="0",
        type=click.IntRange(0, LARGEST_COUNT),
        metavar="STEPS",
    )
    no_decay: tuple[str, ...] = _patterns(
        "No weight decay for parameters whose names match, e.g. bias,norm."
    )
    clip_norm: float | None = setting(
        "Scale gradients down to this global norm if theirs is larger.",
        otherwise="never",
        type=click.FLOAT,
        metavar="NORM",
    )
    clip_value: float | None = setting(
        "Clip each gradient element to this magnitude.",
        otherwise="never",
        type=click.FLOAT,
        metavar="VALUE",
    )
    train: tuple[str, ...] = _patterns(
        "Train only parameters whose names match, e.g. bias, or last:2.", first=True
    )
    freeze: tuple[str, ...] = _patterns(
        "Freeze parameters whose names match, e.g. 'conv1*'. May be given repeatedly."
    )

    frozen_as: str | None = setting(
        "Keep frozen weights of convolutions and linear layers in a smaller format: int8 with a "
        "scale for each output channel.",
        otherwise="float32",
        type=click.Choice(FROZEN_FORMATS),
    )
    store_as: str | None = setting(
        "Store activations that wait for the backward pass in a smaller form: exact where bits of "
        "ReLU or indices of max pooling suffice; or as float16, with rounded gradients.",
        otherwise="float32",
        type=click.Choice(STORED_FORMS),
    )

    @property
    def samples(self) -> int:
        """Number of samples in one training step: the micro-batch if set, else the batch.

        Raises:
            ConfigError: The batch is not a multiple of the micro-batch, or one of them is below 1.
        """
        batch = DEFAULT_BATCH if self.batch is None else self.batch
        if batch < 1:
            raise ConfigError(f"the batch is {batch}: it must be 1 or more")
        if self.micro_batch is None:
            return batch
        if self.micro_batch < 1 or batch % self.micro_batch:
            raise ConfigError(
                f"the micro-batch is {self.micro_batch}: it must divide the batch of {batch}"
            )
        return self.micro_batch

    @property
    def micro_batches(self) -> int:
        """Number of training steps per weight update."""
        batch = DEFAULT_BATCH if self.batch is None else self.batch
        return batch // self.samples
