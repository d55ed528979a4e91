# SPDX-License-Identifier: Apache-2.0
"""Error bounds are not too tight for a right kernel, nor wide enough for a wrong one.

That they hold is checked by `run_kernel` itself, in every test of kernels; here over magnitudes,
and with sums as long as networks have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from poetfw.ir import Attribute, Op
from poetfw.ops import KINDS, Array, fused_name
from poetfw.ops.bit_fields import pack_fields
from poetfw.ops.class_losses import LARGEST_WEIGHT, ClassOptions
from poetfw.ops.continued import continued_name
from poetfw.ops.mean_losses import MEAN_LOSSES
from poetfw.ops.packed import FORMATS, PACKED, pack
from poetfw.ops.pointwise import FUNCTIONS
from poetfw.ops.rounding import UNIT_ROUNDOFF, gamma
from poetfw.ops.streamed import StreamedKind
from poetfw.optimizers import OPTIMIZERS
from poetfw.runs.op_check import largest_error

Run = Callable[..., Any]
UNREAD = {
    *(("dropout", 1), ("nll_backward", 0)),  # which training's form reads; whose shape counts
    *(("objective", 1), ("objective_metric", 0)),  # the gradient; what predictions are made by
}
LOADS = {"load_x", "load_y"}  # the runtime's; they must be exact
PER_KIND = 3


@dataclass(frozen=True)
class Case:
    """One call of a kernel."""

    inputs: list[Array]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    updates: tuple[Array, ...] = ()


class Draw:
    """Random tensors of one magnitude."""

    def __init__(self, seed: int, scale: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.scale = scale

    def __call__(self, *shape: int) -> Array:
        return (self.scale * self.rng.standard_normal(shape)).astype(np.float32)

    def statistics(self, channels: int) -> Array:
        pair = self(2, channels)
        pair[1] = np.abs(pair[1]) + np.float32(0.1 * self.scale)
        return pair

    def labels(self, batch: int, classes: int) -> Array:
        return self.rng.integers(0, classes, batch).astype(np.int32)


WINDOW: dict[str, Attribute] = {"stride": (1, 1), "padding": (1, 1, 1, 1)}
CONVOLUTION: dict[str, Attribute] = {**WINDOW, "groups": 2}
POOLING: dict[str, Attribute] = {**WINDOW, "kernel": (3, 3)}
DESCENT: dict[str, Attribute] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-3}
EPS: dict[str, Attribute] = {"eps": 1e-5}
PACE: dict[str, Attribute] = {
    **{
        "learning_rate": 0.1,
        "schedule": 3,
        "period": 90,
        "factor": 0.1,
        "warm_up": 3,
        "micro_batches": 3,
    },
    **{"beta1": 0.9, "beta2": 0.999},
}
PACED = np.float32([0.1, 1.0, 1.7, 30.0])
_SQUARES: dict[str, Attribute] = {"learning_rate": 0.1, "weight_decay": 1e-3, "eps": 1e-10}
_ADAM: dict[str, Attribute] = {"paced": 1, "weight_decay": 1e-3, "eps": 1e-8, "beta1": 0.9}
SETTINGS: dict[str, dict[str, Attribute]] = {
    "sgd": {**DESCENT, "nesterov": 1},
    "adam": {**_ADAM, "beta2": 0.99},
    "adamw": {**_ADAM, "beta2": 0.99},
    "rmsprop": {**_SQUARES, "alpha": 0.9, "momentum": 0.9},
    "adagrad": _SQUARES,
}
COUNTED = ClassOptions(tuple(n / 7 for n in range(10)), 0.1, 3).attributes(10)
NLL = ClassOptions(tuple(n / 7 for n in range(10)), ignore_index=3).attributes(10)
X, W, Y = (8, 32, 9, 9), (16, 16, 3, 3), (8, 16, 9, 9)
FEATURES, OUTPUTS = 700, 40

GROUPS: dict[str, Attribute] = {**EPS, "groups": 4, "channels": 32, "inner": 81}
PARAMETERS: dict[str, dict[str, Attribute]] = {
    "leaky_relu": {"slope": 0.2},
    "elu": {"alpha": 0.7},
    "scale": {"factor": -0.3},
    "at_least": {"bound": -0.3},
    "at_most": {"bound": 0.3},
}
TURNED: dict[str, Attribute] = {"view": (8, 32, 81), "axes": (0, 2, 1), "shape": (8, 81, 32)}
DROPOUT: dict[str, Attribute] = {"share": 0.3, "seed": 7, "run": 1}
PRODUCT: dict[str, Attribute] = {"transpose_a": 0, "transpose_b": 1}
POSITIVE = ("sqrt", "norm_root", "log", "reciprocal")


def pointwise(name: str, backward: bool) -> Callable[[Draw], Case]:
    """A case of a function of one number; its gradient may read the function's values."""

    def case(d: Draw) -> Case:
        x = np.minimum(d(*X), np.float32(40))
        if name in POSITIVE:
            x = np.abs(x) + np.float32(0.1 * min(d.scale, 1))
        attributes = PARAMETERS.get(name, {})
        if not backward:
            return Case([x], attributes)
        if FUNCTIONS[name].from_output:
            parameter = float(next(iter(attributes.values()), 0.0))
            x = FUNCTIONS[name].value(x.astype(np.float64), parameter).astype(np.float32)
        return Case([x, d(*X)], attributes)

    return case


def states_of(kind: str, d: Draw, gradient: Array) -> tuple[Array, ...]:
    """A parameter, and what an optimizer may keep of it: squares are at least the gradient's."""
    square = d(*gradient.shape) ** 2 + gradient**2
    states = {
        "sgd": (d(*gradient.shape),),
        "adam": (d(*gradient.shape), square),
        "adamw": (d(*gradient.shape), square),
        "rmsprop": (square, d(*gradient.shape)),
        "adagrad": (square,),
    }
    return (d(*gradient.shape), *states[kind])


def updated(kind: str) -> Callable[[Draw], Case]:
    """A case of an optimizer's update."""

    def case(d: Draw) -> Case:
        gradient = d(99)
        paced = [PACED] if "paced" in SETTINGS[kind] else []
        states = states_of(kind, d, gradient)
        return Case([gradient, np.float32([0.4]), *paced], SETTINGS[kind], states)

    return case


def pooled_case(d: Draw) -> Case:
    """A convolution with gelu, which has a minimum, and average pooling."""
    plain = CASES["conv2d"](d)
    x, w, *_ = plain.inputs
    attributes = {**plain.attributes, "weight_shape": w.shape, "format": "float32"}
    window = {f"pool.{name}": value for name, value in POOLING.items()}
    behind = {"activation": "gelu", "pool": "avg_pool2d", "pool.count_include_pad": 0, **window}
    return Case([x, w], {**attributes, **behind})


def pooled_indices(x: Array) -> Array:
    """Indices of the maxima of x in its windows."""
    found = KINDS["max_pool2d_indices"].compute(
        Op("op", "max_pool2d_indices", ("x",), "y", POOLING), [x], ()
    )
    assert found is not None
    return found


def halves_of(x: Array) -> Array:
    """Words of the halves of x."""
    found = KINDS["to_halves"].compute(Op("op", "to_halves", ("x",), "y"), [x], ())
    assert found is not None
    return found


def packed_case(layer: str) -> Callable[[Draw], Case]:
    """A case of a layer, with its weights as int8."""

    def case(d: Draw) -> Case:
        plain = CASES[layer](d)
        _, position = PACKED[layer]
        inputs = list(plain.inputs)
        words, scales = pack("w", inputs[position], "int8")
        assert scales is not None
        shape = inputs[position].shape
        inputs[position] = words
        attributes: dict[str, Attribute] = {
            **plain.attributes,
            "weight_shape": shape,
            "format": "int8",
        }
        return Case([*inputs, scales], attributes)

    return case


def unpack_case(form: str) -> Callable[[Draw], Case]:
    """A case of weights of a format."""

    def case(d: Draw) -> Case:
        words, scales = pack("w", d(7, 45), form)
        return Case([words, *([] if scales is None else [scales])], {"shape": (7, 45)})

    return case


def streamed(gradient: str, kind: str) -> Callable[[Draw], Case]:
    """A case of a gradient that is applied without being stored."""

    def case(d: Draw) -> Case:
        plain = CASES[gradient](d)
        op = Op("op", gradient, ("a", "b"), "c", plain.attributes)
        exact = KINDS[gradient].compute(op, plain.inputs, ())
        assert exact is not None
        paced = [PACED] if "paced" in SETTINGS[kind] else []
        attributes = {**plain.attributes, **SETTINGS[kind]}
        return Case([*plain.inputs, *paced], attributes, states_of(kind, d, exact))

    return case


CASES: dict[str, Callable[[Draw], Case]] = {
    **{name: pointwise(name, False) for name in FUNCTIONS},
    **{f"{name}_backward": pointwise(name, True) for name in FUNCTIONS if name != "scale"},
    "add_broadcast": lambda d: Case([d(*X), d(1, 32, 1, 1)]),
    "multiply": lambda d: Case([d(*X), d(8, 32, 1, 1)]),
    "sum_to": lambda d: Case([d(*X)], {"shape": (32, 1, 1)}),
    "transpose": lambda d: Case([d(*X)], TURNED),
    "take_strided": lambda d: Case([d(9, 40)], {"shape": (9, 20), "steps": (40, -2), "offset": 39}),
    "put_strided": lambda d: Case([d(9, 20)], {"shape": (9, 40), "steps": (40, 0), "offset": 3}),
    "concat": lambda d: Case([d(8, 3, 9), d(8, 5, 9)], {"axis": 1}),
    "softmax": lambda d: Case([d(64, 50)]),
    "softmax_backward": lambda d: Case([np.abs(d(64, 50)), d(64, 50)]),
    "matmul": lambda d: Case([d(3, 8, 200), d(3, 9, 200)], PRODUCT),
    "layer_norm": lambda d: Case([d(*X), d(2, 32)], GROUPS),
    "layer_norm_statistics": lambda d: Case([d(*X) + np.float32(2 * d.scale)], GROUPS),
    "layer_norm_normalize": lambda d: Case([d(*X), d.statistics(32), d(2, 32)], GROUPS),
    "layer_norm_backward_affine": lambda d: Case([d(*X), d.statistics(32), d(*X)], GROUPS),
    "layer_norm_backward_input": lambda d: Case([d(*X), d.statistics(32), d(2, 32), d(*X)], GROUPS),
    "count_step": lambda d: Case([], updates=(np.float32([d.labels(1, 99)[0]]),)),
    "dropout": lambda d: Case([d(*X), np.float32([3])], DROPOUT),
    "uniform": lambda d: Case([np.float32([3])], {"shape": (7,), "seed": 7}),
    "dropout_training": lambda d: Case([d(*X), np.float32([3])], DROPOUT),
    "embedding": lambda d: Case([d.labels(50, 9), d(9, 7)]),
    "embedding_backward": lambda d: Case([d.labels(50, 9), d(50, 7)], {"rows": 9, "padding": 2}),
    "add": lambda d: Case([d(*X), d(*X)]),
    "avg_pool2d": lambda d: Case([d(*X)], {**POOLING, "count_include_pad": 0}),
    "avg_pool2d_backward": lambda d: Case(
        [d(*X)], {**POOLING, "count_include_pad": 0, "input_shape": X}
    ),
    "batch_norm": lambda d: Case([d(*X), d(2, X[1]), d.statistics(X[1])], {**EPS, "momentum": 0.1}),
    "batch_norm_backward_affine": lambda d: Case([d(*X), d.statistics(X[1]), d(*X)], EPS),
    "batch_norm_backward_input": lambda d: Case(
        [d(*X), d.statistics(X[1]), d(2, X[1]), d(2, X[1]), d(*X)], EPS
    ),
    "batch_norm_backward_frozen": lambda d: Case([d(*X), d(2, X[1]), d.statistics(X[1])], EPS),
    "batch_norm_normalize": lambda d: Case([d(*X), d.statistics(X[1]), d(2, X[1])], EPS),
    "batch_norm_statistics": lambda d: Case([d(*X) + np.float32(2 * d.scale)]),
    "batch_norm_update_running": lambda d: Case(
        [d.statistics(9)], {"momentum": 0.1, "count": 648}, (d.statistics(9),)
    ),
    "clip_factor": lambda d: Case([np.abs(d(1)) + 4], {"max_norm": 0.5}),
    "conv2d": lambda d: Case([d(*X), d(*W), d(W[0])], CONVOLUTION),
    "conv2d_backward_bias": lambda d: Case([d(*Y)]),
    "conv2d_backward_input": lambda d: Case([d(*W), d(*Y)], {**CONVOLUTION, "input_shape": X}),
    "conv2d_backward_weight": lambda d: Case([d(*X), d(*Y)], {**CONVOLUTION, "weight_shape": W}),
    "correct_count": lambda d: Case(
        [d(64, 3), d.labels(64, 3)], updates=(np.zeros(1, np.float32),)
    ),
    "global_avg_pool": lambda d: Case([d(*X)]),
    "global_avg_pool_backward": lambda d: Case([d(*X[:2], 1, 1)], {"input_shape": X}),
    "linear": lambda d: Case([d(8, FEATURES), d(OUTPUTS, FEATURES), d(OUTPUTS)]),
    "linear_backward_bias": lambda d: Case([d(8, OUTPUTS)]),
    "linear_backward_input": lambda d: Case([d(OUTPUTS, FEATURES), d(8, OUTPUTS)]),
    "linear_backward_weight": lambda d: Case([d(8, FEATURES), d(8, OUTPUTS)]),
    "max_pool2d": lambda d: Case([d(*X)], POOLING),
    "max_pool2d_backward": lambda d: Case([d(*X), d(*X)], POOLING),
    "max_pool2d_shared_backward": lambda d: Case([np.round(d(*X)), d(*X)], POOLING),
    "max_pool2d_indices": lambda d: Case([d(*X)], POOLING),
    "max_pool2d_indexed_backward": lambda d: Case(
        [pooled_indices(d(*X)), d(*X)], {**POOLING, "shape": X}
    ),
    "mse": lambda d: Case([d(8, 10), d(8, 10)], updates=(np.zeros(1, np.float32),)),
    "mse_backward": lambda d: Case([d(8, 10), d(8, 10)]),
    **{
        name: lambda d: Case([d(8, 10), d(8, 10)], updates=(np.zeros(1, np.float32),))
        for name in MEAN_LOSSES
    },
    **{f"{name}_backward": lambda d: Case([d(8, 10), d(8, 10)]) for name in MEAN_LOSSES},
    "relu": lambda d: Case([d(*X)]),
    "relu6": lambda d: Case([d(*X)]),
    "relu6_backward": lambda d: Case([np.clip(d(*X), 0, 6), d(*X)]),
    "relu_backward": lambda d: Case([np.maximum(d(*X), 0), d(*X)]),
    "relu_mask": lambda d: Case([np.maximum(d(*X), 0)]),
    "relu6_mask": lambda d: Case([np.clip(d(*X), 0, 6)]),
    "relu_masked_backward": lambda d: Case([pack_fields(np.uint32(d(*X) > 0), 1), d(*X)]),
    "to_halves": lambda d: Case([d(33, 7)]),
    "from_halves": lambda d: Case([halves_of(d(33, 7))], {"shape": (33, 7)}),
    "sin": lambda d: Case([d(*X)]),
    "cos": lambda d: Case([d(*X)]),
    "where": lambda d: Case([np.float32(d(*X) > 0), d(*X), d(*X)]),
    "mask": lambda d: Case([np.float32(d(*X) > 0), d(*X)]),
    "mask_out": lambda d: Case([np.float32(d(*X) > 0), d(*X)]),
    "positive": lambda d: Case([d(*X)]),
    "zero": lambda d: Case([np.float32(d(*X) > 0)]),
    "store": lambda d: Case([d(*X)], updates=(d(*X),)),
    "nearest": lambda d: Case([np.float32([0.5, 1.5, -2.5, -0.4, 3.7, 8388608.5, 8388611, -3e9])]),
    "to_float": lambda d: Case([d.labels(64, 99)]),
    "to_integer": lambda d: Case([np.float32([3.7, -3.7, np.nan, 1e30, -np.inf])]),
    "objective": lambda d: Case([d(1), np.ones(1, np.float32)], updates=(np.zeros(1, np.float32),)),
    "objective_metric": lambda d: Case([d(4, 3), d(1)], updates=(np.zeros(1, np.float32),)),
    "weighted_cross_entropy_term": lambda d: Case([d(16, 10), d.labels(16, 10)], COUNTED),
    **{f"{name}_term": lambda d: Case([d(8, 10), d(8, 10)]) for name in ("mse", *MEAN_LOSSES)},
    "nll_term": lambda d: Case([d(16, 10), d.labels(16, 10)], NLL),
    **{kind: packed_case(layer) for layer, (kind, _) in PACKED.items()},
    **{f"unpack_{form}": unpack_case(form) for form in FORMATS},
    "pooled_conv2d": pooled_case,
    "detach": lambda d: Case([d(*X)], {"shape": X}),
    "reshape": lambda d: Case([d(*X)], {"shape": (X[0], 32 * 81)}),
    "pace": lambda d: Case([], PACE, (np.float32([40, 2, 0.3, 0.01]),)),
    **{kind: updated(kind) for kind in OPTIMIZERS},
    **{
        fused_name(gradient, kind): streamed(gradient, kind)
        for gradient in ("conv2d_backward_weight", "embedding_backward", "linear_backward_weight")
        for kind in OPTIMIZERS
    },
    "slice": lambda d: Case([d(*X)], {"axis": 1, "start": 3, "length": 9}),
    "slice_backward": lambda d: Case([d(*X)], {"axis": 1, "start": 3, "extent": 40}),
    "softmax_cross_entropy": lambda d: Case(
        [d(16, 10), d.labels(16, 10)], updates=(np.zeros(1, np.float32),)
    ),
    "softmax_cross_entropy_backward": lambda d: Case([d(16, 10), d.labels(16, 10)]),
    "weighted_cross_entropy": lambda d: Case(
        [d(16, 10), d.labels(16, 10)], COUNTED, (np.zeros(1, np.float32),)
    ),
    "weighted_cross_entropy_backward": lambda d: Case([d(16, 10), d.labels(16, 10)], COUNTED),
    "nll": lambda d: Case([d(16, 10), d.labels(16, 10)], NLL, (np.zeros(1, np.float32),)),
    "nll_backward": lambda d: Case([d(16, 10), d.labels(16, 10)], NLL),
    "square_sum": lambda d: Case([d(2000), np.abs(d(1))]),
}


def continued(kind: str) -> Callable[[Draw], Case]:
    def case(d: Draw) -> Case:
        one = CASES[kind](d)
        op = Op("op", kind, tuple(map(str, range(len(one.inputs)))), "y", one.attributes)
        result = KINDS[kind].compute(op, one.inputs, ())
        return Case(one.inputs, one.attributes, (d(*np.shape(result)),))

    return case


CASES |= {continued_name(name): continued(name) for name, kind in KINDS.items() if kind.summed}


def test_every_operator_has_a_case() -> None:
    """But those that run the kernels of others on tiles in storage: they are run with one."""
    own = {name for name, kind in KINDS.items() if not isinstance(kind, StreamedKind)}
    assert own == {*CASES, *LOADS, "moved"}  # which no step has


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("scale", [1e-18, 1e-3, 1.0, 30.0])
def test_a_right_kernel_keeps_to_its_bound(run_kernel: Run, kind: str, scale: float) -> None:
    for seed in range(PER_KIND):
        case = CASES[kind](Draw(seed, scale))
        run_kernel(kind, case.inputs, case.attributes, case.updates)


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind.startswith(("weighted", "nll"))])
def test_bounds_hold_with_any_class_weights(run_kernel: Run, kind: str) -> None:
    """Of all within the limits, where softmaxes are below float32's normal numbers, too."""
    least, most = 1 / LARGEST_WEIGHT, LARGEST_WEIGHT
    for weights in ((least,) * 10, (most,) * 10, (least, most) * 5, (0.0, least) * 5):
        smoothing = 0.1 if kind.startswith("weighted") else 0.0
        options = ClassOptions(weights, smoothing, ignore_index=-(2**31))
        options.expect_fitting(10)
        for scale in (1.0, 20.0, 40.0):
            case = CASES[kind](Draw(0, scale))
            run_kernel(kind, case.inputs, options.attributes(10), case.updates)


def beyond(results: tuple[Array, ...], ran: Any) -> list[bool]:
    """Whether each result is beyond its bound, were it this."""
    return [
        largest_error(np.float32(result), expected, bound)[0] > 1
        for result, expected, bound in zip(results, ran.expected, ran.bounds, strict=True)
    ]


def without_a_term(run: Run, kind: str, case: Case, position: int, ran: Any) -> Any:
    """What a kernel leaves that misses the largest element of an input which has any effect."""
    for index in np.argsort(-np.abs(case.inputs[position]), axis=None)[:50]:
        inputs = [value.copy() for value in case.inputs]
        inputs[position].flat[index] = 0
        without = run(kind, inputs, case.attributes, case.updates)
        if any((a != b).any() for a, b in zip(without.results, ran.results, strict=True)):
            return without
    pytest.fail(f"{kind}: input {position} has no effect")


@pytest.mark.parametrize("kind", CASES)
def test_faults_are_beyond_the_bound(run_kernel: Run, kind: str) -> None:
    """A factor of 1.0001; a wrong element; a term that is left out, as of a tap."""
    for seed in range(PER_KIND):
        case = CASES[kind](Draw(seed, 1.0))
        ran = run_kernel(kind, case.inputs, case.attributes, case.updates)
        if any(value.dtype == np.int32 for value in ran.expected):  # floats do not hold all words
            assert all(map(np.array_equal, ran.results, ran.expected))
            continue
        assert all(beyond(tuple(1.0001 * value for value in ran.expected), ran)), "factor"
        for position, expected in enumerate(ran.expected):
            wrong = [value.copy() for value in ran.expected]
            largest = int(np.abs(expected).argmax())
            wrong[position].flat[largest] *= 1.001
            assert beyond(tuple(wrong), ran)[position], "element"
        for position, value in enumerate(case.inputs):
            if value.dtype != np.int32 and (kind, position) not in UNREAD:
                without = without_a_term(run_kernel, kind, case, position, ran)
                assert any(beyond(without.results, ran)), f"term of input {position}"


def test_a_bound_is_a_few_units_in_the_last_place_of_the_terms() -> None:
    assert gamma(0) == 0
    assert UNIT_ROUNDOFF < gamma(1) < 1.000001 * UNIT_ROUNDOFF
    assert gamma(2) > 2 * UNIT_ROUNDOFF


def test_largest_error() -> None:
    nan, inf = np.nan, np.inf
    one, half = np.array([1.0, 2.0]), np.array([0, 0.5])
    assert largest_error(one, one, np.zeros(2)) == (0, 0, 0)
    assert largest_error(one, one + half, np.array([9, 0.25])) == (2, 0.5, 0.25)
    assert largest_error(one, one + half, np.array([9, 0.0]))[0] == inf
    assert largest_error(np.array([nan]), np.array([1.0]), np.array([1e9]))[0] == inf
    assert largest_error(np.array([nan]), np.array([nan]), np.array([nan]))[0] == 0
    assert largest_error(np.array([1.0]), np.array([nan]), np.array([nan]))[0] == inf
    assert largest_error(np.array([inf]), np.array([4e38]), np.array([1e30]))[0] == 0
    assert largest_error(np.array([-inf]), np.array([4e38]), np.array([1e30]))[0] == inf
    assert largest_error(np.array([inf]), np.array([3.0]), np.array([1.0]))[0] == inf


LINEAR = ("add", "sgd")
"""Operators that carry an error of each element as it is, or times a number."""
CARRYING = [
    kind
    for kind in CASES
    if KINDS[kind].carries
    and not any("micro" in name for name in CASES[kind](Draw(0, 1)).attributes)
]


@pytest.mark.parametrize("kind", CARRYING)
@pytest.mark.parametrize("size", [1e-4, 1e-2])
def test_results_change_by_no_more_than_is_carried(kind: str, size: float) -> None:
    """Of inputs that are off by their bound, in the direction of the largest change, too."""
    case, rng = CASES[kind](Draw(0, 1.0)), np.random.default_rng(0)
    inputs = [v.astype(np.float64) if v.dtype == np.float32 else v for v in case.inputs]
    updates = [value.astype(np.float64) for value in case.updates]
    names = tuple(map(str, range(len(inputs) + len(updates))))
    updated, output = names[len(inputs) :], None if updates else "y"
    op = Op("op", kind, names[: len(inputs)], output, case.attributes, updated)
    errors = [
        size * rng.random(v.shape) if k in KINDS[kind].carries else np.zeros(v.shape)
        for k, v in enumerate(inputs)
    ]
    carried = KINDS[kind].carried(op, inputs, errors, updates)
    exact = KINDS[kind].results(op, inputs, updates)
    reached = [0.0 for _ in exact]
    for signs in (*np.random.default_rng(1).integers(0, 4, 30), 4, 5):
        moved = [
            v if not e.any() else v + e * _direction(int(signs), v, rng)
            for v, e in zip(inputs, errors, strict=True)
        ]
        found = KINDS[kind].results(op, moved, updates)
        for position, (a, b, bound) in enumerate(zip(exact, found, carried, strict=True)):
            change = np.abs(a - b)
            assert (change <= bound + 1e-12 * np.abs(a)).all()
            share = change[bound > 0] / bound[bound > 0]
            reached[position] = max(reached[position], float(share.max(initial=0)))
    least = 0.99 if kind in LINEAR else 0.05
    assert min(reached) > least, "a bound that is never nearly reached finds no faults"


def _direction(number: int, value: Array, rng: np.random.Generator) -> Array:
    """Signs of errors: all alike, those of the values, or random ones."""
    if number < 2:
        return np.full(value.shape, 1.0 - 2 * number)
    if number < 4:
        return np.where(value >= 0, 1.0, -1.0) * (5 - 2 * number)
    return np.where(rng.random(value.shape) < 0.5, -1.0, 1.0)
