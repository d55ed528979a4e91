# SPDX-License-Identifier: Apache-2.0
"""Layouts in storage of tensors that ops load by tiles: streamed weights, and stored images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from poetfw.common.transfer import BLOCK_BYTES, page_bytes
from poetfw.ir import Dtype, Tensor
from poetfw.ops.base import Array, Shape

_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Layout of a streamed tensor [outputs, inputs, ...] in storage.

    Tiles are stored by column, in a column by row; the elements of a tile are [output channel,
    input channel, position]. A column begins with a block; the tensor has one trailer, at the end
    of its last block.

    Attributes:
        outputs: number of output channels.
        inputs: number of input channels.
        positions: elements per pair of channels.
        tile_outputs: output channels of a tile, a divisor of `outputs`.
        tile_inputs: input channels of a tile, a divisor of `inputs`.
    """

    outputs: int
    inputs: int
    positions: int
    tile_outputs: int
    tile_inputs: int

    @staticmethod
    def of(shape: Shape, tile: tuple[int, ...]) -> TileLayout:
        """Layout of a weight of this shape.

        Args:
            shape: shape of the weight.
            tile: output and input channels of a tile; of slices of output channels, their number.
        """
        if len(tile) == 1:
            return TileLayout(1, shape[0], math.prod(shape[1:]), 1, *tile)
        return TileLayout(shape[0], shape[1], math.prod(shape[2:]), *tile)

    @staticmethod
    def whole(shape: Shape) -> TileLayout:
        """Layout of a tensor that is one tile."""
        return TileLayout(1, 1, math.prod(shape), 1, 1)

    @property
    def rows(self) -> int:
        """Number of tiles in a column."""
        return self.outputs // self.tile_outputs

    @property
    def columns(self) -> int:
        """Number of tiles in a row."""
        return self.inputs // self.tile_inputs

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.rows * self.columns

    @property
    def run_bytes(self) -> int:
        """Bytes of a tile's input channels for one output channel, which are contiguous."""
        return self.tile_inputs * self.positions * Dtype.F32.size_bytes

    @property
    def tile_bytes(self) -> int:
        """Payload of a tile in bytes."""
        return self.tile_outputs * self.run_bytes

    @property
    def column_request_bytes(self) -> tuple[int, ...]:
        """Bytes of each column in storage, which one request transfers: whole blocks."""
        last = page_bytes(self.column_bytes, BLOCK_BYTES)
        return (_blocks_bytes(self.column_bytes),) * (self.columns - 1) + (last,)

    @property
    def tile_request_bytes(self) -> tuple[int, ...]:
        """Bytes of the blocks that each tile lies in, which one request transfers."""
        return _tile_requests(self)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all columns in storage."""
        return sum(self.column_request_bytes)

    @property
    def column_bytes(self) -> int:
        """Payload of a column in bytes."""
        return self.rows * self.tile_bytes

    @property
    def row_bytes(self) -> int:
        """Payload of a row in bytes."""
        return self.columns * self.tile_bytes

    def split(self, values: Array) -> Array:
        """Elements of each tile, in the order of storage: [tile, element]."""
        cut = values.reshape(
            self.rows, self.tile_outputs, self.columns, self.tile_inputs, self.positions
        )
        return np.ascontiguousarray(cut.transpose(2, 0, 1, 3, 4)).reshape(self.tiles, -1)

    def join(self, tiles: Array) -> Array:
        """Elements of the tensor in its own order, from the elements of each tile."""
        cut = tiles.reshape(
            self.columns, self.rows, self.tile_outputs, self.tile_inputs, self.positions
        )
        return np.ascontiguousarray(cut.transpose(1, 2, 0, 3, 4)).reshape(-1)


@lru_cache(maxsize=512)
def _tile_requests(layout: TileLayout) -> tuple[int, ...]:
    begins = [row * layout.tile_bytes for row in range(layout.rows)]
    sizes = tuple(_blocks_bytes(at % BLOCK_BYTES + layout.tile_bytes) for at in begins)
    last = layout.column_request_bytes[-1] - begins[-1] // BLOCK_BYTES * BLOCK_BYTES
    return sizes * (layout.columns - 1) + (*sizes[:-1], last)


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """Layout of a stored tensor in storage, an image.

    Tiles follow each other by rows, and for the same rows by channels; the elements of a tile are
    [channel, row, element]. Each tile has blocks of its own, with a trailer at their end.

    Attributes:
        channels: number of channels, of images those of all samples.
        rows: rows of the image.
        row_bytes: bytes of a row of one channel.
        tile_channels: channels of a tile, a divisor of `channels`.
        tile_rows: rows of a tile, a divisor of `rows`.
    """

    channels: int
    rows: int
    row_bytes: int
    tile_channels: int
    tile_rows: int

    @property
    def tile_bytes(self) -> int:
        """Payload of a tile in bytes."""
        return self.tile_channels * self.tile_rows * self.row_bytes

    @property
    def request_bytes(self) -> int:
        """Bytes of a tile in storage, which one request transfers."""
        return page_bytes(self.tile_bytes, BLOCK_BYTES)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all tiles in storage."""
        return self.tiles * self.request_bytes

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.channels // self.tile_channels * (self.rows // self.tile_rows)

    def split(self, payload: bytes) -> Array:
        """Bytes of each tile, in the order of storage, from the tensor's: [tile, byte]."""
        groups = self.channels // self.tile_channels, self.rows // self.tile_rows
        values = np.frombuffer(payload, np.uint8)
        cut = values.reshape(groups[0], self.tile_channels, groups[1], self.tile_rows, -1)
        return np.ascontiguousarray(cut.transpose(2, 0, 1, 3, 4)).reshape(self.tiles, -1)

    def payload(self, raw: bytes) -> bytes:
        """The tensor's bytes in its own order, from those in storage."""
        tiles = np.frombuffer(raw, np.uint8).reshape(self.tiles, -1)[:, : self.tile_bytes]
        groups = self.rows // self.tile_rows, self.channels // self.tile_channels
        cut = tiles.reshape(*groups, self.tile_channels, self.tile_rows, self.row_bytes)
        return np.ascontiguousarray(cut.transpose(1, 2, 0, 3, 4)).tobytes()


def image_layout(tensor: Tensor) -> ImageLayout:
    """Layout in storage of a stored tensor."""
    channels, rows, elements = tensor.image
    return ImageLayout(channels, rows, elements * Dtype.F32.size_bytes, *tensor.tile)


def image_of(shape: Shape) -> tuple[int, int, int]:
    """Channels, rows, and elements of a row of a tensor's image.

    Images [N, C, H, W] have N · C channels of H rows. Of other tensors, a channel is a vector along
    the last axis, whose rows are single elements.
    """
    if len(shape) == 4:
        return shape[0] * shape[1], shape[2], shape[3]
    return math.prod(shape[:-1]), shape[-1], 1


def _blocks_bytes(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


def aligned(size_bytes: int) -> int:
    """Size rounded up to the alignment of buffers in a workspace, in bytes."""
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
