# SPDX-License-Identifier: Apache-2.0
"""What a user may set for a build."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poetfw.boards import Board
from poetfw.limits import TIME_LIMIT_S, WORK_LIMIT
from poetfw.models import DEFAULT_MODEL

DEFAULT_BATCH = 32


@dataclass(frozen=True)
class BuildSettings:
    """What a user may set for a build; None means the model's or the board's default.

    Attributes:
        board: a board's name, or the path of a board's TOML file.
        model: a built-in model's name, or the path of an ONNX file.
        data: a built-in data set's name, or the path of a file or folder.
        features: what is calculated of sounds: `mfcc` or `log-mel`.
        batch: samples in a batch; where the board has no default, `DEFAULT_BATCH`.
        ram_bytes: budget of the arena; None for all that the board leaves.
        deadline_s: upper bound on one training step, in seconds.
        scheduler: how to schedule, one of `poetfw.schedule.SCHEDULERS`.
        loss: one of `poetfw.training.LOSSES`.
        learning_rate, momentum, weight_decay, clip_norm: the optimizer.
        freeze: patterns of the names of parameters that are not trained.
        weights_in_flash: whether the program holds the initial weights, too.
        weights: the path of a file of weights to start from; None for the model's own.
        seed: decides the initial weights and the order of samples.
        checkpoint_every: steps between two checkpoints; 0 for one at the training's end.
        checkpoint_sets: places in storage that checkpoints take in turn, 2 or more.
        work_limit: units of work that the search for a schedule may take; see `poetfw.limits`.
        time_limit_s: seconds that everything may take up to the project, compilers apart.
    """

    board: str
    model: str = DEFAULT_MODEL
    data: str = "digits"
    features: str = "mfcc"
    batch: int | None = None
    ram_bytes: int | None = None
    deadline_s: float | None = None
    scheduler: str = "poet"
    loss: str | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    freeze: tuple[str, ...] = ()
    weights_in_flash: bool = False
    weights: str | None = None
    seed: int = 0
    checkpoint_every: int = 0
    checkpoint_sets: int = 2
    work_limit: float = WORK_LIMIT
    time_limit_s: float = TIME_LIMIT_S

    def on(self, board: Board) -> BuildSettings:
        """The settings, with the board's defaults where nothing is set."""
        defaults = board.training
        return replace(
            self,
            batch=defaults.batch if self.batch is None else self.batch,
            momentum=defaults.momentum if self.momentum is None else self.momentum,
        )
