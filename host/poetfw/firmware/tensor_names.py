# SPDX-License-Identifier: Apache-2.0
"""Names of tensors and constants in generated C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from poetfw.firmware.c_text import comment_text, literal, shape_text
from poetfw.firmware.library import flash_array
from poetfw.firmware.prediction import Prediction
from poetfw.firmware.slots import Slot, SlotPurpose
from poetfw.firmware.views import (
    ConstantsView,
    Define,
    FlashView,
    TilesView,
)
from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.kernels import InnerBlock
from poetfw.ops import Constants, Kernel
from poetfw.ops.base import PLAIN_LOOPS, Field, TileTable
from poetfw.ops.tile_tables import TileChoice
from poetfw.training import Program

C_TYPES: Mapping[Dtype, str] = {Dtype.F32: "float", Dtype.I32: "int32_t"}


class Names:
    """Identifiers for tensors, ops and slots."""

    def __init__(self, program: Program, prediction: Prediction | None) -> None:
        self._table: dict[str, str] = {}
        self._persistent = {
            tensor.name: self._add(f"P{index:04d}", tensor.name)
            for index, tensor in enumerate(program.persistent)
        } | {
            tensor.name: self._add(f"C{index:04d}", tensor.name)
            for index, tensor in enumerate(program.constants)
        }
        self._transient: dict[tuple[str, str], str] = {}
        index = 0
        graphs = [program.training, program.evaluation]
        for graph in (*graphs, *([] if prediction is None else [prediction.graph])):
            for tensor in graph.tensors:
                if tensor.role.transient:
                    identifier = self._add(f"T{index:04d}", tensor.name)
                    self._transient[graph.name, tensor.name] = identifier
                    index += 1
        self._training = program.training

    def _add(self, identifier: str, name: str) -> str:
        self._table[identifier] = name
        return identifier

    def tensor(self, tensor: Tensor, graph: Graph | None = None) -> str:
        """Identifier of a tensor; transient tensors are looked up in their graph."""
        if not tensor.role.transient:
            return self._persistent[tensor.name]
        return self._transient[(graph or self._training).name, tensor.name]

    def slot(self, slot: Slot) -> str:
        """Name of the macro with a slot's index."""
        if slot.image is not None:
            return self.stored(slot.tensor)
        if slot.purpose is SlotPurpose.PAGE:
            return f"SLOT_{self._transient[self._training.name, slot.tensor]}"
        prefix = "CAPTURE" if slot.purpose is SlotPurpose.CAPTURE else "SLOT"
        return f"{prefix}_{self._persistent[slot.tensor]}"

    def stream(self, tensor: str) -> str:
        """Macro of a streamed tensor's index."""
        return f"STREAM_{self._persistent[tensor]}"

    def stored(self, tensor: str) -> str:
        """Macro of the index of a stored tensor, which the steps share that have it, or a table."""
        if tensor in self._persistent:
            return f"STORED_{self._persistent[tensor]}"
        identifiers = (found for (_, name), found in self._transient.items() if name == tensor)
        return f"STORED_{next(identifiers)}"

    def address(self, identifier: str, tensor: Tensor, offset: int) -> Define:
        """Macro of a tensor's address."""
        c_type = C_TYPES[tensor.dtype]
        return Define(
            identifier,
            f"(({c_type} *)(void *)(poet_arena + {offset}u))",
            f"{comment_text(tensor.name)} {shape_text(tensor.shape)}",
        )

    def in_flash(self, tensor: Tensor) -> FlashView:
        """Array of a constant in flash, and the macro of its address."""
        identifier = self._persistent[tensor.name]
        return FlashView(
            identifier,
            f"((const {C_TYPES[tensor.dtype]} *)(const void *){flash_array(identifier)})",
            f"{comment_text(tensor.name)} {shape_text(tensor.shape)}",
            flash_array(identifier),
            tensor.elements,
        )

    def table(self) -> Mapping[str, str]:
        """Names in the model by identifier."""
        return dict(self._table)


class ConstantTable:
    """The kernels' structs of constants, and the tiles that they point to.

    Ops with equal constants share one.
    """

    def __init__(self, tiles: TileChoice) -> None:
        """Begin a table.

        Args:
            tiles: those of each pass of a convolution.
        """
        self._tiles_for = tiles
        self._views: dict[tuple[str, tuple[tuple[str, str], ...]], ConstantsView] = {}
        self._tiles: dict[TileTable, TilesView] = {}
        self._plain: dict[str, bool] = {}
        self._blocks: dict[str, InnerBlock] = {}

    def arguments(self, op: Op, kernel: Kernel, identifier: Callable[[str], str]) -> list[str]:
        """Arguments of a kernel's call in C, without its workspace.

        Args:
            op: the op, which is named in the comment of the constants.
            kernel: the kernel.
            identifier: identifier of a tensor by its name.
        """
        arguments = []
        if kernel.struct is not None:
            arguments.append(f"&{self._add(op, kernel.struct, kernel.fields)}")
        for argument in kernel.arguments:
            if argument is None:
                arguments.append("NULL")
            elif isinstance(argument, Constants):
                constants = self._add(op, argument.struct, argument.fields)
                arguments.append(f"&{constants}.{argument.member}")
            elif isinstance(argument, int):
                arguments.append(literal(argument))
            else:
                arguments.append(identifier(argument))
        return arguments

    def _add(self, op: Op, struct: str, values: Sequence[tuple[str, Field]]) -> str:
        """The identifier of constants of a kernel."""
        fields = tuple(
            (name, self._tiles_of(value) if isinstance(value, TileTable) else literal(value))
            for name, value in values
        )
        key = (struct, fields)
        if key not in self._views:
            self._views[key] = ConstantsView(
                struct, f"poet_op{len(self._views):04d}", comment_text(op.name), fields
            )
        return self._views[key].name

    def _tiles_of(self, table: TileTable) -> str:
        """The name of a table of tiles; a null pointer where the core or the op has none."""
        tiles = self._tiles_for(table)
        self._plain[table.plain_loop] = self._plain.get(table.plain_loop, False) or tiles is None
        if tiles is None:
            return "NULL"
        if table not in self._tiles:
            name = f"poet_tiles{len(self._tiles):04d}"
            self._tiles[table] = TilesView(name, tiles.table(name))
            self._blocks |= {block.name: block for block in tiles.blocks}
        return self._tiles[table].name

    def views(self) -> tuple[ConstantsView, ...]:
        """Views of all structs."""
        return tuple(self._views.values())

    def tiles(self) -> tuple[TilesView, ...]:
        """The tables of tiles that they point to."""
        return tuple(self._tiles.values())

    def plain_loops(self) -> tuple[Define, ...]:
        """Definitions of shapes.h: 0 where no op of a kind needs its plain loops."""
        return tuple(
            Define(name, str(int(self._plain.get(name, True))), comment)
            for name, comment in PLAIN_LOOPS.items()
        )

    def blocks(self) -> tuple[InnerBlock, ...]:
        """The inner blocks that the tiles name, by their names."""
        return tuple(self._blocks[name] for name in sorted(self._blocks))
