# SPDX-License-Identifier: Apache-2.0
"""Training beside PyTorch: the same samples, and after each step the same loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from poetfw.ops import Array
from poetfw.training import Reference

MOMENTUM = 0.9


def train_beside(
    ours: Reference,
    theirs: nn.Module,
    learning_rate: float,
    samples: Iterable[tuple[Array, Array]],
    loss_of: Callable[[torch.Tensor, torch.Tensor], Any],
    **close: float,
) -> None:
    """Take a step of SGD on each batch, here and in PyTorch, and compare the losses.

    Args:
        ours: the network here, trained with this learning rate and MOMENTUM.
        theirs: the same in PyTorch; it is given samples in the type of its parameters.
        learning_rate: of both.
        samples: batches of features and labels.
        loss_of: PyTorch's loss of features and labels.
        close: how close the losses must be, as `pytest.approx` takes it.
    """
    optimizer = torch.optim.SGD(theirs.parameters(), lr=learning_rate, momentum=MOMENTUM)
    dtype = next(theirs.parameters()).dtype
    for x, y in samples:
        optimizer.zero_grad()
        loss = loss_of(torch.tensor(x, dtype=dtype), torch.tensor(y))
        loss.backward()
        optimizer.step()
        given = y.astype(np.int32) if y.dtype == np.int64 else y
        assert ours.step(x, given) == pytest.approx(loss.item(), **close)
