# SPDX-License-Identifier: Apache-2.0
"""Rules of quantised weights, as PyTorch 2's quantisation writes them, and what to write instead.

Weights with their scales become frozen parameters of float32: `--frozen-as int8` stores them as the
bytes that they were, if they are symmetric by output channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.calls import Call, Live, Value, axis_of
from poetfw.importers.torch_export.file import Weight
from poetfw.importers.torch_export.rules.registry import aten, unknown

NAMESPACE = "torch.ops.quantized_decomposed."


@aten(f"{NAMESPACE}dequantize_per_channel.default")
def _by_channel(
    call: Call,
    input: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: int,
    out_dtype: int | None = None,
) -> Weight:
    if not isinstance(scales, Weight) or isinstance(zero_points, Live):
        raise UnsupportedError("its scales are calculated")
    shape = [1] * len(call.shape(input))
    shape[axis_of(call, input, axis)] = -1
    zeros = 0 if zero_points is None else zero_points.values.reshape(shape)
    return _dequantised(input, scales.values.reshape(shape), zeros, dtype)


@aten(f"{NAMESPACE}dequantize_per_tensor.default")
def _by_tensor(
    call: Call,
    input: Value,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: int,
    out_dtype: int | None = None,
) -> Weight:
    return _dequantised(input, np.array(scale), zero_point, dtype)


def _dequantised(
    bytes_: Value, scales: np.ndarray[Any, Any], zeros: np.ndarray[Any, Any] | int, dtype: int
) -> Weight:
    """Frozen parameter (bytes - zero point) · scale, in float32.

    Raises:
        UnsupportedError: The bytes are calculated, or a scale is not a positive number.
    """
    if isinstance(bytes_, Live):
        raise UnsupportedError(unknown(NAMESPACE))
    if dtype not in (schema.INT8, schema.UINT8):
        raise UnsupportedError(f"its weights are {schema.DTYPES.get(dtype, 'of an unknown type')}")
    bad = np.flatnonzero(~(np.isfinite(scales) & (scales > 0)))
    if bad.size:
        raise UnsupportedError(
            f"the scale of its output channel {bad[0]} is {scales.reshape(-1)[bad[0]]:g}, but must "
            "be a number above 0: prune the channel, or quantise the network again"
        )
    values = (bytes_.values.astype(np.float64) - zeros) * scales
    return Weight(bytes_.names, values.astype(np.float32), is_parameter=True)
