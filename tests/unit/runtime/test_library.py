# SPDX-License-Identifier: Apache-2.0
"""The library's interface: what each call needs before it, and what it does."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import (
    SAMPLE,
    SAMPLE_BATCH,
    SLOT_BLOCKS,
    TEMPLATES,
    compile_c,
    sample_data,
    sample_image,
    set_offset,
    slot_offset,
)
from poetfw.firmware.library import statuses
from poetfw.firmware.sample_order import sample_order
from unit.runtime.conftest import BLOCK_DEVICE

OK = 0
ORDER, SAMPLE_SIZE, ARGUMENT, WRONG_PLAN, FAILED, NO_SLOT = -128, -129, -4, -2, -3, -5
BUSY, NOT_FINITE, DIVERGED, NO_SAMPLES, NO_COMMIT = -135, -137, -138, -139, -15
NO_IMAGE, NO_PARTITION, FOREIGN, TOO_SMALL = -1, -7, -8, -10
TRAINING, SEED, STEPS = 10, 7, 5
HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Metrics(ctypes.Structure):
    _fields_ = (
        ("step", ctypes.c_uint32),
        ("loss", ctypes.c_float),
        ("metric", ctypes.c_float),
        ("requests", ctypes.c_uint32),
        ("read_bytes", ctypes.c_uint64),
        ("written_bytes", ctypes.c_uint64),
        ("set", ctypes.c_uint32),
        ("written_blocks", ctypes.c_uint32),
    )


class Task(ctypes.Structure):
    _fields_ = (("steps", ctypes.c_uint32), ("evaluations", ctypes.c_uint32))


class Net:
    """A context, and the library that it is given to."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.context = (ctypes.c_uint32 * 21)(*[0xA5A5A5A5] * 21)  # as on any stack

    def measure(self, metrics: object) -> int:
        return int(self.library.poetfw_metrics(self.context, metrics))

    def __getattr__(self, call: str) -> Callable[..., int]:
        function = self.library[f"poetfw_{call}"]
        return lambda *arguments: int(function(self.context, *arguments))

    def train_on(self, x: np.ndarray, y: np.ndarray, more: int = 0) -> int:
        sizes = ctypes.c_uint32(x.nbytes + more), ctypes.c_uint32(y.nbytes)
        function = self.library.poetfw_train_on
        return int(function(self.context, *_pointer(x), sizes[0], *_pointer(y), sizes[1]))

    def predict(self, x: np.ndarray, output: np.ndarray) -> int:
        function = self.library.poetfw_predict
        return int(function(self.context, *_pointer(x), x.nbytes, *_pointer(output), output.nbytes))

    @property
    def metrics(self) -> Metrics:
        metrics = Metrics()
        assert self.measure(ctypes.byref(metrics)) == OK
        return metrics

    @property
    def weight(self) -> float:
        arena = (ctypes.c_uint8 * 4096).in_dll(self.library, "poet_arena")
        return float(np.frombuffer(arena, "<f4")[512 // 4])


def _pointer(values: np.ndarray) -> tuple[ctypes.c_void_p]:
    return (ctypes.c_void_p(values.ctypes.data),)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("library") / "library.so")


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for a board whose storage moves blocks beside computing."""
    return _compile(tmp_path_factory.mktemp("overlapping") / "library.so", "-DPOET_TRANSFERS=6u")


def _compile(out: Path, *flags: str) -> Path:
    names = {
        "storage": ("commits", "crc32", "format", "image", "pages", "slots", "storage"),
        "runtime": ("data", "poet_math", "poetfw", "progress", "sample_order", "stages"),
    }
    return compile_c(
        out,
        [
            BLOCK_DEVICE,
            *sorted((SAMPLE / "src/generated").glob("*.c")),
            *(TEMPLATES / d / f"{name}.c" for d, these in names.items() for name in these),
        ],
        [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("runtime", "storage", "hal"))],
        *("-shared", "-fPIC"),
        *flags,
    )


@pytest.fixture
def net(library: Path, tmp_path: Path) -> Net:
    return _reset(library, tmp_path)


def _reset(library: Path, tmp_path: Path) -> Net:
    """The library as after a reset, with the sample project's card."""
    copy = tmp_path / "library.so"
    copy.write_bytes(library.read_bytes())
    loaded = ctypes.CDLL(str(copy))
    loaded.test_device_reset()
    _insert_card(loaded, sample_image(steps=STEPS, seed=SEED))
    return Net(loaded)


def _insert_card(library: ctypes.CDLL, image: bytes | bytearray) -> None:
    device = (ctypes.c_uint8 * len(image)).in_dll(library, "test_device")
    ctypes.memmove(device, bytes(image), len(image))


def _batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = sample_data(TRAINING + 8)
    order = sample_order(TRAINING, SAMPLE_BATCH, SEED, step)
    return np.ascontiguousarray(x[order]), np.ascontiguousarray(y[order])


def test_a_training_from_begin_to_end(net: Net) -> None:
    task = Task()
    assert net.open() == OK
    assert (net.task(ctypes.byref(task)), task.steps, task.evaluations) == (OK, STEPS, 2)
    assert net.load() == OK
    for step in range(1, STEPS + 1):
        assert net.train() == OK
        assert net.metrics.step == step
    assert net.save() == OK
    trained, metrics = net.weight, net.metrics
    pages, gradient, commit = STEPS * 6, 1, 2
    assert metrics.written_bytes == 512 * (pages + gradient + commit)
    assert net.reset() == OK
    assert net.weight == 0.5
    assert net.load() == OK
    assert net.weight == trained
    assert net.metrics.step == STEPS


def test_what_began_anew_is_a_commit_of_its_own(net: Net) -> None:
    """Though it has as many steps as the one before."""
    assert (net.open(), net.load(), net.train(), net.save()) == (OK, OK, OK, OK)
    committed = net.weight
    assert (net.open(), net.reset()) == (OK, OK)  # and nothing is loaded
    x, y = _batch(3)
    assert (net.train_on(x, y), net.save()) == (OK, OK)
    anew, sets = net.weight, net.metrics.set
    assert anew != committed
    assert (net.reset(), net.open(), net.load()) == (OK, OK, OK)
    assert (net.weight, net.metrics.step, net.metrics.set) == (anew, 1, sets)


def test_what_begins_anew_does_not_write_over_the_only_whole_commit(net: Net) -> None:
    assert (net.open(), net.load(), net.train(), net.save()) == (OK, OK, OK, OK)
    image = sample_image(steps=STEPS, seed=SEED)
    device = (ctypes.c_uint8 * len(image)).in_dll(net.library, "test_device")
    last = net.metrics.set
    device[set_offset(image, last)] ^= 1
    assert (net.reset(), net.train(), net.save(), net.metrics.set) == (OK, OK, OK, last)
    for number in range(2):
        device[set_offset(image, number)] ^= 1
    assert (net.reset(), net.train(), net.save(), net.load()) == (OK, OK, OK, OK)


def test_a_storage_that_cannot_be_read_is_not_written_over(net: Net) -> None:
    assert net.open() == OK
    ctypes.c_uint32.in_dll(net.library, "test_transfers_until_one_fails").value = 2
    assert (net.reset(), net.save()) == (FAILED, ORDER)  # two records, and the first slot


def test_what_wears_the_storage_is_counted_over_resets_and_loads(net: Net) -> None:
    assert (net.open(), net.load(), net.train(), net.save()) == (OK, OK, OK, OK)
    for again in (net.load, net.reset, net.load):
        assert net.train() == OK
        written = net.metrics.written_blocks
        assert written == net.metrics.written_bytes // 512
        assert (again(), net.metrics.written_blocks) == (OK, written)
    assert (net.train(), net.save()) == (OK, OK)
    written = net.metrics.written_blocks
    assert (net.open(), net.load(), net.metrics.written_blocks) == (OK, OK, written)


def test_without_a_card_nothing_is_written(net: Net) -> None:
    assert net.reset() == OK
    assert (net.metrics.set, net.metrics.written_blocks) == (0, 0)


def test_a_card_says_when_to_commit(net: Net) -> None:
    assert not net.save_is_due()
    assert (net.open(), net.load()) == (OK, OK)
    due = []
    for _ in range(STEPS):
        assert net.train() == OK
        due.append(net.save_is_due())
    assert due == [0] * (STEPS - 1) + [1]


def test_a_card_that_wants_no_evaluation_says_so(net: Net) -> None:
    _insert_card(net.library, sample_image(steps=3, flags=1))
    task = Task()
    assert net.open() == OK
    assert (net.task(ctypes.byref(task)), task.steps, task.evaluations) == (OK, 3, 0)


def test_samples_of_the_callers_train_to_the_same_bits(net: Net) -> None:
    assert (net.open(), net.load()) == (OK, OK)
    losses = []
    for _ in range(STEPS):
        assert net.train() == OK
        losses.append(net.metrics.loss)
    trained = net.weight
    assert net.load() == OK
    for step in range(STEPS):
        assert net.train_on(*_batch(step)) == OK
        assert net.metrics.loss == losses[step]
    assert net.weight == trained
    assert net.metrics.step == STEPS


def test_one_sample_is_predicted(net: Net) -> None:
    x, output = _batch(0)[0][0].copy(), np.zeros(1, np.float32)
    assert net.reset() == OK
    assert net.predict(x, output) == OK
    assert output[0] == pytest.approx(0.5 * x.mean(), rel=1e-5)


def test_batches_are_evaluated(net: Net) -> None:
    assert (net.open(), net.load()) == (OK, OK)
    x, y = (values[TRAINING:] for values in sample_data(TRAINING + 8))
    for batch in (1, 2):
        assert net.evaluate(batch) == OK
        part = slice(SAMPLE_BATCH * (batch - 1), SAMPLE_BATCH * batch)
        expected = float(np.mean((0.5 * x[part, 0] - y[part]) ** 2))
        assert net.metrics.metric == pytest.approx(expected, rel=1e-5)
    assert [net.evaluate(batch) for batch in (0, 3)] == [ARGUMENT, ARGUMENT]


def test_nothing_works_before_what_it_needs(net: Net) -> None:
    batch, one = _batch(0), _batch(0)[0][0].copy()
    output = np.zeros(1, np.float32)
    needs_open = (net.load, lambda: net.task(ctypes.byref(Task())))
    needs_load = (
        *(net.save, net.train, lambda: net.evaluate(1), lambda: net.train_on(*batch)),
        *(lambda: net.predict(one, output), lambda: net.measure(ctypes.byref(Metrics()))),
    )
    for call in (*needs_open, *needs_load):
        assert call() == ORDER
    assert net.open() == OK
    for call in needs_load:
        assert call() == ORDER
    assert net.load() == OK
    for call in (*needs_load, *needs_open):
        assert call() == OK


def test_a_plan_that_pages_needs_its_storage_and_a_prediction_does_not(net: Net) -> None:
    x, output = _batch(0)[0][0].copy(), np.zeros(1, np.float32)
    assert net.reset() == OK
    assert net.train_on(*_batch(0)) == ORDER
    assert net.predict(x, output) == OK
    assert (net.open(), net.load(), net.train_on(*_batch(0))) == (OK, OK, OK)


def test_what_begins_anew_pages_and_is_saved_where_the_card_has_room_for_it(net: Net) -> None:
    """And not at the card's first block, which holds its partition table."""
    image = bytes(sample_image(steps=STEPS, seed=SEED))
    assert (net.open(), net.reset()) == (OK, OK)
    assert (net.train_on(*_batch(0)), net.save()) == (OK, OK)
    trained = net.weight
    device = bytes((ctypes.c_uint8 * len(image)).in_dll(net.library, "test_device"))
    slots = min(slot_offset(image, name) for name in SLOT_BLOCKS if name != "weight")
    assert device[:slots] == image[:slots]
    assert device[slots:] != image[slots:]
    assert (net.load(), net.weight) == (OK, trained)


def test_wrong_sizes_are_refused_before_anything_is_changed(net: Net) -> None:
    x, y = _batch(0)
    assert (net.open(), net.load()) == (OK, OK)
    assert net.train_on(x, y, more=4) == SAMPLE_SIZE
    assert net.train_on(x[:3], y[:3]) == SAMPLE_SIZE
    assert net.train_on(x, y[:3]) == SAMPLE_SIZE
    assert net.predict(x[0][:-1], np.zeros(1, np.float32)) == SAMPLE_SIZE
    assert net.predict(x[0], np.zeros(2, np.float32)) == SAMPLE_SIZE
    assert (net.weight, net.metrics.step) == (0.5, 0)


def _fail(net: Net, transfers: int) -> None:
    """Let the next transfers fail: two are a sample's, and the look whether the card answers."""
    ctypes.c_uint32.in_dll(net.library, "test_transfers_that_fail").value = transfers
    ctypes.c_uint32.in_dll(net.library, "test_transfers_until_one_fails").value = 0


def test_after_a_step_that_failed_the_tensors_have_to_be_loaded(net: Net) -> None:
    assert (net.open(), net.load(), net.train()) == (OK, OK, OK)
    _fail(net, 2)
    assert net.train() == FAILED
    assert [net.train(), net.save(), net.predict(*_batch(0))] == [ORDER] * 3
    assert (net.load(), net.train(), net.metrics.step) == (OK, OK, 1)


@pytest.mark.parametrize("board", ["library", "overlapping"])
def test_an_error_of_the_storage_is_told_once(
    request: pytest.FixtureRequest, board: str, tmp_path: Path
) -> None:
    """Whatever call has had it: what is trained can be saved, and what failed be done again."""
    net = _reset(request.getfixturevalue(board), tmp_path)
    for call, transfers in ((net.open, 1), (net.load, 1), (net.train, 2)):
        _fail(net, transfers)
        assert call() == FAILED
        assert (net.open(), net.load(), net.train()) == (OK, OK, OK)
    trained = net.weight
    _fail(net, 2)
    assert (net.evaluate(1), net.evaluate(1)) == (FAILED, OK)
    _fail(net, 1)
    assert (net.save(), net.save()) == (FAILED, OK)
    _fail(net, 2)
    assert (net.evaluate(1), net.reset()) == (FAILED, OK)
    assert (net.load(), net.weight, net.metrics.step) == (OK, trained, 1)


def test_what_was_loaded_is_used_without_the_storage(net: Net) -> None:
    x, output = np.ones(150, "f4"), np.zeros(1, "f4")
    assert (net.open(), net.reset(), net.predict(x, output)) == (OK, OK, OK)
    wanted = output.copy()
    _insert_card(net.library, bytes(len(sample_image())))
    assert net.open() < OK
    assert (net.predict(x, output), net.train()) == (OK, ORDER)
    assert output == wanted


def _device(net: Net) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * (256 * 512)).in_dll(net.library, "test_device")


def _erase(net: Net, value: int = 0) -> None:
    ctypes.memset(_device(net), value, 256 * 512)


def _format(net: Net, seed: int = 1, sets: int = 2) -> int:
    return net.format(ctypes.c_uint32(seed), ctypes.c_uint32(sets))


@pytest.mark.parametrize("board", ["library", "overlapping"])
@pytest.mark.parametrize("blank", [0x00, 0xFF])
def test_a_device_formats_a_blank_card_and_trains_on_its_own_samples(
    request: pytest.FixtureRequest, board: str, blank: int, tmp_path: Path
) -> None:
    net = _reset(request.getfixturevalue(board), tmp_path)
    _erase(net, blank)
    assert (net.open(), _format(net), net.load()) == (NO_PARTITION, OK, NO_COMMIT)
    assert (net.reset(), net.train()) == (OK, NO_SAMPLES)
    assert (net.train_on(*_batch(0)), net.train_on(*_batch(1)), net.save()) == (OK, OK, OK)
    trained = net.weight
    assert (net.reset(), net.weight, net.open(), net.load()) == (OK, 0.5, OK, OK)
    assert (net.weight, net.metrics.step) == (trained, 2)


def test_steps_before_the_card_is_opened_are_saved(net: Net) -> None:
    """On a card with commits of its own, of which the last one is not written over."""
    assert (net.open(), net.load(), net.train(), net.save()) == (OK, OK, OK, OK)
    last, written = net.metrics.set, net.metrics.written_blocks
    assert (net.reset(), net.train_on(*_batch(0)), net.train_on(*_batch(1))) == (OK, OK, OK)
    trained = net.weight
    assert (net.open(), net.metrics.step, net.save()) == (OK, 2, OK)
    assert net.metrics.set != last
    assert net.metrics.written_blocks > written
    assert (net.reset(), net.open(), net.load()) == (OK, OK, OK)
    assert (net.weight, net.metrics.step) == (trained, 2)


def test_formatting_again_leaves_nothing_of_before(net: Net) -> None:
    """Nor does any cut in its middle: then it is done once more."""
    _erase(net)
    assert (_format(net), net.reset(), net.train_on(*_batch(0))) == (OK, OK, OK)
    assert net.save() == OK
    before = bytes(_device(net))
    power = ctypes.c_uint32.in_dll(net.library, "test_blocks_until_power_fails")
    outcomes = []
    for writes in range(10):
        _insert_card(net.library, before)
        power.value = writes
        formatted = _format(net)
        power.value = 2**32 - 1
        if formatted == OK:
            break
        after = Net(net.library)
        outcomes.append(after.open())
        if outcomes[-1] == OK:  # nothing was written
            assert bytes(_device(net)) == before
        assert (_format(after), after.load()) == (OK, NO_COMMIT)
        assert (after.reset(), after.train_on(*_batch(0)), after.save()) == (OK, OK, OK)
        assert (after.load(), after.metrics.step) == (OK, 1)
    assert outcomes == [
        OK,
        *[NO_IMAGE] * 3,
    ]  # two writes make it one, table and record come between
    assert (net.open(), net.load()) == (OK, NO_COMMIT)


def test_formatting_is_refused_where_it_would_destroy_or_has_no_room(net: Net) -> None:
    _erase(net)
    device = _device(net)
    device[510], device[511], device[446 + 4] = 0x55, 0xAA, 0x0C
    assert _format(net) == FOREIGN
    device[446 + 4] = 0
    device[3:11] = b"MSDOS5.0"
    assert _format(net) == FOREIGN
    ctypes.memset(device, 0, 512)
    assert [_format(net, sets=sets) for sets in (0, 1)] == [ARGUMENT] * 2
    assert _format(net, sets=2**32 - 1) == _format(net, sets=2**29) == TOO_SMALL
    assert not any(device)
    room = (256 - 8 - 16) // 8
    assert (_format(net, sets=room + 1), _format(net, sets=room)) == (TOO_SMALL, OK)
    for _ in range(room + 1):
        assert (net.reset(), net.save()) == (OK, OK)


def test_an_image_of_the_hosts_may_have_no_training_samples(net: Net) -> None:
    _insert_card(net.library, sample_image(training=0, evaluation=0))
    assert (net.open(), net.load(), net.train()) == (OK, OK, NO_SAMPLES)
    assert (net.train_on(*_batch(0)), net.save(), net.metrics.step) == (OK, OK, 1)
    _insert_card(net.library, sample_image(training=3))
    assert net.open() == NO_IMAGE


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite_change_nothing(net: Net, bad: float) -> None:
    assert (net.open(), net.load(), net.train()) == (OK, OK, OK)
    before = bytes((ctypes.c_uint8 * 4096).in_dll(net.library, "poet_arena"))
    for part in (0, 1):
        batch = _batch(0)
        batch[part].flat[-1] = bad
        assert net.train_on(*batch) == NOT_FINITE
    x = _batch(0)[0][0].copy()
    x[7] = bad
    assert net.predict(x, np.zeros(1, np.float32)) == NOT_FINITE
    assert bytes((ctypes.c_uint8 * 4096).in_dll(net.library, "poet_arena")) == before
    assert (net.train(), net.metrics.step) == (OK, 2)


def test_a_training_that_diverges_says_so_and_is_not_saved(net: Net) -> None:
    assert (net.open(), net.load(), net.train(), net.save()) == (OK, OK, OK, OK)
    trained = net.weight
    x, y = _batch(0)
    assert net.train_on(x, np.full_like(y, 3e38)) == DIVERGED  # its square is infinite
    assert [net.save(), net.train(), net.predict(x[0], np.zeros(1, np.float32))] == [ORDER] * 3
    assert (net.load(), net.weight, net.metrics.step) == (OK, trained, 1)


def test_a_weight_that_is_not_finite_is_not_saved_over_one_that_is(net: Net) -> None:
    """An update may overflow though the loss before it did not."""
    assert (net.open(), net.load(), net.train(), net.save(), net.train()) == (OK,) * 5
    device, trained = bytes(_device(net)), net.metrics.step
    arena = (ctypes.c_uint8 * 4096).in_dll(net.library, "poet_arena")
    arena[512:516] = np.float32(np.inf).tobytes()
    assert net.save() == DIVERGED
    assert bytes(_device(net)) == device
    assert (net.load(), net.metrics.step) == (OK, trained - 1)
    assert np.isfinite(net.weight)


def test_what_cannot_be_opened_or_loaded_is_not(net: Net) -> None:
    assert (net.open(), net.load()) == (OK, OK)
    _insert_card(net.library, sample_image(plan_id=1))
    assert net.open() == WRONG_PLAN
    assert net.train() == ORDER
    _insert_card(net.library, sample_image())
    assert (net.open(), net.load()) == (OK, OK)
    image = sample_image()
    weight = set_offset(image, 0)
    image[weight : weight + 512] = bytes(512)
    _insert_card(net.library, image)
    assert (net.load(), net.train()) == (NO_SLOT, ORDER)


def test_between_ops_somebody_else_has_a_turn(net: Net) -> None:
    turns: list[list[int]] = []

    def take(argument: int | None) -> None:
        calls = (net.open, net.load, net.reset, net.save, net.train, busy)
        turns.append([argument or 0, *(call() for call in calls)])

    def busy() -> int:
        return int(net.library.poetfw_busy())

    hook = HOOK(take)
    assert (net.open(), net.load(), busy()) == (OK, OK, OK)
    net.library.poetfw_between_ops(hook, ctypes.c_void_p(42))
    assert (net.train(), busy()) == (OK, OK)
    assert turns == [[42, *[BUSY] * 6]]
    assert net.predict(_batch(0)[0][0].copy(), np.zeros(1, np.float32)) == OK
    assert len(turns) == 2
    net.library.poetfw_between_ops(None, None)
    assert net.train() == OK
    assert len(turns) == 2


def test_every_status_has_its_text(net: Net) -> None:
    text = net.library.poetfw_status_text
    text.restype = ctypes.c_char_p
    header = (TEMPLATES / "runtime/status.h").read_text()
    values = [int(value) for value in re.findall(r"= (-\d+),", header)]
    assert [status.value for status in statuses()] == values
    said = [text(value) for value in values]
    assert said == [status.text.encode() for status in statuses()]
    assert len({text(OK), text(-12345), *said}) == len(values) + 2


def test_a_library_says_what_it_is(net: Net) -> None:
    net.library.poetfw_version.restype = ctypes.c_char_p
    net.library.poetfw_plan.restype = ctypes.POINTER(ctypes.c_uint32 * 8)
    assert net.library.poetfw_version() == b"0.0.0"
    assert list(net.library.poetfw_plan().contents) == [0x5A3B1E00, 4, 600, 4, 4, 0, 4096, 4]
