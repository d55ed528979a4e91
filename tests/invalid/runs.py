# SPDX-License-Identifier: Apache-2.0
"""Runs of projects that are not there, damaged, or whose firmware hangs and lies."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from invalid.case import Case
from invalid.makers import DONE, ELF, changed, firmware, removed, text, transcript

RUN = "run --board linux --steps 2"
STEPS = ("@step 1 loss=3f800000 ticks=1", "@step 2 loss=3f800000 ticks=1")
EVALUATIONS = tuple(f"@eval {batch} metric=40000000" for batch in range(1, 46))


SUPERBLOCK = 8 * 512
"""Where it is in a storage image: at the beginning of the partition."""


def superblock(*at: tuple[int, int]) -> Callable[[bytes], bytes]:
    """The storage image with other numbers in its superblock, and a CRC to match."""

    def change(image: bytes) -> bytes:
        block = bytearray(image[SUPERBLOCK:][:80])
        for offset, value in at:
            struct.pack_into("<I", block, offset, value)
        crc = struct.pack("<II", 0, zlib.crc32(block))
        return image[:SUPERBLOCK] + bytes(block) + crc + image[SUPERBLOCK + 88 :]

    return change


def document(change: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    """A JSON document after a change."""

    def apply(content: bytes) -> bytes:
        value = json.loads(content)
        change(value)
        return json.dumps(value).encode()

    return apply


def put(*path: str | int, value: object) -> Callable[[bytes], bytes]:
    """A JSON document with another value at a place."""

    def change(place: Any) -> None:
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return document(change)


def run(name: str, code: int, says: tuple[str, ...], make: object, command: str = RUN) -> Case:
    return Case(name, command, code, says, make, built=True)


def linked(name: str) -> Callable[[Path], None]:
    """A folder of the built project that leads out of it."""

    def make(folder: Path) -> None:
        path, other = folder / "build/linux" / name, folder / "elsewhere"
        other.mkdir()
        if path.is_dir():
            shutil.copytree(path, other, dirs_exist_ok=True)
            shutil.rmtree(path)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(other)

    return make


CASES = (
    *(
        run(f"project with a link: {name}", 1, (f"build/linux/{name} is a link",), linked(name))
        for name in ("run", ".pio", ".pio/build/linux", "run/unscheduled", "src")
    ),
    Case(
        "run before build",
        "run --board linux",
        1,
        ("there is no build in build/linux", "run `poetfw build` first"),
    ),
    Case(
        "run in a foreign folder",
        "run --board linux --out photos",
        1,
        ("there is no build in photos",),
        text("photos/a.jpg", ""),
    ),
    run(
        "steps and epochs",
        2,
        ("--epochs does not go with --steps",),
        lambda folder: None,
        f"{RUN} --epochs 1",
    ),
    run(
        "steps beyond 32 bits",
        1,
        ("it must be 1 or more, and below 2^32",),
        lambda folder: None,
        "run --board linux --steps 4294967296",
    ),
    run(
        "epochs beyond 32 bits",
        1,
        ("below 2^32",),
        lambda folder: None,
        "run --board linux --epochs 99999999999",
    ),
    run(
        "another board",
        1,
        ("build/linux holds a build for linux, not for nrf52840",),
        lambda folder: None,
        "run --board nrf52840 --out build/linux",
    ),
    run(
        "emulator that the board has not",
        1,
        ("board 'linux' has no emulator called 'renode'", "use one of: native"),
        lambda folder: None,
        f"{RUN} --emulator renode",
    ),
    run(
        "emulator without a name",
        1,
        ("board 'linux' has no emulator called ''", "use one of: native"),
        lambda folder: None,
        f"{RUN} --emulator ''",
    ),
    run(
        "ELF of another folder",
        1,
        ("build.json: elf is not the board's: '../../../bin/firmware.elf'",),
        changed("build.json", put("elf", value="../../../bin/firmware.elf")),
    ),
    run(
        "not compiled",
        1,
        ("build/linux was generated but not compiled",),
        changed("build.json", put("elf", value=None)),
    ),
    run(
        "no firmware",
        1,
        ("firmware.elf, the compiled firmware, is gone", "run `poetfw build` again"),
        lambda folder: (folder / ELF).unlink(),
    ),
    run(
        "firmware is not a program",
        3,
        ("cannot start", "firmware.elf"),
        lambda folder: (folder / ELF).write_bytes(b"\x7fELF"),
    ),
    # Firmware that misbehaves
    run(
        "firmware that hangs",
        4,
        ("the firmware hangs: it did not end within 1 s; the last it said was nothing at all",),
        firmware("sleep 60"),
        f"{RUN} --timeout 1",
    ),
    run(
        "firmware that hangs in the middle",
        4,
        ("the last it said was @step {'loss'",),
        firmware(f"echo '{STEPS[0]}'; sleep 60"),
        f"{RUN} --timeout 1",
    ),
    run(
        "firmware that closes its console and hangs",
        4,
        ("the firmware hangs",),
        firmware("exec >/dev/null 2>&1; sleep 60"),
        f"{RUN} --timeout 1",
    ),
    run(
        "firmware that leaves a child behind",
        4,
        ("before its report was complete",),
        firmware("sleep 60 >/dev/null 2>&1 & exit 0"),
    ),
    run(
        "firmware that floods the console",
        4,
        ("the firmware hangs",),
        firmware("yes"),
        f"{RUN} --timeout 0.3",
    ),
    run(
        "firmware that floods without newlines",
        4,
        ("the firmware hangs",),
        firmware("exec cat /dev/zero"),
        f"{RUN} --timeout 0.3",
    ),
    run(
        "firmware that floods with steps",
        4,
        ("the device reports @step 1, but 1 of 2 came before it",),
        firmware(f"yes '{STEPS[0]}'"),
        f"{RUN} --timeout 20",
    ),
    run(
        "firmware that floods with events",
        4,
        ("the firmware hangs",),
        firmware("yes '@boot plan=00000000'"),
        f"{RUN} --timeout 0.3",
    ),
    run(
        "firmware that prints garbage",
        4,
        ("ended with exit code 0 before its report was complete",),
        firmware("head -c 100000 /dev/urandom"),
    ),
    run(
        "firmware that prints escape codes", 4, (r"\x1b[2Jboo",), firmware(r"printf '\033[2Jboo\n'")
    ),
    run(
        "firmware that fails",
        4,
        ("ended with exit code 99 before its report was complete",),
        firmware("exit 99"),
    ),
    run(
        "firmware that says done and fails",
        4,
        ("ended with exit code 99",),
        firmware(f"echo '{DONE}'; exit 99"),
    ),
    run("firmware that dies", 4, ("ended with exit code -11",), firmware("kill -SEGV $$")),
    run(
        "firmware that reports an error",
        4,
        ("the firmware stopped with an error: status=-4 at=load: no such slot",),
        transcript("@error status=-4 at=load"),
    ),
    run(
        "firmware that faults",
        4,
        ("the processor faulted: cfsr=00000400",),
        transcript("@fault cfsr=00000400"),
    ),
    run(
        "loss is NaN",
        4,
        ("training diverged: the device reports loss = nan", "--learning-rate"),
        transcript("@step 1 loss=7fc00000 ticks=1"),
    ),
    run("step without loss", 4, ("@step line has no f32 'loss'",), transcript("@step 1 ticks=1")),
    run(
        "step without ticks",
        4,
        ("@step line has no number 'ticks'",),
        transcript("@step 1 loss=3f800000", STEPS[1], *EVALUATIONS, DONE),
    ),
    run(
        "steps out of order",
        4,
        ("the device reports @step 2, but 0 of 2 came before it",),
        transcript(*reversed(STEPS)),
    ),
    run(
        "too few steps",
        4,
        ("the firmware ended after @step 1 of 2",),
        transcript(STEPS[0], *EVALUATIONS, DONE),
    ),
    run(
        "too many steps",
        4,
        ("the device reports @step 3, but 2 of 2 came before it",),
        transcript(*STEPS, "@step 3 loss=3f800000 ticks=1"),
    ),
    run(
        "too few evaluations",
        4,
        ("the firmware ended after @eval 44 of 45",),
        transcript(*STEPS, *EVALUATIONS[:-1], DONE),
    ),
    run(
        "more answers right than asked",
        4,
        ("correct answers of 360",),
        transcript(*STEPS, *(line.replace("40000000", "49000000") for line in EVALUATIONS), DONE),
    ),
    run("nothing done", 4, ("before its report was complete",), transcript(*STEPS, *EVALUATIONS)),
    run(
        "done without figures",
        4,
        ("@done line has no number 'high_water'",),
        transcript(*STEPS, *EVALUATIONS, "@done"),
    ),
    # Damaged projects
    run(
        "report is not JSON",
        1,
        ("build.json is not what `poetfw build` wrote: at the top level: not JSON",),
        changed("build.json", lambda b: b[:-9]),
    ),
    run(
        "report nested beyond measure",
        1,
        ("build.json is not what `poetfw build` wrote: at the top level: not JSON",),
        changed("build.json", lambda b: b"[" * 100_000),
    ),
    run(
        "report of another type",
        1,
        ("build.json is not what `poetfw build` wrote: at batch: an integer was expected",),
        changed("build.json", put("batch", value="8")),
    ),
    run(
        "report with a batch of 0",
        1,
        ("build.json is not what `poetfw build` wrote: at batch: a number above 0",),
        changed("build.json", put("batch", value=0)),
    ),
    run(
        "report with an unknown key",
        1,
        ("build.json is not what `poetfw build` wrote: at more: there is no such key",),
        changed("build.json", put("more", value=1)),
    ),
    run(
        "report of no program",
        1,
        ("build.json names no memories", "run `poetfw build` again"),
        changed("build.json", put("memories", value={})),
    ),
    run(
        "report of a program elsewhere",
        1,
        ("build.json names no memories",),
        changed("build.json", lambda b: b.replace(b'"": {', b'"../other": {')),
    ),
    run(
        "report of another plan",
        1,
        ("is of another build than its partners",),
        changed("build.json", put("plan_id", value="00000000")),
    ),
    run(
        "no graph",
        1,
        ("build/linux: a stage file is missing or malformed:", "graph.json"),
        removed("graph.json"),
    ),
    run(
        "graph is not JSON",
        1,
        ("a stage file is missing or malformed",),
        changed("graph.json", lambda b: b[:-9]),
    ),
    run(
        "graph nested beyond measure",
        1,
        ("a stage file is missing or malformed",),
        changed("graph.json", lambda b: b"[" * 100_000),
    ),
    run(
        "graph of another shape",
        1,
        ("a stage file is missing or malformed",),
        changed("graph.json", put("training", "tensors", 0, "shape", value=[10**9])),
    ),
    run(
        "graph with an unknown operator",
        1,
        ("a stage file is missing or malformed",),
        changed("graph.json", put("training", "ops", 0, "kind", value="rm -rf")),
    ),
    run(
        "graph with odd attributes",
        1,
        ("a stage file is missing or malformed",),
        changed("graph.json", put("training", "ops", 0, "attributes", value={"shape": "x"})),
    ),
    run(
        "plan of unknown ops",
        1,
        ("a stage file is missing or malformed",),
        changed(
            "plan.json",
            put("training", 0, value={"step": "page_out", "node": "nobody", "device": ""}),
        ),
    ),
    run(
        "plan of an older poetfw",
        1,
        ("plan.json has schema_version 1: expected 3", "run `poetfw build` again"),
        changed("plan.json", put("schema_version", value=1)),
    ),
    run(
        "build report of an older poetfw",
        1,
        ("build.json is not what `poetfw build` wrote: at schema_version", "`poetfw build` again"),
        changed("build.json", put("schema_version", value=1)),
    ),
    run(
        "slots that do not fit the plan",
        1,
        ("slots.json is not what graph.json and plan.json come to",),
        changed("slots.json", put("slots", 0, "first_block", value=10**9)),
    ),
    run(
        "slots are a number",
        1,
        ("a stage file is missing or malformed",),
        changed("slots.json", put("slots", value=7)),
    ),
    run(
        "board of the project is damaged",
        1,
        ("board.toml: not a TOML file",),
        changed("board.toml", lambda b: b"= = ="),
    ),
    run("no image", 4, ("storage.img cannot be used: No such file",), removed("storage.img")),
    run(
        "empty image",
        4,
        ("storage.img is not a storage image of poetfw",),
        changed("storage.img", lambda b: b""),
    ),
    run(
        "image cut short",
        4,
        ("storage.img is not a storage image of poetfw",),
        changed("storage.img", lambda b: b[:-512]),
    ),
    run(
        "image's superblock is damaged",
        4,
        ("storage.img is not a storage image of poetfw",),
        changed("storage.img", lambda b: b[: SUPERBLOCK + 40] + b"\xff" + b[SUPERBLOCK + 41 :]),
    ),
    run(
        "image with another's partition table",
        4,
        ("storage.img is not a storage image of poetfw",),
        changed("storage.img", lambda b: b[:450] + b"\x0c" + b[451:]),
    ),
    run(
        "image without a partition table",
        4,
        ("storage.img is not a storage image of poetfw",),
        changed("storage.img", lambda b: b[SUPERBLOCK:]),
    ),
    run(
        "image of another plan",
        4,
        ("storage.img is the storage image of another build or device",),
        changed("storage.img", superblock((12, 7))),
    ),
    run(
        "image with samples beyond its end",
        4,
        ("is not a storage image of poetfw",),
        changed("storage.img", superblock((40, 2**31))),
    ),
    run(
        "image with slots beyond its end",
        4,
        ("is not a storage image of poetfw",),
        changed("storage.img", superblock((60, 2**31))),
    ),
    run(
        "image with larger blocks",
        4,
        ("is not a storage image of poetfw",),
        changed("storage.img", superblock((16, 4096))),
    ),
    run(
        "weights in the image are damaged",
        4,
        ("the firmware stopped with an error",),
        changed(
            "storage.img",
            lambda b: b[: b.index(b"SLOT") + 12] + b"\0\0\0\0" + b[b.index(b"SLOT") + 16 :],
        ),
    ),
)
