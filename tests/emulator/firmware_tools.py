# SPDX-License-Identifier: Apache-2.0
"""What the emulator tests share: the sample project, the compiler, the emulator."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from compiling import compile_each
from poetfw.boards import load_board
from poetfw.common.resources import firmware_templates_dir
from poetfw.firmware.library import statuses
from poetfw.firmware.project import template_environment
from poetfw.firmware.views import Define, TypeView

TEMPLATES = firmware_templates_dir()
BLOCK = 512
SAMPLE_PLAN_ID = 0x5A3B1E00
SAMPLE_IDENTITY = 0x5EED1234
SAMPLE_BATCH = 4
SAMPLE_FEATURES = 150
SAMPLE_RECORD_BLOCKS = 2


def _sample_project() -> Path:
    """The sample project, its library's interface made of the template of all projects.

    The folder is named by what is in it, so that compilers find in their cache what is the same.
    """
    sizes = {"X_BYTES": 600, "Y_BYTES": 4, "OUTPUT_BYTES": 4, "ARENA_BYTES": 4096}
    facts = {
        "PLAN_ID": f"0x{SAMPLE_PLAN_ID:08x}u",
        "BOARD": '"sample"',
        "BATCH": f"{SAMPLE_BATCH}u",
    }
    facts |= {"CLASSES": "0", "PAGES": "4", **{key: f"{size}u" for key, size in sizes.items()}}
    project = {
        "title": "the sample project",
        "poetfw_version": "0.0.0",
        "plan_id": f"{SAMPLE_PLAN_ID:08x}",
        "facts": [Define(key, value) for key, value in facts.items()],
        "slices": False,
        "ring": False,
        "streams": (),
        "stored": (),
        "image_words": 18,
        "types": [
            TypeView("poetfw_input", "Features of a sample.", "float", ()),
            TypeView("poetfw_target", "Target values of a sample.", "float", ()),
            TypeView("poetfw_output", "Output of the network for a sample.", "float", ()),
        ],
        "metric_comment": "mean squared error",
    }
    written = Path(__file__).parent / "sample_project"
    files = {path.name: path.read_bytes() for path in sorted(written.glob("*.[ch]"))}
    for name in ("poetfw.h", "status_text.c"):
        template = template_environment().get_template(f"generated/{name}.j2")
        text = template.render(project=project, file_name=name, statuses=statuses())
        files[name] = text.encode()
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
    folder = Path(__file__).parents[2] / "build/sample-projects" / digest
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        (made / "src/generated").mkdir(parents=True)
        for name, content in files.items():
            (made / "src/generated" / name).write_bytes(content)
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(made)
    return folder


SAMPLE = _sample_project()
SLOT_BLOCKS = {"weight": (0, 1), "means": (0, 1), "gradient": (1, 1), "x": (2, 5)}
"""First block and blocks of each: of the weight in its set, of the others where they begin."""
SLOTS_BLOCKS, SET_BLOCKS = 7, 8

CORTEX_M4F = load_board("nrf52840").toolchain.machine_flags
CORTEX_M0PLUS = ("-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft")
C_FLAGS = (
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing", "-ffunction-sections"),
)

needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-system-arm") is None or shutil.which("arm-none-eabi-gcc") is None,
    reason="needs qemu-system-arm and arm-none-eabi-gcc",
)


_FOR_THE_LINKER = ("-shared", "-nostdlib", "-T", "-l", "-Wl,")


def compile_c(
    out: Path, sources: list[Path], includes: list[Path], *flags: str, compiler: str = "gcc"
) -> Path:
    """Compile and link."""
    command = [compiler, *C_FLAGS, *(f"-I{p}" for p in includes)]
    to_compile = [flag for flag in flags if not flag.startswith(_FOR_THE_LINKER)]
    objects = Path(tempfile.mkdtemp(prefix=f"{out.name}.", dir=out.parent))
    compiled = compile_each([*command, *to_compile], sources, objects)
    subprocess.run([*command, *compiled, *flags, "-o", str(out)], check=True, timeout=120)
    return out


def linker_script(name: str, out: Path, flash_start: int = 0, **sizes: int) -> Path:
    """Render a linker script."""
    template = template_environment().get_template(f"ld/{name}.ld.j2")
    out.write_text(template.render(flash_start=f"0x{flash_start:08x}", **sizes))
    return out


def compile_native(out: Path, sources: list[Path], includes: list[Path]) -> Path:
    """Compile a program of its own `main` for this computer."""
    return compile_c(out, [*sources, *sorted((TEMPLATES / "hal/posix").glob("*.c"))], includes)


def compile_for_twin(out: Path, sources: list[Path], includes: list[Path], *flags: str) -> Path:
    """Compile a program of its own `main` for the nRF52840's twin; `flags` name its core."""
    script = linker_script(
        "mps2", out.with_suffix(".ld"), ram_bytes=262144, flash_bytes=1 << 20, stack_bytes=4096
    )
    return compile_c(
        out,
        [
            *sources,
            TEMPLATES / "runtime/poet_memory.c",
            *sorted((TEMPLATES / "hal/mps2").glob("*.c")),
            TEMPLATES / "hal/cortex_m/stack.c",
            TEMPLATES / "hal/cortex_m/startup.c",
        ],
        [*includes, TEMPLATES / "hal/mps2", TEMPLATES / "hal/cortex_m"],
        *flags,
        *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
        "-lgcc",
        compiler="arm-none-eabi-gcc",
    )


def compile_sample(
    out: Path,
    hal: str,
    *flags: str,
    ram_bytes: int = 262144,
    flash_start: int = 0,
    flash_bytes: int = 1 << 20,
    stack_bytes: int = 4096,
    machine: tuple[str, ...] = CORTEX_M4F,
    hosted_compiler: str = "gcc",
) -> Path:
    """Compile the sample project for a board family."""
    bare_metal = hal != "posix"
    left_out = {"poet_memory.c"} if not bare_metal else set()
    if hal in ("mps2", "posix"):
        left_out |= {"sd.c", "sd_storage.c"}
    families = [hal]
    if hal == "nrf52840_qspi":
        left_out |= {"sd.c", "sd_storage.c", "spi.c", "spi_interrupt.c"}
        families.append("nrf52840")
    folders = [
        SAMPLE / "src/generated",
        TEMPLATES / "storage",
        TEMPLATES / "runtime",
        *(TEMPLATES / "hal" / family for family in families),
        *([TEMPLATES / "hal/cortex_m"] if bare_metal else []),
    ]
    sources = [f for d in folders for f in sorted(d.glob("*.[cS]")) if f.name not in left_out]
    includes = [*folders, TEMPLATES / "hal"]
    if not bare_metal:
        return compile_c(out, sources, includes, *flags, compiler=hosted_compiler)
    script = linker_script(
        families[-1],
        out.with_suffix(".ld"),
        flash_start,
        ram_bytes=ram_bytes,
        flash_bytes=flash_bytes,
        stack_bytes=stack_bytes,
    )
    return compile_c(
        out,
        sources,
        includes,
        *machine,
        *("-ffreestanding", "-nostdlib", "-Wl,--gc-sections", f"-T{script}"),
        *(f"-DPOET_RAM_BYTES={ram_bytes}u", f"-DPOET_FLASH_BYTES={flash_bytes}u"),
        *flags,
        "-lgcc",
        compiler="arm-none-eabi-gcc",
    )


def run_program(command: list[str], folder: Path, timeout_s: float = 60.0) -> tuple[int, list[str]]:
    """Run to the end, without the computer's meters; exit code and the console's lines."""
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "POETFW_SYSFS": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return result.returncode, result.stdout.decode("ascii", "replace").splitlines()


def qemu(machine: str, elf: Path, *arguments: str) -> list[str]:
    """The emulator's command line."""
    return [
        *("qemu-system-arm", "-M", machine, "-display", "none", "-monitor", "none"),
        *("-serial", "stdio", "-semihosting-config", "enable=on,target=native"),
        *("-kernel", str(elf), *arguments),
    ]


def run_twin(elf: Path, folder: Path, timeout_s: float = 60.0) -> tuple[int, list[str]]:
    """Run on the nRF52840's twin, with the storage image in `folder`."""
    return run_program(qemu("mps2-an386", elf, "-icount", "shift=0"), folder, timeout_s)


def slot_bytes(payload: bytes, generation: int = 0) -> bytes:
    """A slot as it is in storage."""
    size = -(-(len(payload) + 16) // BLOCK) * BLOCK
    trailer = struct.pack("<4I", 0x544F4C53, len(payload), generation, zlib.crc32(payload))
    return payload.ljust(size - 16, b"\0") + trailer


def crc(data: bytes) -> bytes:
    """A CRC-32 as it is in storage."""
    return struct.pack("<I", zlib.crc32(data))


def with_crc(data: bytes) -> bytes:
    """A block of data, with their CRC-32 behind a gap."""
    return (data + bytes(4) + crc(data)).ljust(BLOCK, b"\0")


def sample_record(x: bytes, y: bytes, identity: int = SAMPLE_IDENTITY) -> bytes:
    """A sample as it is in storage, without padding."""
    return x + y + struct.pack("<2I", zlib.crc32(x) ^ identity, zlib.crc32(y) ^ ~identity % 2**32)


def commit_record(
    slot: bytes,
    sequence: int = 0,
    step: int = 0,
    written: int = 0,
    identity: int = SAMPLE_IDENTITY,
) -> bytes:
    """The record of a commit of one slot, as it is in storage."""
    values = (identity, sequence, step, written, zlib.crc32(slot[-16:]), 0)
    return with_crc(struct.pack("<8s6I", b"POETSAVE", *values))


def sample_data(samples: int = 18) -> tuple[np.ndarray, np.ndarray]:
    """Features [samples, 150], and targets [samples] = 3 * mean of the features."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(samples, SAMPLE_FEATURES)) + rng.normal(size=(samples, 1))
    x = x.astype("<f4")
    return x, (3 * x.mean(axis=1)).astype("<f4")


PARTITION_BLOCK = 3
"""Where the sample image's partition begins: not where the host's own images do."""
SUPERBLOCK = PARTITION_BLOCK * BLOCK


def partition_table(*partitions: tuple[int, int, int]) -> bytes:
    """A master boot record of partitions: type, first block, blocks."""
    entries = [struct.pack("<B3xB3xII", 0, *partition) for partition in partitions]
    return (bytes(446) + b"".join(entries)).ljust(BLOCK - 2, b"\0") + b"\x55\xaa"


def sample_image(
    *,
    steps: int = 20,
    seed: int = 7,
    flags: int = 3,
    plan_id: int = SAMPLE_PLAN_ID,
    training: int = 10,
    evaluation: int = 8,
    sets: int = 2,
    checkpoint_every: int = 0,
    identity: int = SAMPLE_IDENTITY,
) -> bytearray:
    """A storage image for the sample project; the weight starts at 0.5."""
    x, y = sample_data(training + evaluation)
    records = b"".join(
        sample_record(x[i].tobytes(), y[i].tobytes(), identity).ljust(
            SAMPLE_RECORD_BLOCKS * BLOCK, b"\0"
        )
        for i in range(training + evaluation)
    )
    first_evaluation = 1 + SAMPLE_RECORD_BLOCKS * training
    first_slot = first_evaluation + SAMPLE_RECORD_BLOCKS * evaluation
    first_set = first_slot + SLOTS_BLOCKS
    header = struct.pack(
        "<8s18I",
        *(b"POETIMG1", 3, plan_id, BLOCK, first_set + sets * SET_BLOCKS, flags, steps, seed),
        *(1, training, SAMPLE_RECORD_BLOCKS, first_evaluation, evaluation, SAMPLE_RECORD_BLOCKS),
        *(first_slot, first_set, sets, checkpoint_every, identity),
    )
    weight = slot_bytes(np.float32(0.5).tobytes())
    first = (weight + commit_record(weight, identity=identity)).ljust(SET_BLOCKS * BLOCK, b"\0")
    others = bytes((sets - 1) * SET_BLOCKS * BLOCK)
    partition = with_crc(header) + records + bytes(SLOTS_BLOCKS * BLOCK)
    partition += first + others
    table = partition_table((0xDA, PARTITION_BLOCK, len(partition) // BLOCK))
    return bytearray(table.ljust(PARTITION_BLOCK * BLOCK, b"\0") + partition)


def set_offset(image: bytes | bytearray, number: int) -> int:
    """Where a set begins in the sample project's image."""
    (first_set,) = struct.unpack_from("<I", image, SUPERBLOCK + 64)
    return int(PARTITION_BLOCK + first_set + number * SET_BLOCKS) * BLOCK


def committed_set(image: bytes | bytearray) -> int:
    """Which set has the record of the highest sequence."""
    (sets,) = struct.unpack_from("<I", image, SUPERBLOCK + 68)
    records = [set_offset(image, number) + BLOCK for number in range(sets)]
    written = [r for r in records if image[r : r + 8] == b"POETSAVE"]
    last = max(written, key=lambda r: int(struct.unpack_from("<I", image, r + 12)[0]))
    return records.index(last)


def slot_offset(image: bytes | bytearray, name: str) -> int:
    """Where a slot of the sample project begins in its image; the weight's in its last commit."""
    if name == "weight":
        return set_offset(image, committed_set(image))
    (first_slot,) = struct.unpack_from("<I", image, SUPERBLOCK + 60)
    return int(PARTITION_BLOCK + first_slot + SLOT_BLOCKS[name][0]) * BLOCK
