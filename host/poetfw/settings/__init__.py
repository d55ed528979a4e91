# SPDX-License-Identifier: Apache-2.0
"""Settings of a build."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from poetfw.common.errors import ConfigError
from poetfw.common.limits import TIME_LIMIT_S, WORK_LIMIT
from poetfw.common.option_values import DATA, DEFAULT_BATCH, DEFAULT_MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from poetfw.boards import Board
    from poetfw.schedule.several import DevicesAnswer


@dataclass(frozen=True)
class DevicesSettings:
    """Settings of a build for several devices.

    Attributes:
        files: one TOML file per device.
        ram_fractions: per device its RAM, as a fraction of what keeping everything takes; None for
            the RAM in its file.
        parallel: True if the devices work at once.
        followed: an answer to follow instead of searching for one; None for a search.
        apart: True if each device has a program of its own, on a board of its own.
    """

    files: tuple[Path, ...]
    ram_fractions: tuple[float, ...] | None = None
    parallel: bool = False
    followed: DevicesAnswer | None = None
    apart: bool = False


@dataclass(frozen=True)
class BuildSettings:
    """Settings of a build; None means the model's or the board's default.

    Attributes:
        board: a board's name, or the path of a board's TOML file; the devices' where there are any.
        devices: several devices instead of a board's only one; None for that.
        model: a built-in model's name, or the path of an ONNX file.
        data: a built-in data set's name, or the path of a file or folder.
        features: what is calculated of sounds, `mfcc` or `log-mel`; None for MFCCs of sounds.
        batch: samples in a batch; where the board has no default, `DEFAULT_BATCH`.
        micro_batch: samples of a training step, which adds up gradients until a batch is complete;
            None for whole batches.
        ram_bytes: budget of the arena; None for all that the board leaves.
        deadline_s: upper bound on one training step, in seconds.
        scheduler: how to schedule, one of `poetfw.common.option_values.SCHEDULERS`.
        loss: one of `poetfw.training.LOSSES`.
        class_weights: how much each class counts in a classifier's loss; empty for all alike.
        label_smoothing: the part of a label that is spread over all classes.
        ignore_index: the label of samples that do not count; None for none.
        optimizer: one of `poetfw.optimizers.OPTIMIZERS`.
        learning_rate, momentum, weight_decay, clip_norm, clip_value: the optimizer's settings.
        optimizer_settings: others, which not all optimizers have, by name.
        schedule: how the learning rate changes, as `poetfw.optimizers.Schedule.parse` reads it.
        warm_up: steps in which the learning rate rises first.
        no_decay: patterns of the names of parameters whose weights do not decay.
        freeze: patterns of the names of parameters that are not trained.
        train: patterns of the names of the only parameters that are trained; empty for all.
        weights_in_flash: whether the program holds the initial weights, too.
        weights: the path of a file of weights to start from; None for the model's own.
        threads: that kernels divide their results among; None for what the board's file says.
        seed: decides the initial weights and the order of samples.
        checkpoint_every: steps between two checkpoints; 0 for one at the training's end.
        checkpoint_sets: places in storage that checkpoints take in turn, 2 or more.
        slices: whether the application can have a training step done in parts.
        watchdog_s: seconds after which the board's watchdog resets it unless the application feeds
            it; None for no watchdog.
        ring: samples of its own that the device keeps in storage, 0 or from 2 on.
        ring_share: how many samples of each training step come from them; None for half of it.
        work_limit: units of work that the search for a schedule may take (`poetfw.common.limits`).
        time_limit_s: seconds that everything may take up to the project, compilers apart.
    """

    board: str
    model: str = DEFAULT_MODEL
    data: str = DATA[0]
    features: str | None = None
    batch: int | None = None
    micro_batch: int | None = None
    ram_bytes: int | None = None
    deadline_s: float | None = None
    scheduler: str = "poet"
    loss: str | None = None
    class_weights: tuple[float, ...] = ()
    label_smoothing: float = 0.0
    ignore_index: int | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    clip_value: float | None = None
    optimizer_settings: tuple[tuple[str, Any], ...] = ()
    schedule: str | None = None
    warm_up: int | None = None
    no_decay: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    weights_in_flash: bool = False
    weights: str | None = None
    threads: int | None = None
    seed: int = 0
    checkpoint_every: int = 0
    checkpoint_sets: int = 2
    slices: bool = False
    watchdog_s: float | None = None
    ring: int = 0
    ring_share: int | None = None
    work_limit: float = WORK_LIMIT
    time_limit_s: float = TIME_LIMIT_S
    devices: DevicesSettings | None = None

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

    def on(self, board: Board) -> BuildSettings:
        """The settings, with the board's defaults where nothing is set.

        The board's momentum is a default of the models' own optimizer only.
        """
        defaults = board.training
        momentum = defaults.momentum if self.optimizer in (None, "sgd") else None
        return replace(
            self,
            batch=defaults.batch if self.batch is None else self.batch,
            momentum=momentum if self.momentum is None else self.momentum,
        )
