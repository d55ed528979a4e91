# SPDX-License-Identifier: Apache-2.0
"""Schedule problems of networks that are not built in: an Elman network, a long LSTM, a U-Net."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from poetfw.boards import Board
from poetfw.models import Model
from poetfw.models.layers import Layers
from poetfw.models.recurrent import lstm_cell, recurrent
from poetfw.planning import BuildSettings, training_problem_of
from poetfw.schedule import ScheduleProblem

_LSTM_STEPS = 256
_LSTM_OPS = 5_000  # more than a build accepts: no firmware comes of it
_RNN_STEPS = 16
_LEVELS = (8, 16, 32)
"""Channels at each level of the U-Net before its bottom."""


def elman(batch: int, seed: int) -> Model:
    """Unrolled recurrent network of 16 time steps: h' = tanh(Wx + Uh) (Elman, 1990)."""

    def cell(layers: Layers, at: str, wx: str, uh: str, h: str, c: str) -> tuple[str, str]:
        return layers.op("tanh", f"{at}.h", (layers.add(f"{at}.sum", wx, uh),)), c

    return recurrent("rnn", "Elman network", 1, cell, batch, seed, steps=_RNN_STEPS)


def long_lstm(batch: int, seed: int) -> Model:
    """The built-in LSTM over 256 time steps instead of 8."""
    return recurrent(
        "lstm-256",
        "LSTM of 256 time steps",
        4,
        lstm_cell,
        batch,
        seed,
        steps=_LSTM_STEPS,
        most_ops=_LSTM_OPS,
    )


def unet(batch: int, seed: int) -> Model:
    """U-Net for 16 x 16 images (Ronneberger, Fischer, Brox, 2015), padded and in three levels.

    A level has two 3 x 3 convolutions. Going up, a 1 x 1 convolution quadruples the channels, which
    are then rearranged to twice the height and width (Shi et al., 2016), and joined by the output
    of the same level going down.
    """
    layers = Layers("u-net", (batch, 1, 16, 16), seed)

    def twice(name: str, x: str, channels: int) -> str:
        for which in "ab":
            x = layers.conv(f"{name}.{which}", x, channels, 3, padding=(1, 1, 1, 1), bias=True)
            x = layers.relu(f"{name}.{which}.relu", x)
        return x

    x, skips = layers.input, []
    for channels in _LEVELS:
        skips.append(twice(f"down{channels}", x, channels))
        x = layers.pool("max_pool2d", f"pool{channels}", skips[-1], 2)
    x = twice("bottom", x, 2 * _LEVELS[-1])
    for channels, skip in zip(reversed(_LEVELS), reversed(skips), strict=True):
        x = layers.conv(f"up{channels}", x, 4 * channels, 1)
        size = layers.shape(x)[-1]
        view = {
            "view": (batch, channels, 2, 2, size, size),
            "axes": (0, 1, 4, 2, 5, 3),
            "shape": (batch, channels, 2 * size, 2 * size),
        }
        x = layers.op("transpose", f"up{channels}.larger", (x,), view)
        x = layers.op("concat", f"join{channels}", (skip, x), {"axis": 1})
        x = twice(f"rise{channels}", x, channels)
    x = layers.conv("image", x, 1, 1, bias=True)
    return Model(
        *layers.build(layers.flatten("flatten", x)),
        loss="mse",
        description="U-Net that restores 1 x 16 x 16 images",
    )


def _trained(build: Callable[[int, int], Model], board: Board, batch: int) -> ScheduleProblem:
    """The schedule problem of a model on a board, with kernels of the least workspace."""
    model = build(batch, 0)
    settings = BuildSettings(board=board.name, model=model.name, batch=batch).on(board)
    return training_problem_of(settings, board, model).problem


TIGHT_NETWORKS: Mapping[str, Callable[[Board, int], ScheduleProblem]] = MappingProxyType(
    {
        "rnn": partial(_trained, elman),
        "lstm-256": partial(_trained, long_lstm),
        "u-net": partial(_trained, unet),
    }
)
"""Functions from (board, batch) to the schedule problem of a training step."""
