# SPDX-License-Identifier: Apache-2.0
"""The sample project as a program of this computer, step by step beside what it should do."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import (
    BLOCK,
    PARTITION_BLOCK,
    SAMPLE_BATCH,
    SLOT_BLOCKS,
    SUPERBLOCK,
    compile_sample,
    run_program,
    sample_data,
    sample_image,
    set_offset,
    slot_offset,
)
from poetfw.firmware.sample_order import sample_order

STEPS = 4
TRAINING, EVALUATION = 10, 8
SEED = 7
CAPTURE, EVALUATE = 1, 2


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_sample(tmp_path_factory.mktemp("native") / "native", "posix")


def _values(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", line))


def _real(digits: str) -> float:
    value: float = struct.unpack(">f", bytes.fromhex(digits))[0]
    return value


def _expected() -> tuple[list[float], float, list[float]]:
    """The losses, the weight and the metrics: least squares of y = weight * mean of x."""
    x, y = sample_data(TRAINING + EVALUATION)
    weight, losses = 0.5, []
    for step in range(STEPS):
        batch = sample_order(TRAINING, SAMPLE_BATCH, SEED, step)
        means, targets = x[batch].mean(axis=1), y[batch]
        error = weight * means - targets
        losses.append(float(np.mean(error**2)))
        weight -= 0.125 * float(np.mean(2 * error * means))
    held_out = np.arange(TRAINING, TRAINING + EVALUATION).reshape(-1, SAMPLE_BATCH)
    metrics = [float(np.mean((weight * x[b, 0] - y[b]) ** 2)) for b in held_out]
    return losses, weight, metrics


@pytest.mark.parametrize("flags", [0, CAPTURE, EVALUATE, CAPTURE | EVALUATE])
def test_a_run_does_what_it_was_asked_to(native: Path, tmp_path: Path, flags: int) -> None:
    image = tmp_path / "image"
    image.write_bytes(sample_image(steps=STEPS, seed=SEED, flags=flags))
    code, lines = run_program([str(native), str(image)], tmp_path)
    assert code == 0, lines
    losses, weight, metrics = _expected()
    steps = [line for line in lines if line.startswith("@step")]
    assert [line.split()[1] for line in steps] == [str(step + 1) for step in range(STEPS)]
    assert [_real(_values(line)["loss"]) for line in steps] == pytest.approx(losses, rel=1e-4)
    evaluations = [line for line in lines if line.startswith("@eval")]
    shown = [_real(_values(line)["metric"]) for line in evaluations]
    assert shown == pytest.approx(metrics if flags & EVALUATE else [], rel=1e-4)

    # At first table, superblock, both records and the weight. x: 2 blocks of a sample; y: 1; both
    # pages out and in; the weight and its record, which are read back; the gradient, once.
    read = 5 + STEPS * (SAMPLE_BATCH * 3 + 6) + 2 + len(shown) * SAMPLE_BATCH * 3
    written = STEPS * 6 + 2 + (flags & CAPTURE)
    done = _values(lines[-1])
    assert (int(done["read"]), int(done["written"])) == (read * BLOCK, written * BLOCK)
    assert int(done["ticks"]) == sum(int(_values(line)["ticks"]) for line in steps) > 0
    assert int(done["high_water"]) == 2968  # the gradient ends at 2964
    assert done["stack_high_water"] == "0"

    content = image.read_bytes()
    start = slot_offset(content, "weight")
    assert struct.unpack_from("<f", content, start)[0] == pytest.approx(weight, rel=1e-5)
    end = slot_offset(content, "gradient") + SLOT_BLOCKS["gradient"][1] * BLOCK
    generation = struct.unpack_from("<I", content, end - 8)[0]
    assert generation == (STEPS if flags & CAPTURE else 0)


@pytest.mark.parametrize(
    ("cut", "damage", "said"),
    [
        (None, (SUPERBLOCK + 28, 1), "@error status=-1 at=image"),
        (100, None, "@error status=-3 at=image"),
        (SUPERBLOCK, None, "@error status=-9 at=image"),
        (SUPERBLOCK + 512, None, "@error status=-10 at=image"),
    ],
)
def test_a_run_says_where_it_failed(
    native: Path,
    tmp_path: Path,
    cut: int | None,
    damage: tuple[int | str, int] | None,
    said: str,
) -> None:
    content = sample_image()
    if damage is not None:
        at = damage[0] if isinstance(damage[0], int) else slot_offset(content, damage[0])
        content[at] ^= damage[1]
    image = tmp_path / "image"
    image.write_bytes(content[:cut])
    code, lines = run_program([str(native), str(image)], tmp_path)
    assert (code, lines[-1]) == (1, said)


def _run(native: Path, folder: Path, content: bytes | bytearray) -> tuple[int, list[str], bytes]:
    image = folder / "image"
    image.write_bytes(content)
    code, lines = run_program([str(native), str(image)], folder)
    return code, lines, image.read_bytes()


def test_without_a_whole_commit_a_run_begins_anew_and_says_so(native: Path, tmp_path: Path) -> None:
    """With the weights that the program holds; what it commits then counts, whatever was there."""
    fresh = sample_image(steps=STEPS, seed=SEED)
    _, expected, trained = _run(native, tmp_path, fresh)
    damaged = bytearray(trained)
    for number in range(2):
        damaged[set_offset(fresh, number)] ^= 1
    code, lines, left = _run(native, tmp_path, damaged)
    assert code == 0
    assert "@anew status=-6" in lines
    assert f"@train steps={STEPS} batch={SAMPLE_BATCH} done=0" in lines
    losses = [[_values(line)["loss"] for line in said if line[:5] == "@step"]
              for said in (expected, lines)]  # fmt: skip
    assert losses[0] == losses[1]
    _, lines, _ = _run(native, tmp_path, left)
    assert f"@train steps={STEPS} batch={SAMPLE_BATCH} done={STEPS}" in lines
    assert not [line for line in lines if line.startswith("@anew")]
    sequences = [
        struct.unpack_from("<I", left, set_offset(fresh, n) + BLOCK + 12)[0] for n in (0, 1)
    ]
    assert sorted(sequences) == [1, 2]


def test_a_card_of_two_images_is_refused_rather_than_begun_anew(
    native: Path, tmp_path: Path
) -> None:
    fresh = sample_image(steps=STEPS, seed=SEED)
    other = sample_image(steps=STEPS, seed=SEED, identity=0x5EED1235)
    start = set_offset(fresh, 0)
    for at in (start, start + BLOCK):
        mixed = fresh[:at] + other[at:]
        code, lines, _ = _run(native, tmp_path, mixed)
        assert (code, lines[-1]) == (1, "@error status=-29 at=load")


def test_a_run_names_each_damaged_sample_once(native: Path, tmp_path: Path) -> None:
    image = sample_image(steps=STEPS, seed=SEED)
    for record in (3, 10 + 2):
        image[(PARTITION_BLOCK + 1 + 2 * record) * BLOCK] ^= 1
    code, lines, _ = _run(native, tmp_path, image)
    assert code == 0
    assert [line for line in lines if line.startswith("@damaged")] == [
        "@damaged training=3",
        "@damaged held_out=2",
    ]


def test_a_run_without_storage(native: Path, tmp_path: Path) -> None:
    code, lines = run_program([str(native), "nowhere"], tmp_path)
    assert (code, lines[-1]) == (1, "@error status=-3 at=image")
