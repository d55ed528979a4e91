# SPDX-License-Identifier: Apache-2.0
"""Settings of a network, and of its training."""

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
)
from poetfw.optimizers import LARGEST_COUNT, OPTIMIZERS
from poetfw.settings.declaration import Setting, Settings, parts, setting
from poetfw.settings.values import DATA_SET, MODEL, Listed, NameOrFile, Numbers


@dataclass(frozen=True)
class NetworkSettings(Settings, group="Network and data"):
    """A network, the weights that it starts from, and the data that it is trained on."""

    model: str = setting(
        "A built-in model (`poetfw models`), or a .pt2 or .onnx file.",
        DEFAULT_MODEL,
        type=MODEL,
        metavar="NAME|FILE",
        first=True,
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
        "What is calculated of sounds.", otherwise=FEATURES[0], type=click.Choice(FEATURES)
    )
    seed: int = setting(
        "Decides initial weights and the order of samples.",
        0,
        type=click.IntRange(0, 2**32 - 1),
        group="Training",
    )


def _of_optimizers() -> dict[str, Setting]:
    """The settings that not all optimizers have, by name."""
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
    """Everything that decides a training step's ops, beside the network.

    None means the model's or the board's default. A board's momentum is also one, which is why it
    is set by itself and not among `optimizer_settings`.
    """

    batch: int | None = setting(
        "Samples in a batch.",
        otherwise=f"the board's, or {DEFAULT_BATCH}",
        type=click.IntRange(1),
        first=True,
    )
    micro_batch: int | None = setting(
        "Add up the gradients of so many samples at a time, until a batch is complete: activations "
        "take less RAM, and a training step is a micro-batch.",
        otherwise="whole batches",
        type=click.IntRange(1),
        metavar="SAMPLES",
    )
    loss: str | None = setting("The loss.", otherwise="the model's", type=click.Choice(LOSSES))
    class_weights: tuple[float, ...] = setting(
        "How much each class counts in a classifier's loss.",
        (),
        otherwise="all alike",
        type=Numbers(),
        metavar="W,W,...",
    )
    label_smoothing: float = setting(
        "The part of a label that is spread over all classes.",
        0.0,
        otherwise="0",
        type=click.FLOAT,
        metavar="SHARE",
    )
    ignore_index: int | None = setting(
        "Samples of this label do not count in the loss.",
        otherwise="all count",
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
        "How the learning rate changes: constant, cosine:STEPS and linear:STEPS fall to 0, "
        "step:STEPS:FACTOR is multiplied.",
        otherwise="constant",
        metavar="SHAPE:STEPS",
    )
    warm_up: int | None = setting(
        "Steps in which the learning rate rises, before the schedule.",
        otherwise="0",
        type=click.IntRange(0, LARGEST_COUNT),
        metavar="STEPS",
    )
    no_decay: tuple[str, ...] = _patterns(
        "The weights of the parameters of these names do not decay, e.g. bias,norm."
    )
    clip_norm: float | None = setting(
        "Scale gradients down where their global norm is larger.",
        otherwise="never",
        type=click.FLOAT,
        metavar="NORM",
    )
    clip_value: float | None = setting(
        "Clip each element of the gradients to this magnitude.",
        otherwise="never",
        type=click.FLOAT,
        metavar="VALUE",
    )
    train: tuple[str, ...] = _patterns(
        "Train nothing but the parameters of these names, e.g. bias, or last:2.", first=True
    )
    freeze: tuple[str, ...] = _patterns(
        "Do not train the parameters of these names, e.g. 'conv1*'. May be given repeatedly."
    )

    frozen_as: str | None = setting(
        "Keep frozen weights of convolutions and linear layers in a smaller format: int8 with a "
        "scale for each output channel.",
        otherwise="float32",
        type=click.Choice(FROZEN_FORMATS),
    )

    @property
    def samples(self) -> int:
        """Samples of one training step.

        Raises:
            ConfigError: a batch is not made up of whole micro-batches.
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
        """Training steps that make one update."""
        batch = DEFAULT_BATCH if self.batch is None else self.batch
        return batch // self.samples
