# SPDX-License-Identifier: Apache-2.0
"""The model that is fitted to measured ops, on networks that it has never seen."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest

from poetfw.common.resources import cores_dir
from poetfw.common.transfer import Transfer
from poetfw.costs import Case, Measurement
from poetfw.costs.fitted import FittedModel, fit, fit_beside, fit_transfer
from poetfw.ir import Dtype
from unit.costs.test_cost_database import row
from workloads import op_costs
from workloads.kernels.measuring import BenchError, Measured


@pytest.mark.slow
@pytest.mark.parametrize("board", ["nrf52840", "mkr1000"])
def test_networks_that_are_held_out_are_predicted(board: str) -> None:
    """What benchmarks/op_costs.py recorded in the emulator; the analytic model by its prices."""
    found = list(op_costs.held_out_errors(board))
    assert len(found) == 2 * 5
    for name, fitted, analytic in found:
        assert max(fitted.ops) <= 0.15, name
        assert median(fitted.ops) <= 0.05, name
        assert abs(fitted.step) <= 0.10, name
        assert median(analytic.ops) <= 0.10, name
        assert abs(analytic.step) <= 0.20, name


@pytest.mark.slow
def test_prices_are_those_of_the_recorded_cycles() -> None:
    for board, core in op_costs.PRICED.items():
        assert (cores_dir() / f"{core}.toml").read_text() == op_costs.prices(board)


def test_figures_of_other_cases_are_not_taken_for_those_of_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "op_costs.txt"
    text = op_costs.KEPT.read_text()
    (digest,) = re.findall(r"^nrf52840 adagrad (\w+)$", text, re.M)
    kept.write_text(text.replace(digest, "01234567"))
    monkeypatch.setattr(op_costs, "KEPT", kept)
    with pytest.raises(BenchError, match="other cases of adagrad on nrf52840 now: run `python"):
        op_costs.recorded()


def test_recorded_figures_are_written_as_they_were_read() -> None:
    compiler, instructions = op_costs.recorded()
    _, cycles = op_costs.recorded("cycles")
    counts = {
        board: {key: Measured(found[key], cycles[board][key], 0, "") for key in found}
        for board, found in instructions.items()
    }
    assert op_costs.record(compiler, counts) == op_costs.KEPT.read_text()


def test_a_fit_finds_the_prices() -> None:
    rows = [
        ({"fixed": 1.0, "macs": macs, "bytes": size}, 1e-6 + 2e-9 * macs + 3e-9 * size)
        for macs in (10, 100, 1000, 10_000)
        for size in (5, 70, 900)
    ]
    found = fit(rows)
    assert found.prices == pytest.approx({"fixed": 1e-6, "macs": 2e-9, "bytes": 3e-9})
    assert found.largest_error < 1e-9
    assert found.rows == 12


def test_no_price_is_below_zero() -> None:
    found = fit([({"a": 1.0, "b": float(b)}, 10.0 - b) for b in range(1, 8)])
    assert all(price > 0 for price in found.prices.values())
    assert found.median_error > 0.1


def test_of_features_in_proportion_the_first_has_the_price() -> None:
    """Whichever a solver would take: prices are the same on every machine."""
    times = [1e-6 * n + 1e-9 * (n % 7) for n in range(1, 30)]
    for first, second in (("byte", "mac"), ("a mac", "byte")):
        for share in (3, 12, 0.7):
            rows = [({second: n, first: share * n}, took) for n, took in enumerate(times, 1)]
            assert {*fit(rows).prices} == {first}


def test_small_ops_count_as_much_as_large_ones() -> None:
    """Of two rows that no line fits, the small one is not given up for the large one."""
    found = fit([({"n": 1.0}, 1.0), ({"n": 1.0}, 2.0), ({"n": 1000.0}, 1000.0)])
    assert found.predict({"n": 1.0}) == pytest.approx(10 / 9)


def test_the_error_is_that_of_rows_left_out() -> None:
    """Each row has a feature of its own: fitted exactly, and never predicted from the others."""
    found = fit([({f"only{i}": 1.0}, 1.0) for i in range(10)])
    assert found.predict({"only3": 1.0}) == pytest.approx(1.0)
    assert found.median_error == found.largest_error == 1.0


def timed(kind: str, elements: int, time_s: float) -> Measurement:
    return row(Case(kind, (((1, elements), Dtype.F32),)), time_s * 64e6)


def test_a_function_is_predicted_from_its_file_only_where_that_predicts_functions() -> None:
    """Three alike foretell a fourth; one foretells nothing of another, well as it is fitted."""
    sizes = range(10, 20)
    like_each_other = [timed(kind, n, 1e-6 * n) for kind in ("exp", "log", "sqrt") for n in sizes]
    unlike = [
        timed(kind, n, factor * 1e-6 * n)
        for kind, factor in (("exp", 1), ("log", 10), ("sqrt", 100))
        for n in sizes
    ]
    # Each has a feature of its own, so that a fit is perfect: but not one without it.
    own_classes = [
        row(Case(kind, (((n, *(1,) * axes), Dtype.F32),)), factor * 64.0 * n)
        for axes, (kind, factor) in enumerate((("exp", 1), ("log", 10), ("sqrt", 100)))
        for n in sizes
    ]
    wanted = Case("abs", (((1, 50), Dtype.F32),))
    for rows, predicted in (
        (like_each_other, pytest.approx(50e-6)),
        (unlike, None),
        (own_classes, None),
        (like_each_other[:20], None),
    ):
        assert FittedModel(rows, lambda row: row.time_s).predict(wanted) == predicted


BELIEVED = Transfer(1e6, 1e-3, 1e-8, 1e-6)


def test_transfers_are_a_line() -> None:
    rows = [(size, 2e-3 + size / 5e5, 1e-6 * size) for size in (512, 1024, 65536)]
    found = fit_transfer(rows, BELIEVED)
    assert found.latency_s == pytest.approx(2e-3)
    assert found.bandwidth_bytes_per_s == pytest.approx(5e5)
    assert found.energy_j_per_byte == pytest.approx(1e-6)
    assert found.energy_j == pytest.approx(0.0, abs=1e-12)


def test_transfers_of_one_size_scale_what_was_believed() -> None:
    size = 4096
    time_s, energy_j = 3 * BELIEVED.time_s(size), 2 * BELIEVED.cost_j(size)
    found = fit_transfer([(size, time_s, energy_j)], BELIEVED)
    assert found.time_s(size) == pytest.approx(time_s)
    assert found.cost_j(2 * size) == pytest.approx(2 * BELIEVED.cost_j(2 * size))


def test_what_transfers_take_beside_computing_is_two_lines() -> None:
    storage, core = (
        [(size, latency_s + size * s_per_byte) for size in (512, 4096)]
        for latency_s, s_per_byte in ((1e-3, 1e-6), (2e-4, 3e-7))
    )
    found = fit_beside(storage, core)
    assert found is not None
    assert found.bandwidth_bytes_per_s == pytest.approx(1e6)
    assert found.latency_s == pytest.approx(1e-3)
    assert found.core_s_per_byte == pytest.approx(3e-7)
    assert found.core_latency_s == pytest.approx(2e-4)
    assert fit_beside([(512, 0.0), storage[1]], core) is None
    for lacking in ([], core[:1], core[:1] * 2):
        assert fit_beside(storage, lacking) is fit_beside(lacking, core) is None


def test_transfers_that_take_nothing_of_the_core_are_a_measurement() -> None:
    busy = [(512, 1e-3), (4096, 5e-3), (8192, 9e-3)]
    beside = fit_beside(busy, [(size, 0.0) for size, _ in busy])
    assert beside is not None
    assert (beside.core_latency_s, beside.core_s_per_byte) == (0, 0)
