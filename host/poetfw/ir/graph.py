# SPDX-License-Identifier: Apache-2.0
"""Tensors, ops and graphs: immutable values that every later stage reads.

A graph is a list of ops in an executable order. Every tensor has at most one producer op. A tensor
without one is an input of the graph (role `INPUT` or `LABEL`), persistent (`PARAMETER`, `STATE`),
or a `CONSTANT`. Persistent tensors live in RAM for the whole run, and ops may update them in place;
constants are read from flash.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

from poetfw.common.errors import ModelError

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]
"""Types that an op's attribute may have."""

SCHEMA_VERSION = 1

LARGEST_TENSOR_BYTES = 2**40
"""Largest size of a tensor in bytes: more than any machine's RAM."""


class Dtype(StrEnum):
    """Element type of a tensor."""

    F32 = "f32"
    I32 = "i32"

    @property
    def size_bytes(self) -> int:
        """Bytes per element."""
        return 4


class Role(StrEnum):
    """Purpose of a tensor, which determines its lifetime."""

    INPUT = "input"
    """Batch of features, read from the data set."""
    LABEL = "label"
    """Batch of targets, read from the data set."""
    PARAMETER = "parameter"
    """Trained parameter; persistent."""
    STATE = "state"
    """Optimizer state, running statistics, the loss: persistent, not trained."""
    CONSTANT = "constant"
    """Parameter or statistic that no op updates: read-only and in flash."""
    ACTIVATION = "activation"
    """A value of the forward pass."""
    GRADIENT = "gradient"
    """A value of the backward pass."""

    @property
    def persistent(self) -> bool:
        """True for tensors that live in RAM for the whole run."""
        return self in (Role.PARAMETER, Role.STATE)

    @property
    def transient(self) -> bool:
        """True for tensors that ops of a step produce, and that are then freed."""
        return not self.persistent and self is not Role.CONSTANT


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of a graph.

    Attributes:
        name: unique in its graph. May hold any text: it is never used as an identifier.
        shape: elements along each axis; images are N, C, H, W.
        dtype: element type.
        role: purpose of the tensor.
        base: for a window, the tensor whose bytes it shares, read-only and contiguous; None for a
            tensor with bytes of its own.
        offset_bytes: first byte of a window within its base.
        tile: of a tensor that is stored in storage instead of RAM, channels and rows of its tiles;
            empty for a tensor in RAM.
        image: of such a tensor, channels, rows, and elements of a row of its image in storage; a
            window has those of its base.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype = Dtype.F32
    role: Role = Role.ACTIVATION
    base: str | None = None
    offset_bytes: int = 0
    tile: tuple[int, ...] = ()
    image: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(extent < 1 for extent in self.shape):
            raise ModelError(
                f"tensor {self.name!r} has shape {list(self.shape)}: every extent must be 1 or more"
            )
        if self.size_bytes > LARGEST_TENSOR_BYTES:
            raise ModelError(
                f"tensor {self.name!r} has shape {list(self.shape)}: {self.size_bytes:,} bytes are "
                f"more than any board has"
            )

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor's elements, without padding."""
        return self.elements * self.dtype.size_bytes


def _no_attributes() -> Mapping[str, Attribute]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    Attributes:
        name: unique in its graph. May hold any text: it is never used as an identifier.
        kind: the operator, a key of `poetfw.ops.KINDS`.
        inputs: names of the tensors it reads, in the order defined by the kind.
        output: name of the tensor it produces; None if it only updates persistent tensors.
        attributes: parameters of the operator beyond shapes.
        updates: names of the persistent tensors it writes in place.
        backward: True if it belongs to the backward pass.
        joined: ops that it runs together, in order; empty for most.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str | None
    attributes: Mapping[str, Attribute] = field(default_factory=_no_attributes)
    updates: tuple[str, ...] = ()
    backward: bool = False
    joined: tuple[Op, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __hash__(self) -> int:
        fields = self.name, self.kind, self.inputs, self.output, self.updates, self.backward
        return hash((*fields, frozenset(self.attributes.items()), self.joined))

    def integer(self, name: str) -> int:
        """Integer value of attribute `name`."""
        value = self.attributes[name]
        assert isinstance(value, int), name
        return value

    def number(self, name: str) -> float:
        """Numeric value of attribute `name`."""
        value = self.attributes[name]
        assert isinstance(value, int | float), name
        return float(value)

    def integers(self, name: str) -> tuple[int, ...]:
        """Integers of attribute `name`."""
        value = self.attributes[name]
        assert isinstance(value, tuple), name
        return cast(tuple[int, ...], value)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Numbers of attribute `name`."""
        value = self.attributes[name]
        assert isinstance(value, tuple), name
        return value

    @property
    def parts(self) -> tuple[Op, ...]:
        """The ops that it joins, or itself."""
        return self.joined or (self,)

    def to_json(self) -> dict[str, Any]:
        """Op as plain JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "inputs": list(self.inputs),
            "output": self.output,
            "attributes": {
                k: list(v) if isinstance(v, tuple) else v for k, v in self.attributes.items()
            },
            "updates": list(self.updates),
            "backward": self.backward,
        } | ({"joined": [part.to_json() for part in self.joined]} if self.joined else {})

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Op:
        """Read an op from the values of `to_json`; raises what malformed values raise."""
        attributes = document["attributes"].items()
        return Op(
            name=document["name"],
            kind=document["kind"],
            inputs=tuple(document["inputs"]),
            output=document["output"],
            attributes={k: tuple(v) if isinstance(v, list) else v for k, v in attributes},
            updates=tuple(document["updates"]),
            backward=document["backward"],
            joined=tuple(map(Op.from_json, document.get("joined", ()))),
        )


@dataclass(frozen=True)
class Graph:
    """Ops in an executable order, and the tensors between them.

    Construction checks that names are unique, that every tensor read exists and is produced
    before it is read, that only persistent tensors are updated, and that each window lies within a
    tensor that an op produces. Shapes are checked by `poetfw.ops.check_shapes`.

    Attributes:
        name: name of the model.
        tensors: all tensors, each after those it depends on.
        ops: all ops, in an executable order.
        output: name of the network's output tensor (logits or prediction).
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    output: str

    def __post_init__(self) -> None:
        by_name = {tensor.name: tensor for tensor in self.tensors}
        if len(by_name) != len(self.tensors):
            raise ModelError(f"graph {self.name!r} has two tensors of one name")
        if len({op.name for op in self.ops}) != len(self.ops):
            raise ModelError(f"graph {self.name!r} has two ops of one name")
        produced = {op.output for op in self.ops if op.output is not None}
        windows: dict[str, list[str]] = {}
        for tensor in self.tensors:
            if tensor.base is not None:
                _check_window(tensor, by_name.get(tensor.base), produced)
                windows.setdefault(tensor.base, []).append(tensor.name)
        known = {t.name for t in self.tensors if t.name not in produced and t.base is None}
        for op in self.ops:
            for name in (*op.inputs, *op.updates):
                if name not in by_name:
                    raise ModelError(f"op {op.name!r} uses tensor {name!r}, which does not exist")
                if name not in known:
                    raise ModelError(f"op {op.name!r} uses tensor {name!r} before it is produced")
            for name in op.updates:
                if not by_name[name].role.persistent:
                    raise ModelError(f"op {op.name!r} updates {name!r}, which is not persistent")
            if op.output is not None:
                if op.output not in by_name or op.output in known:
                    raise ModelError(f"op {op.name!r} has no output tensor of its own")
                known.update((op.output, *windows.get(op.output, ())))
        if self.output not in known:
            raise ModelError(f"graph {self.name!r} has no tensor {self.output!r} to be its output")

    @cached_property
    def by_name(self) -> Mapping[str, Tensor]:
        """Tensors by name."""
        return MappingProxyType({tensor.name: tensor for tensor in self.tensors})

    @cached_property
    def producer(self) -> Mapping[str, Op]:
        """Producing op by tensor name."""
        return MappingProxyType({op.output: op for op in self.ops if op.output is not None})

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Op, ...]]:
        """Ops that read a tensor or a window of it, in order, by tensor name."""
        readers: dict[str, list[Op]] = {tensor.name: [] for tensor in self.tensors}
        for op in self.ops:
            for name in dict.fromkeys((*op.inputs, *self.reads(op))):
                readers[name].append(op)
        return MappingProxyType({name: tuple(ops) for name, ops in readers.items()})

    def reads(self, op: Op) -> tuple[str, ...]:
        """Tensors whose bytes an op reads, without duplicates; bases instead of windows."""
        return tuple(dict.fromkeys(self.by_name[name].base or name for name in op.inputs))

    def ops_for(self, *tensors: str) -> tuple[Op, ...]:
        """Ops that the given tensors depend on, in order."""
        needed = {self.by_name[name].base or name for name in tensors}
        kept: list[Op] = []
        for op in reversed(self.ops):
            if op.output in needed:
                kept.append(op)
                needed.update(self.reads(op))
        return tuple(reversed(kept))

    @property
    def windows(self) -> tuple[Tensor, ...]:
        """Windows, in order."""
        return tuple(tensor for tensor in self.tensors if tensor.base is not None)

    def with_role(self, *roles: Role) -> tuple[Tensor, ...]:
        """Tensors of the given roles, in order."""
        return tuple(tensor for tensor in self.tensors if tensor.role in roles)

    @property
    def constants(self) -> tuple[Tensor, ...]:
        """Constants, in order."""
        return self.with_role(Role.CONSTANT)

    @property
    def persistent(self) -> tuple[Tensor, ...]:
        """Persistent tensors, in order."""
        return tuple(tensor for tensor in self.tensors if tensor.role.persistent)

    @cached_property
    def network(self) -> str:
        """Identity of the network of a training step: 16 hexadecimal digits.

        A digest of the name and the forward pass, independent of op order, optimizer, trained
        parameters and kernels, and of ops that only the backward pass reads.
        """
        apart = {
            name
            for name, readers in self.consumers.items()
            if readers and all(op.backward for op in readers)
        }
        operands = {
            op.name: [
                [t.name, list(t.shape), t.dtype]
                for t in (self.by_name[name] for name in (*op.inputs, *op.updates))
            ]
            for op in self.ops
        }
        forward = [
            [
                op.name,
                op.kind,
                dict(op.attributes),
                operands[op.name],
                op.output,
            ]
            for op in sorted(self.ops, key=lambda op: op.name)
            if not (op.backward or op.output in apart)
        ]
        text = json.dumps([self.name, forward], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Graph as plain JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "output": self.output,
            "tensors": [
                {"name": t.name, "shape": list(t.shape), "dtype": t.dtype, "role": t.role}
                | ({} if t.base is None else {"base": t.base, "offset_bytes": t.offset_bytes})
                | ({"tile": list(t.tile), "image": list(t.image)} if t.tile else {})
                for t in self.tensors
            ],
            "ops": [op.to_json() for op in self.ops],
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Graph:
        """Read a graph from the values of `to_json`.

        Raises:
            ModelError: The document is not a graph in this format.
        """
        try:
            if document["schema_version"] != SCHEMA_VERSION:
                raise ModelError(
                    f"graph has schema version {document['schema_version']!r}; "
                    f"this poetfw reads version {SCHEMA_VERSION}"
                )
            return Graph(
                name=document["name"],
                output=document["output"],
                tensors=tuple(
                    Tensor(
                        t["name"],
                        tuple(t["shape"]),
                        Dtype(t["dtype"]),
                        Role(t["role"]),
                        t.get("base"),
                        t.get("offset_bytes", 0),
                        tuple(t.get("tile", ())),
                        tuple(t.get("image", ())),
                    )
                    for t in document["tensors"]
                ),
                ops=tuple(map(Op.from_json, document["ops"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"the graph's JSON is malformed: {error!r}") from error


def _check_window(window: Tensor, base: Tensor | None, produced: set[str]) -> None:
    if base is None or base.name not in produced or window.name in produced:
        raise ModelError(f"tensor {window.name!r} is not a window on a tensor that an op produces")
    end_bytes = window.offset_bytes + window.size_bytes
    if window.offset_bytes < 0 or end_bytes > base.size_bytes or window.dtype is not base.dtype:
        raise ModelError(f"window {window.name!r} does not lie within tensor {base.name!r}")
