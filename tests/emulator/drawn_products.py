# SPDX-License-Identifier: Apache-2.0
"""Products of matrices of any shape, drawn by a seed, and their sums in NumPy."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from poetfw.kernels import Product
from poetfw.ops import Array

RUN = 32
BETWEEN = 0xA5A5A5A5
"""Bits between rows of a result that lie apart."""
MOST_PRODUCTS = 12_000
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 10, 13, 16, 17, 24, 31, 32, 33, 40, 64, 70, 100)


def drawn_products(count: int, seed: int) -> Iterator[Product]:
    """Passes of dense layers, and products of matrices that are stored either way round."""
    draw = random.Random(seed)
    while count:
        rows, inner, columns = (draw.choice(EXTENTS) for _ in range(3))
        along = (inner, 1), (columns, 1)
        across = (1, rows), (1, inner)
        kind = draw.choice(("forward", "input", "weight", "update", "product", "turned"))
        batch = draw.randint(1, 3) if kind in ("product", "turned") else 1
        if batch * rows * inner * columns > MOST_PRODUCTS:
            continue
        count -= 1
        extents = batch, rows, inner, columns
        if kind == "forward":
            bias = draw.random() < 0.7
            yield Product(*extents, along[0], across[1], along[1], RUN, bias)
        elif kind == "input":
            yield Product(*extents, *along, along[1])
        elif kind in ("weight", "update"):
            yield Product(*extents, across[0], along[1], along[1], applied=kind == "update")
        elif kind == "product":
            left = draw.choice((along[0], across[0]))
            right = along[1] if left == across[0] else draw.choice((along[1], across[1]))
            yield Product(*extents, left, right, along[1], RUN)
        else:
            yield Product(*extents, along[0], along[1], (1, rows), RUN)


def matrices(of: Product, seed: int) -> tuple[Array, Array, Array]:
    """Left and right matrices as they are stored, and the bias; some numbers are 0."""
    draw = np.random.default_rng(seed)
    left, right, _ = of.steps
    found = [
        draw.standard_normal(n).astype(np.float32)
        for n in (of.batch * left, of.batch * right, of.columns)
    ]
    found[1][found[1] < -1] = 0
    return found[0], found[1], found[2]


def summed(of: Product, left: Array, right: Array, bias: Array) -> Array:
    """Results as they are stored: products of a run one after the other, and then the runs."""
    every = []
    for one, other in zip(left.reshape(of.batch, -1), right.reshape(of.batch, -1), strict=True):
        i, k, j = np.ogrid[: of.rows, : of.inner, : of.columns]
        a = one[i * of.left[0] + k * of.left[1]][..., 0]
        b = other[k * of.right[0] + j * of.right[1]][0]
        total = np.zeros((of.rows, of.columns), np.float32)
        run = of.run or of.inner
        for first in range(0, of.inner, run):
            own = np.zeros_like(total)
            for at in range(first, min(first + run, of.inner)):
                own = own + np.outer(a[:, at], b[at])
            total = total + own
        total = total + bias if of.bias else total
        places = (i * of.result[0] + j * of.result[1])[:, 0, :]
        result = np.full(places.max() + 1, BETWEEN, np.uint32).view(np.float32)
        result[places.ravel()] = total.ravel()
        every.append(result)
    return np.concatenate(every)
