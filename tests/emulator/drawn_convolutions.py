# SPDX-License-Identifier: Apache-2.0
"""Convolutions of any shape, drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from poetfw.kernels import Convolution

KERNELS = ((1, 1), (3, 3), (3, 3), (5, 5), (2, 2), (7, 7), (1, 9), (1, 4), (5, 1), (4, 3), (2, 5))
MOST_PRODUCTS = 12_000


def drawn(count: int, seed: int) -> Iterator[Convolution]:
    """Convolutions of any stride, padding, dilation and groups."""
    draw = random.Random(seed)
    while count:
        groups = draw.choice((1, 1, 1, 2, 3, 0))
        inside, outside = draw.randint(1, 9), draw.randint(1, 9)
        channels = (inside, inside) if groups == 0 else (inside * groups, outside * groups)
        kernel = draw.choice(KERNELS)
        dilation = draw.choice(((1, 1), (1, 1), (1, 1), (2, 2), (3, 3), (1, 2), (3, 1)))
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        side = draw.randint(1, 3)
        stride = (side, side) if draw.random() < 0.7 else (draw.randint(1, 3), draw.randint(1, 3))
        any_padding = tuple(draw.randint(0, span) for span in spans * 2)
        same = tuple(span // 2 for span in spans * 2)
        top, left, bottom, right = any_padding if draw.random() < 0.4 else same
        height, width = draw.randint(1, 12), draw.randint(1, 20)
        if height + top + bottom < spans[0] or width + left + right < spans[1]:
            continue
        one = Convolution(
            draw.randint(1, 3),
            channels[0],
            height,
            width,
            channels[1],
            kernel,
            stride,
            (top, left, bottom, right),
            groups or inside,
            dilation,
            draw.random() < 0.3,
        )
        if one.macs <= MOST_PRODUCTS:
            count -= 1
            yield one
