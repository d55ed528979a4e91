# SPDX-License-Identifier: Apache-2.0
"""Kernels of a Cortex-M4F, generated from a description of their loops.

A pass of a convolution is covered by tiles: an inner block in assembly keeps a tile of results or
sums in registers, and a table of constants says where it goes. The code of a block depends on its
tile only, so that layers share blocks; loops around blocks are in tiles_asm.S.

`tiling` chooses the tiles of a pass, `tilings` those of a network together. Either gives for each
pass a `TiledPass`: blocks to assemble, the table in C, and instructions, cycles, stack and flash.
"""

from __future__ import annotations

from poetfw.kernels.convolution import Convolution, ConvolutionPass, Pass
from poetfw.kernels.dot import Dot
from poetfw.kernels.networks import tilings
from poetfw.kernels.products import Product
from poetfw.kernels.stencil import Stencil
from poetfw.kernels.tilings import InnerBlock, Task, TiledPass, tiling

__all__ = [
    "Convolution",
    "ConvolutionPass",
    "Dot",
    "InnerBlock",
    "Pass",
    "Product",
    "Stencil",
    "Task",
    "TiledPass",
    "tiling",
    "tilings",
]
