# SPDX-License-Identifier: Apache-2.0
"""Types of the keyword arguments that settings declare.

Generated from `poetfw.settings`: `pytest tests/unit/api --update-golden`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict


class PlanOptions(TypedDict, total=False):
    """Options of `poetfw.plan`; None for the default."""

    as_float32: bool | None
    """Convert a file's model from float64, float16 or bfloat16 to float32."""
    features: Literal["mfcc", "log-mel"] | None
    """Features computed from sounds. Default: mfcc."""
    seed: int | None
    """Random seed of initial weights and sample order."""
    deadline: float | None
    """Longest time of one training step."""
    batch: int | None
    """Batch size in samples. Default: the board's, or 32."""
    micro_batch: int | None
    """
    Compute gradients of so many samples at a time and add them up to a batch: saves activation
    memory; a training step is then one micro-batch. Default: whole batches.
    """
    loss: (
        Literal["softmax_cross_entropy", "nll", "mse", "l1", "huber", "binary_cross_entropy"] | None
    )
    """Loss function. Default: the model's."""
    class_weights: Sequence[float] | str | None
    """Weight of each class in a classifier's loss. Default: equal weights."""
    label_smoothing: float | None
    """Label smoothing: share of each label that is spread over all classes. Default: 0."""
    ignore_index: int | None
    """Exclude samples with this label from the loss. Default: none."""
    optimizer: Literal["adagrad", "adam", "adamw", "rmsprop", "sgd"] | None
    """adagrad, adam, adamw, rmsprop, sgd, with PyTorch's defaults. Default: the model's."""
    learning_rate: float | None
    """Step size. Default: the optimizer's."""
    weight_decay: float | None
    """L2 penalty. Default: the optimizer's."""
    eps: float | None
    """adagrad, adam, adamw, rmsprop: Added to the root that is divided by; above 0."""
    betas: Sequence[float] | str | None
    """adam, adamw: Decays of both moments, in [0, 1)."""
    alpha: float | None
    """rmsprop: Decay of the mean square, in [0, 1)."""
    nesterov: bool | None
    """sgd: Nesterov's momentum, which looks ahead."""
    momentum: float | None
    """rmsprop, sgd: Momentum, in [0, 1)."""
    schedule: str | None
    """
    Learning rate schedule: constant; cosine:STEPS or linear:STEPS, which decay to 0; or
    step:STEPS:FACTOR, which multiplies by FACTOR. Default: constant.
    """
    warm_up: int | None
    """Steps of linear learning rate warm-up before the schedule. Default: 0."""
    no_decay: Sequence[str] | None
    """No weight decay for parameters whose names match, e.g. bias,norm."""
    clip_norm: float | None
    """Scale gradients down to this global norm if theirs is larger. Default: never."""
    clip_value: float | None
    """Clip each gradient element to this magnitude. Default: never."""
    train: Sequence[str] | None
    """Train only parameters whose names match, e.g. bias, or last:2."""
    freeze: Sequence[str] | None
    """Freeze parameters whose names match, e.g. 'conv1*'. May be given repeatedly."""
    frozen_as: Literal["float16", "int8"] | None
    """
    Keep frozen weights of convolutions and linear layers in a smaller format: int8 with a scale
    for each output channel. Default: float32.
    """
    store_as: Literal["exact", "float16"] | None
    """
    Store activations that wait for the backward pass in a smaller form: exact where bits of
    ReLU or indices of max pooling suffice; or as float16, with rounded gradients. Default:
    float32.
    """
    scheduler: (
        Literal[
            "checkpoint-all",
            "poet",
            "poet-paging-off",
            "poet-remat-off",
            "poet-algorithm-1",
            "checkmate",
            "chen-sqrt",
            "chen-greedy",
            "griewank",
            "dtr",
            "capuchin",
            "pofo",
            "greedy",
            "dynprog",
            "vdnn",
            "autoswap",
            "swap-on-demand",
            "swap-reduced",
            "swap-proactive",
            "tflms",
        ]
        | None
    )
    """Scheduler of recomputation and paging; `poetfw compare` compares them."""
    devices: Sequence[PathLike[str] | str] | None
    """Train on several devices instead of a board; each has an arena of its own."""
    ram_fraction: Sequence[float] | str | None
    """
    With --devices: RAM for tensors of each, as a fraction of what keeping everything takes.
    Default: from each device's file.
    """
    parallel: bool | None
    """With --devices: let devices compute in parallel."""
    apart: bool | None
    """With --devices: build one program per device, each on a board of its own."""
    replay: PathLike[str] | str | None
    """With --devices: use the plan of this answer of `poetfw schedule --devices --json`."""
    weights_in_flash: bool | None
    """Keep initial weights in flash: training can then start without a storage image."""
    threads: int | None
    """
    Threads of each kernel, on a board with an operating system; results are bit-identical for
    any number. Default: the board file's.
    """
    checkpoint_every: int | None
    """
    Steps between two checkpoints in storage, from which training resumes after a power cut.
    Default: at the end only.
    """
    checkpoint_sets: int | None
    """Storage slots that checkpoints use in turn; more slots spread the wear."""
    keep_features: Literal["auto", "storage", "ram", "never"] | None
    """
    Keep the frozen part's output for each training sample in storage or in RAM, instead of
    calculating it in every epoch; auto: where that takes less energy.
    """
    slices: bool | None
    """Let the application run a training step in slices, by poetfw_train_some."""
    watchdog: float | None
    """Make the board's watchdog reset it if training hangs for this time. Default: no watchdog."""
    ring: int | None
    """Samples recorded by the device itself that storage keeps for training."""
    ring_share: int | None
    """Samples of each batch that come from the ring. Default: half of them."""
    db: PathLike[str] | str | None
    """Database of measured costs. Default: poetfw/costs.sqlite in your data folder."""
    costs: Literal["analytic", "measured"] | None
    """Costs to plan with. Default: measured, if the board has any."""
    work_limit: float | None
    """Search effort; a unit is about a second of one idle core, and does not depend on load."""
    time_limit: float | None
    """
    Safety limit for the build without compilers; if it ends a search, results may differ
    between runs.
    """
    toolchain: Literal["auto", "system", "stock", "clang", "zig"] | None
    """
    Toolchain: this computer's GCC (system), that of the board's stock PlatformIO platform,
    clang, or zig (pip install 'poetfw[portable]').
    """


class RunOptions(TypedDict, total=False):
    """Options of `Firmware.run`; None for the default."""

    steps: int | None
    """Training steps. Default: the model's epochs."""
    epochs: int | None
    """Passes over the training samples."""
    skip_evaluation: bool | None
    """Train without evaluating the held-out samples afterwards."""
    verify: bool | None
    """Check every op, compare with NumPy and, bit by bit, with a run that keeps everything."""
    timeout: float | None
    """Time limit of a run."""
    checkpoint_every: int | None
    """Steps between two checkpoints; 0 for one at the end. Default: the build's."""
    resume: bool | None
    """Resume from the last checkpoint."""
    patience: int | None
    """Stop after so many epochs without improvement; keep the best. On a twin only."""
    silence: float | None
    """Longest silence of the device, such as within a step."""
    emulator: str | None
    """Twin of the board to run on. Default: its first."""
    port: Sequence[str] | str | None
    """
    The board's serial port, or socket://HOST:PORT. For a build with --apart: DEVICE=PORT; may
    be given for each device. Default: the only one on USB.
    """
    host: str | None
    """Connect to a Linux board by ssh, under this name."""
    on_board: bool | None
    """Run on the board itself instead of a twin."""
    threads: int | None
    """
    Threads of each kernel, on a board with an operating system; results are bit-identical for
    any number. Default: the build's.
    """
    metrics: PathLike[str] | str | None
    """Write loss and metric of each step."""
    tensorboard: PathLike[str] | str | None
    """Also write them as TensorBoard events."""
    trace: bool | None
    """Also time each op and each transfer of a training step."""


class SweepOptions(TypedDict, total=False):
    """Options of `poetfw.sweep`; None for the default."""

    fractions: Sequence[float] | str | None
    """
    RAM budgets beside what never leaves RAM, as fractions of what keeping everything takes.
    Default: 0.2 to 0.9.
    """
    deadlines: Sequence[float | None] | str | None
    """Deadlines as multiples of checkpoint-all's time, or none. Default: none."""
    batch: int | None
    """Batch size in samples."""
    schedulers: (
        Sequence[
            Literal[
                "checkpoint-all",
                "poet",
                "poet-paging-off",
                "poet-remat-off",
                "poet-algorithm-1",
                "checkmate",
                "chen-sqrt",
                "chen-greedy",
                "griewank",
                "dtr",
                "capuchin",
                "pofo",
                "greedy",
                "dynprog",
                "vdnn",
                "autoswap",
                "swap-on-demand",
                "swap-reduced",
                "swap-proactive",
                "tflms",
            ]
        ]
        | str
        | None
    )
    """Schedulers to compare. Default: all but poet-algorithm-1."""
    db: PathLike[str] | str | None
    """Database of measured costs. Default: poetfw/costs.sqlite in your data folder."""
    costs: Literal["analytic", "measured"] | None
    """Costs to plan with. Default: measured, if the board has any."""
    work_limit: float | None
    """
    Search effort for each scheduler at each budget; a unit is about a second of one idle core,
    and does not depend on load.
    """
    time_limit: float | None
    """Safety limit for each search; if it ends a search, results may differ between runs."""
    solver: str | None
    """Solver: one that cvxpy finds installed."""
    model_as: Literal["device", "poet"] | None
    """Cost model: all that the device does, or only what the POET paper models."""


class ScheduleOptions(TypedDict, total=False):
    """Options of `poetfw.schedule`; None for the default."""

    scheduler: (
        Literal[
            "checkpoint-all",
            "poet",
            "poet-paging-off",
            "poet-remat-off",
            "poet-algorithm-1",
            "checkmate",
            "chen-sqrt",
            "chen-greedy",
            "griewank",
            "dtr",
            "capuchin",
            "pofo",
            "greedy",
            "dynprog",
            "vdnn",
            "autoswap",
            "swap-on-demand",
            "swap-reduced",
            "swap-proactive",
            "tflms",
        ]
        | None
    )
    """Scheduler of recomputation and paging; `poetfw compare` compares them."""
    ram_fraction: Sequence[float] | str | None
    """
    RAM budget beside what never leaves RAM, as a fraction of what keeping everything takes;
    with --devices one for each, with --pareto the smallest and the largest.
    """
    deadline: float | None
    """Longest time of one training step."""
    work_limit: float | None
    """Search effort; a unit is about a second of one idle core, and does not depend on load."""
    time_limit: float | None
    """Safety limit for the whole command; if it ends a search, results may differ between runs."""
    solver: str | None
    """Solver: one that cvxpy finds installed."""
    model_as: Literal["device", "poet"] | None
    """Cost model: all that the device does, or only what the POET paper models."""
