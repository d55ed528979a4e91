# SPDX-License-Identifier: Apache-2.0
"""Rules of pooling."""

from __future__ import annotations

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value
from poetfw.importers.torch_export.rules.images import as_image, as_ranked, pair_of
from poetfw.importers.torch_export.rules.registry import Ints, aten


@aten("max_pool1d.default", "max_pool2d.default")
def _max_pool(
    call: Call,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> str:
    if set(dilation) != {1}:
        raise UnsupportedError(f"its dilation is {list(dilation)}, but must be 1")
    return _pool(call, "max_pool2d", self, kernel_size, stride, padding, ceil_mode)


@aten("avg_pool1d.default", "avg_pool2d.default")
def _avg_pool(
    call: Call,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> str:
    if divisor_override is not None:
        raise UnsupportedError("it has a divisor_override")
    return _pool(
        call, "avg_pool2d", self, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


def _pool(
    call: Call,
    kind: str,
    x: Value,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil: bool,
    include: bool = True,
) -> str:
    rows, columns = pair_of(padding, call.shape(x), 0)
    y = call.net.pool(
        kind,
        call.name,
        as_image(call, x),
        kernel=pair_of(kernel, call.shape(x), 1),
        stride=pair_of(stride or kernel, call.shape(x), 1),
        padding=(rows, columns, rows, columns),
        ceil=ceil,
        include=include,
    )
    return as_ranked(call, y, x)


@aten("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default")
def _adaptive_avg_pool(call: Call, self: Value, output_size: Ints) -> str:
    return _adaptive(call, "avg_pool2d", self, output_size)


@aten("adaptive_max_pool1d.default", "adaptive_max_pool2d.default")
def _adaptive_max_pool(call: Call, self: Value, output_size: Ints) -> tuple[str, None]:
    return _adaptive(call, "max_pool2d", self, output_size), None


def _adaptive(call: Call, kind: str, x: Value, sizes: Ints) -> str:
    image = as_image(call, x)
    y = call.net.adaptive_pool(kind, call.name, image, pair_of(sizes, call.shape(x), 1))
    return as_ranked(call, y, x)
