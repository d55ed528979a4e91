# SPDX-License-Identifier: Apache-2.0
"""Ops on stored tensors: activations and gradients in storage, which ops move by tiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from poetfw.ir import Attribute, Op, Tensor
from poetfw.ops.base import KINDS, LossKind, OpKind
from poetfw.ops.nests import Builder, Loads, Nest, Order, Pieces
from poetfw.ops.streamed import LoadedOp, StreamedForward, StreamedKind, WrappingKind
from poetfw.ops.update import UpdateKind

_PREFIX = "pieced_"
_LOOPS, _CUT, _KEPT, _ORDER = "loops", "cut", "kept", "order"


class PiecedOp(WrappingKind):
    """Op that runs piece by piece, with operands in storage.

    Inputs, output, updates and attributes are those of the wrapped op, with attributes `loops`, the
    dimensions along which it is cut, a letter each from the outermost loop on, `cut`, the extents
    of a piece along these, `kept`, positions of the stored inputs that are loaded as a whole
    before the loops, and `order`, that of its plain ops if it is not in turn.
    """

    own_attributes = (_LOOPS, _CUT, _KEPT, _ORDER)

    def __init__(self, kind: OpKind) -> None:
        """Wrap an operator."""
        super().__init__(pieced_name(kind.name), kind)

    def plain(self, op: Op) -> tuple[Op, ...]:
        """Equivalent ops on tensors in RAM, in order."""
        wrapped, kind = self.wrapped(op), self.wrapped_kind
        return kind.plain(wrapped) if isinstance(kind, StreamedKind) else (wrapped,)

    def loads(self, op: Op, tensors: Mapping[str, Tensor]) -> Loads:
        """Those of the wrapped op; by input channels if it is cut along these to sum over them."""
        return self.loads_in(op, tensors, str(op.attributes.get(_LOOPS, "")))

    def loads_in(self, op: Op, tensors: Mapping[str, Tensor], loops: str) -> Loads:
        """The same for some loops."""
        wrapped, kind = self.wrapped(op), self.wrapped_kind
        if not isinstance(kind, StreamedKind):
            return Loads()
        loads = kind.loads(wrapped, tensors)
        by_columns = isinstance(kind, StreamedForward) and "i" in loops
        return loads.by_columns() if by_columns else loads

    def pieces(self, op: Op, tensors: Mapping[str, Tensor]) -> Pieces:
        """Those that its attributes say."""
        kept = op.integers(_KEPT) if _KEPT in op.attributes else ()
        order = Order(str(op.attributes.get(_ORDER, "")))
        return Pieces(str(op.attributes[_LOOPS]), op.integers(_CUT), kept, order)

    def sketch(
        self, op: Op, tensors: Mapping[str, Tensor], pieces: Pieces, numbers: Collection[int]
    ) -> Nest:
        """Moves of some plain ops, without calls; those of streamed tensors are the first's."""
        plain, loads = self.plain(op), self.loads_in(op, tensors, pieces.loops)
        return Builder(op, plain, loads, tensors, pieces, numbers).nest()

    def inner(self, op: Op, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Those of the wrapped op."""
        wrapped, kind = self.wrapped(op), self.wrapped_kind
        return kind.inner(wrapped, tensors) if isinstance(kind, StreamedKind) else {}


def plain_name(kind: str) -> str:
    """Name of an operator, be it in pieces or not."""
    return kind.removeprefix(_PREFIX)


def pieced_name(kind: str) -> str:
    """Name of the form of an operator that runs piece by piece."""
    return _PREFIX + kind


def pieced(op: Op, pieces: Pieces) -> Op:
    """The op in pieces."""
    kind = op.kind if op.kind.startswith(_PREFIX) else pieced_name(op.kind)
    attributes: dict[str, Attribute] = {_LOOPS: pieces.loops, _CUT: pieces.cut}
    if pieces.kept:
        attributes[_KEPT] = pieces.kept
    if pieces.order:
        attributes[_ORDER] = pieces.order.value
    return replace(op, kind=kind, attributes={**op.attributes, **attributes})


def register_pieced() -> None:
    """Register the pieced forms of all operators but views, losses, and updates by a gradient.

    A network's output, which a loss reads, is what a prediction gives: it stays in RAM.
    """
    for kind in tuple(KINDS.values()):
        if _runs_in_pieces(kind):
            wrapper = PiecedOp(kind)
            KINDS[wrapper.name] = wrapper


def _runs_in_pieces(kind: OpKind) -> bool:
    if isinstance(kind, LoadedOp):
        return _runs_in_pieces(kind.wrapped_kind)
    return not (kind.view or isinstance(kind, (LossKind, UpdateKind)))
