# SPDX-License-Identifier: Apache-2.0
"""The power goes at every block that an epoch writes, and the storage fails and lies at every call.

`make test-power` prints what comes of it.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from zlib import crc32

import pytest
from network import FAULTS, OUTCOMES, STEPS_PER_EPOCH, Harness, compile_harness, harness, project

from emulator.firmware_tools import BLOCK
from poetfw.firmware import PARTITION_BLOCK, Places, places, read_commit, read_slots

SEEDS = 13
STATUSES = {
    "CRC": {"-26"},
    "time-out": {"-20"},
    "busy for ever": {"-27"},
    "short": {"-27"},
    "full": {"-23"},
    "removed": {"-16"},
    "silently not written": {"-5", "-6", "-13"},
    "old data": {"-5", "-6", "-13"},
    "done all the same": {"-20"},
    "flipped bit": {"-1", "-10", "-11", "-5", "-6", "-7", "-8", "-12", "-13", "-14", "-15"},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("power"), "nrf52840")


@pytest.fixture
def epoch(library: Path) -> Harness:
    """An epoch with a checkpoint after each step."""
    return Harness(library, project("nrf52840").image(STEPS_PER_EPOCH, 1))


def check(harness: Harness, count: int, seeds: int, depth: int = 1, first: int = 0) -> None:
    bad, table = harness.cuts(first, count, seeds, depth)
    if bad >= 0:
        outcome = harness.cut(bad, seeds, depth)
        replay = f"--case {bad} --seeds {seeds} --depth {depth}"
        pytest.fail(f"case {bad}: {outcome} (python tests/power {replay})\n{harness.console}")
    assert sum(table.values()) == count
    assert {outcome for *_, outcome in table} == {"same"}


def outcomes(harness: Harness, fault: str, for_ever: bool) -> set[str]:
    """What comes of a fault at each call: the same result, or a status that says why."""
    found = {call: harness.fault(call, fault, for_ever) for call in range(harness.calls)}
    assert not set(found.values()) & set(OUTCOMES[1:]), found
    assert set(found.values()) <= {"same", *STATUSES[fault]}, found
    return set(found.values())


def test_ten_thousand_cuts_of_an_epoch(epoch: Harness) -> None:
    assert epoch.cases(SEEDS) > 10_000
    check(epoch, epoch.cases(SEEDS), SEEDS)


def test_cuts_while_what_was_cut_is_made_up_for(epoch: Harness) -> None:
    check(epoch, epoch.cases(2), 2, depth=3)


@pytest.mark.parametrize(("steps", "every", "sets"), [(5, 2, 2), (2, 0, 2), (7, 2, 3)])
def test_checkpoints_now_and_then(library: Path, steps: int, every: int, sets: int) -> None:
    image = project("nrf52840").image(steps, every, sets)
    harness = Harness(library, image)
    commits = [line.split()[1:3] for line in harness.console.splitlines() if "@commit" in line]
    due = [step for step in range(1, steps + 1) if step == steps or (every and step % every == 0)]
    assert commits == [[str(step), f"set={(i + 1) % sets}"] for i, step in enumerate(due)]
    check(harness, harness.cases(1), 1, depth=2)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_storage_that_fails_or_lies(epoch: Harness, fault: str) -> None:
    """The result is the same, or a status says why; with a good card all goes on from there."""
    for for_ever in (False, True):
        assert outcomes(epoch, fault, for_ever) & STATUSES[fault]


def test_each_cut_has_a_number_that_replays_it(epoch: Harness) -> None:
    number = epoch.cases(1) // 2 + 3
    consoles, contents = set(), set()
    for _ in range(2):
        assert epoch.cut(number, 1) == "same"
        consoles.add(epoch.console)
        contents.add(epoch.storage)
    assert (len(consoles), len(contents)) == (1, 1)


# What is in the way of a commit, byte by byte ---------------------------------------------------


@pytest.fixture
def ended(epoch: Harness, tmp_path: Path) -> Path:
    """The storage after the epoch."""
    path = tmp_path / "storage.img"
    path.write_bytes(epoch.storage)
    return path


def test_the_host_reads_what_the_firmware_committed(ended: Path, epoch: Harness) -> None:
    made = project("nrf52840")
    commit = read_commit(ended, made.slots)
    assert (commit.sequence, commit.step) == (STEPS_PER_EPOCH, STEPS_PER_EPOCH)
    assert commit.written == epoch.blocks_written
    tensors = {
        tensor.name: tensor for tensor in (*made.program.training.tensors, made.program.metric)
    }
    values = read_slots(ended, made.slots, tensors)
    trained = {name for (name, _), value in values.items() if (value != 0).any()}
    assert {"conv1.weight", "conv1.weight.momentum", "bn1.running", "logits.bias"} <= trained


def test_what_is_done_is_not_trained_again(library: Path, ended: Path) -> None:
    """Nothing is written either; asked for more steps, it goes on."""
    again = Harness(library, ended.read_bytes())
    assert re.search(rf"done={STEPS_PER_EPOCH}\n@transfers .*\n@eval", again.console)
    assert again.blocks_written == 0
    assert again.storage == ended.read_bytes()
    longer = project("nrf52840").image(STEPS_PER_EPOCH + 2, 1)
    whole = Harness(library, longer)
    at = PARTITION_BLOCK * BLOCK
    asked = longer[: at + BLOCK] + ended.read_bytes()[at + BLOCK :]
    resumed = Harness(library, asked)
    steps = [line for line in whole.console.splitlines() if line.startswith("@step")]
    assert [line for line in resumed.console.splitlines() if line.startswith("@step")] == steps[-2:]
    assert resumed.storage[at:] == whole.storage[at:]


def _places(image: Path) -> Places:
    return places(image, project("nrf52840").slots)


def damage(content: bytes, changes: dict[int, bytes]) -> bytes:
    changed = bytearray(content)
    for at, new in changes.items():
        changed[at : at + len(new)] = new
    return bytes(changed)


def record_with(content: bytes, block: int, offset: int, value: int) -> dict[int, bytes]:
    """A record with another number at an offset, and the CRC of that."""
    record = bytearray(content[block * BLOCK :][:BLOCK])
    struct.pack_into("<I", record, offset, value)
    struct.pack_into("<I", record, 36, crc32(record[:32]))
    return {block * BLOCK: bytes(record)}


def test_half_a_commit_is_none(library: Path, ended: Path) -> None:
    """Each is refused, and the one before taken; where no other is, its own status says so."""
    content, where = ended.read_bytes(), _places(ended)
    last = STEPS_PER_EPOCH % 2
    record, start = where.record_blocks[last], where.set_blocks[last] * BLOCK
    half: dict[str, dict[int, bytes]] = {
        "magic": {record * BLOCK: b"x"},
        "CRC": {record * BLOCK + 36: bytes(4)},
        "another step": record_with(content, record, 16, STEPS_PER_EPOCH + 1),
        "other slots": record_with(content, record, 24, 0x12345678),
        "a slot's payload": {start: b"\x55"},
        "a slot of the commit before": {
            start: content[where.set_blocks[1 - last] * BLOCK :][:BLOCK]
        },
    }
    for name, changes in half.items():
        resumed = Harness(library, damage(content, changes))
        assert f"done={STEPS_PER_EPOCH - 1}\n" in resumed.console, name
    other = {where.record_blocks[1 - last] * BLOCK: bytes(BLOCK)}
    for name, changes in half.items():
        with pytest.raises(AssertionError) as refused:
            Harness(library, damage(content, {**changes, **other}))
        assert re.search(r"@error status=-(5|6|13|15) at=load", str(refused.value)), name


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("board", ["nrf52840", "stm32f405"])
def test_a_million_cuts(board: str, part: int) -> None:
    """Of two epochs, where transfers overlap with computing, and where they are waited for."""
    with harness(board, project(board).image(2 * STEPS_PER_EPOCH, 1)) as two_epochs:
        count = 50_000
        seeds = -(-10 * count // two_epochs.cases(1))
        depth = 2 if part % 2 else 1
        check(two_epochs, count, seeds, depth, first=part * count)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_where_transfers_are_waited_for(fault: str) -> None:
    with harness("stm32f405", project("stm32f405").image(2 * STEPS_PER_EPOCH, 2)) as waiting:
        test_a_storage_that_fails_or_lies(waiting, fault)
