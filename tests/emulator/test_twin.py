# SPDX-License-Identifier: Apache-2.0
"""The sample project on the nRF52840's twin: it trains, it traps, and it refuses wrong images."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.firmware_tools import (
    CORTEX_M0PLUS,
    PARTITION_BLOCK,
    SLOT_BLOCKS,
    SUPERBLOCK,
    compile_sample,
    needs_qemu,
    partition_table,
    run_program,
    run_twin,
    sample_image,
    slot_offset,
)

pytestmark = [pytest.mark.emulator, needs_qemu]

STEPS = 20
RAM_BYTES = 262144
SLOT_BYTES = {"weight": 4, "gradient": 4}


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_sample(tmp_path_factory.mktemp("twin") / "twin.elf", "mps2")


def _run(elf: Path, folder: Path, image: bytes | bytearray) -> tuple[int, list[str], bytes]:
    storage = folder / "storage.img"
    storage.write_bytes(image)
    code, lines = run_twin(elf, folder)
    return code, lines, storage.read_bytes()


def _values(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", line))


def _slot(image: bytes, name: str) -> tuple[bytes, int]:
    """Payload and generation of a valid slot."""
    start = slot_offset(image, name)
    end = start + SLOT_BLOCKS[name][1] * 512
    magic, size, generation, crc = struct.unpack("<4I", image[end - 16 : end])
    payload = image[start : start + size]
    assert (magic, size, crc) == (0x544F4C53, SLOT_BYTES[name], zlib.crc32(payload))
    return payload, generation


def test_training_runs_to_its_end(twin: Path, tmp_path: Path) -> None:
    code, lines, storage = _run(twin, tmp_path, sample_image(steps=STEPS))
    assert code == 0, lines
    assert lines[:2] == [
        "@boot plan=5a3b1e00 board=sample reset=power-on",
        f"@train steps={STEPS} batch=4 done=0",
    ]
    steps = [line for line in lines if line.startswith("@step")]
    assert [line.split()[1] for line in steps] == [str(i + 1) for i in range(STEPS)]
    assert [line.split()[1] for line in lines if line.startswith("@eval")] == ["1", "2"]

    done = _values(lines[-1])
    assert lines[-1].startswith("@done")
    assert done["tick_unit"] == "instructions"
    assert int(done["ticks"]) == sum(int(_values(line)["ticks"]) for line in steps)
    assert int(done["high_water"]) == 2968  # 2964 bytes up to the gradient's end, rounded up
    assert 0 < int(done["stack_high_water"]) < 4096

    weight, generation = _slot(storage, "weight")
    assert generation == STEPS
    assert struct.unpack("<f", weight)[0] == pytest.approx(3.0, rel=0.05)
    assert _slot(storage, "gradient")[1] == STEPS


def test_storage_traffic_is_counted(twin: Path, tmp_path: Path) -> None:
    _, lines, _ = _run(twin, tmp_path, sample_image(steps=STEPS, flags=0))
    done = _values(lines[-1])
    per_step = 4 * 2 + 4 * 1 + 5 + 1  # x: 2 blocks a sample; y: 1; both pages read back
    # Table, superblock, both records and the weight; and the commit, which is read back.
    assert int(done["read"]) == 512 * (5 + STEPS * per_step + 2)
    assert int(done["written"]) == 512 * (STEPS * (5 + 1) + 2)


def test_the_twin_repeats_itself_exactly(twin: Path, tmp_path: Path) -> None:
    runs = [_run(twin, tmp_path, sample_image()) for _ in range(2)]
    assert runs[0] == runs[1]


def test_this_computer_trains_to_the_same_bits(twin: Path, tmp_path: Path) -> None:
    _, twin_lines, twin_storage = _run(twin, tmp_path, sample_image())
    native = compile_sample(
        tmp_path / "native", "posix", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    (tmp_path / "storage.img").write_bytes(sample_image())
    code, lines = run_program([str(native)], tmp_path)
    assert code == 0, lines
    values = [
        [
            _values(line).get("loss", _values(line).get("metric"))
            for line in run
            if line.startswith(("@step", "@eval"))
        ]
        for run in (lines, twin_lines)
    ]
    assert len(values[0]) == STEPS + 2
    assert values[0] == values[1]
    assert (tmp_path / "storage.img").read_bytes() == twin_storage


@pytest.mark.parametrize(
    ("defect", "address"),
    [
        ("SAMPLE_OVERRUN", 0x20000000 + RAM_BYTES),
        ("SAMPLE_OVERFLOW", None),
        ("SAMPLE_WRITE_TO_FLASH", None),
    ],
)
def test_access_outside_the_boards_memory_faults(
    tmp_path: Path, defect: str, address: int | None
) -> None:
    elf = compile_sample(tmp_path / "twin.elf", "mps2", f"-D{defect}")
    code, lines, _ = _run(elf, tmp_path, sample_image())
    assert code == 99
    assert re.fullmatch(r"@fault cfsr=[0-9a-f]{8} address=[0-9a-f]{8} pc=[0-9a-f]{8}", lines[-1])
    fault = _values(lines[-1])
    assert int(fault["cfsr"], 16) != 0
    if address is not None:
        assert int(fault["address"], 16) == address


def test_stack_overflow_does_not_reach_the_arena(tmp_path: Path) -> None:
    """The stack is the lowest thing in RAM, so what it runs into is no memory at all."""
    elf = compile_sample(tmp_path / "twin.elf", "mps2")
    symbols = subprocess.run(
        ["arm-none-eabi-nm", str(elf)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    address = {name: int(value, 16) for value, _, name in map(str.split, symbols.splitlines())}
    assert address["poet_stack_lower"] == 0x20000000
    assert address["poet_stack_upper"] == 0x20000000 + 4096
    assert address["poet_arena"] >= address["poet_stack_upper"]


def test_ram_of_four_megabytes_is_there_and_no_more(tmp_path: Path) -> None:
    ram_bytes = 4 << 20
    elf = compile_sample(tmp_path / "reference.elf", "mps2", ram_bytes=ram_bytes)
    assert _run(elf, tmp_path, sample_image())[0] == 0
    elf = compile_sample(tmp_path / "overrun.elf", "mps2", "-DSAMPLE_OVERRUN", ram_bytes=ram_bytes)
    assert _run(elf, tmp_path, sample_image())[0] == 99


@pytest.mark.parametrize(
    "ram_bytes",
    [
        11_232,  # its last region begins in the middle of what regions are multiples of
        *(
            pytest.param(size, marks=pytest.mark.slow)
            for size in (192 << 10, 255 << 10, 1023 << 10, (3 << 20) + (341 << 10))
        ),
    ],
)
def test_ram_of_any_size_is_guarded_exactly(tmp_path: Path, ram_bytes: int) -> None:
    accesses = ("-DSAMPLE_LAST_BYTES", "-DSAMPLE_OVERRUN")
    elf = compile_sample(tmp_path / "overrun.elf", "mps2", *accesses, ram_bytes=ram_bytes)
    code, lines, _ = _run(elf, tmp_path, sample_image())
    assert code == 99
    assert int(_values(lines[-1])["address"], 16) == 0x20000000 + ram_bytes


@pytest.mark.parametrize(
    "flash_bytes",
    [84 << 10, *(pytest.param(size, marks=pytest.mark.slow) for size in (1 << 20, 332 << 10))],
)
def test_flash_of_any_size_is_guarded_exactly(tmp_path: Path, flash_bytes: int) -> None:
    accesses = ("-DSAMPLE_LAST_BYTES", "-DSAMPLE_BEYOND_FLASH")
    elf = compile_sample(tmp_path / "beyond.elf", "mps2", *accesses, flash_bytes=flash_bytes)
    code, lines, _ = _run(elf, tmp_path, sample_image())
    assert code == 99
    assert int(_values(lines[-1])["address"], 16) == flash_bytes


@pytest.mark.parametrize(
    ("ram_bytes", "flash_bytes"),
    [
        (12_321, 20_001),
        pytest.param(262_100, 1_000_001, marks=pytest.mark.slow),
        pytest.param(12_289, 65_537, marks=pytest.mark.slow),
    ],
)
def test_memory_of_an_odd_size_is_all_there(
    tmp_path: Path, ram_bytes: int, flash_bytes: int
) -> None:
    """Its guard rounds up, to what the linker script leaves empty."""
    sizes = {"ram_bytes": ram_bytes, "flash_bytes": flash_bytes}
    elf = compile_sample(tmp_path / "odd.elf", "mps2", "-DSAMPLE_LAST_BYTES", **sizes)
    assert _run(elf, tmp_path, sample_image())[0] == 0


def test_a_core_without_fpu_trains_to_the_same_bits(twin: Path, tmp_path: Path) -> None:
    """Code for the smallest core, which this machine's processor runs as well."""
    _, with_fpu, storage = _run(twin, tmp_path, sample_image())
    elf = compile_sample(tmp_path / "soft.elf", "mps2", machine=CORTEX_M0PLUS)
    code, lines, storage_soft = _run(elf, tmp_path, sample_image())
    assert code == 0, lines
    assert storage_soft == storage
    losses = [[line.split()[2] for line in run if "loss=" in line] for run in (lines, with_fpu)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == STEPS


@pytest.mark.parametrize(
    "defect", ["SAMPLE_OVERFLOW", pytest.param("SAMPLE_OVERRUN", marks=pytest.mark.slow)]
)
def test_a_core_without_fault_status_says_where_it_was(tmp_path: Path, defect: str) -> None:
    elf = compile_sample(tmp_path / "soft.elf", "mps2", f"-D{defect}", machine=CORTEX_M0PLUS)
    code, lines, _ = _run(elf, tmp_path, sample_image())
    assert code == 99
    fault = _values(lines[-1])
    assert (fault["cfsr"], fault["address"]) == ("00000000", "00000000")
    assert (fault["pc"] == "00000000") == (defect == "SAMPLE_OVERFLOW")


def _other_plan() -> bytearray:
    return sample_image(plan_id=0x12345678)


def _damaged_superblock() -> bytearray:
    image = sample_image()
    image[SUPERBLOCK + 28] ^= 1
    return image


def _damaged_weight() -> bytearray:
    image = sample_image()
    image[slot_offset(image, "weight")] ^= 1
    return image


def _missing_weight() -> bytearray:
    image = sample_image()
    start = slot_offset(image, "weight")
    image[start : start + 512] = bytes(512)
    return image


def _superblock_alone() -> bytearray:
    return sample_image()[: SUPERBLOCK + 512]


def _slots_cut_off() -> bytearray:
    return sample_image()[:-512]


def _table_alone() -> bytearray:
    return sample_image()[:512]


def _no_table() -> bytearray:
    return sample_image()[SUPERBLOCK:]


def _anothers_table() -> bytearray:
    return bytearray(partition_table((0x0C, 8, 100))) + sample_image()[512:]


def _small_partition() -> bytearray:
    return bytearray(partition_table((0xDA, PARTITION_BLOCK, 44))) + sample_image()[512:]


def _cut_in_the_table() -> bytearray:
    return sample_image()[:100]


def _less_than_a_batch() -> bytearray:
    return sample_image(training=3)


@pytest.mark.parametrize(
    ("image", "error"),
    [
        (_other_plan, "@error status=-2 at=image"),
        (_damaged_superblock, "@error status=-1 at=image"),
        (_no_table, "@error status=-7 at=image"),
        (_anothers_table, "@error status=-8 at=image"),
        (_table_alone, "@error status=-9 at=image"),
        (_superblock_alone, "@error status=-10 at=image"),
        (_slots_cut_off, "@error status=-10 at=image"),
        (_small_partition, "@error status=-11 at=image"),
        (_cut_in_the_table, "@error status=-3 at=image"),
        (_less_than_a_batch, "@error status=-1 at=image"),
    ],
)
def test_wrong_images_are_refused(
    twin: Path, tmp_path: Path, image: Callable[[], bytearray], error: str
) -> None:
    code, lines, _ = _run(twin, tmp_path, image())
    assert (code, lines[-1]) == (1, error)


@pytest.mark.parametrize(("image", "status"), [(_damaged_weight, -6), (_missing_weight, -5)])
def test_without_a_whole_commit_the_programs_own_weights_are_trained(
    twin: Path, tmp_path: Path, image: Callable[[], bytearray], status: int
) -> None:
    code, lines, _ = _run(twin, tmp_path, image())
    assert code == 0
    assert f"@anew status={status}" in lines
    assert lines[-1].startswith("@done ")


def test_no_storage_is_an_error(twin: Path, tmp_path: Path) -> None:
    code, lines = run_twin(twin, tmp_path)
    assert (code, lines[-1]) == (1, "@error status=-3 at=image")


def test_a_hang_can_be_ended(tmp_path: Path) -> None:
    elf = compile_sample(tmp_path / "twin.elf", "mps2", "-DSAMPLE_HANG")
    (tmp_path / "storage.img").write_bytes(sample_image())
    with pytest.raises(subprocess.TimeoutExpired):
        run_twin(elf, tmp_path, timeout_s=3.0)


def test_the_boards_own_firmware_builds_and_fits(tmp_path: Path) -> None:
    elf = compile_sample(tmp_path / "nrf52840.elf", "nrf52840")
    sizes = subprocess.run(
        ["arm-none-eabi-size", str(elf)], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()[1]
    text, data, bss = map(int, sizes.split()[:3])
    assert 0 < text + data < 17408
    assert 4096 + 4096 < data + bss < 4096 + 4096 + 1024
