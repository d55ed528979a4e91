# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, which dense layers are, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """Extents of result[i][j] = sum over k of left[i][k] * right[k][j], for some pairs of matrices.

    In memory, elements of a matrix are a number of elements apart. Matrices follow each other.

    Attributes:
        batch: pairs.
        rows: i.
        inner: k.
        columns: j.
        left: elements from an i to the next, and from a k.
        right: elements from a k to the next, and from a j.
        result: elements from an i to the next, and from a j.
        run: products that are summed before their sum is added to a total; 0 for all.
        bias: each column has a number that is added to its results.
        applied: results go to an optimizer as they are completed, without being stored.
        continued: sums begin with what is in the result.
    """

    batch: int
    rows: int
    inner: int
    columns: int
    left: tuple[int, int]
    right: tuple[int, int]
    result: tuple[int, int]
    run: int = 0
    bias: bool = False
    applied: bool = False
    continued: bool = False

    @property
    def steps(self) -> tuple[int, int, int]:
        """Elements of a left, a right and a result matrix, which is how far the next one is."""
        return self.rows * self.inner, self.inner * self.columns, self.rows * self.columns
