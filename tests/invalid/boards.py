# SPDX-License-Identifier: Apache-2.0
"""Boards: unknown ones, and TOML files that are wrong in every way."""

from __future__ import annotations

from invalid.case import Case
from invalid.makers import board_file, text

BUILD = "build --board mine.toml --model mlp --ram 1000000 --generate-only"
RAM = 'ram_bytes = { value = 1_073_741_824, source = "chosen: the arena may have up to 1 GiB" }'

CASES = (
    Case(
        "unknown board",
        "build --board commodore64",
        1,
        ("no board is called 'commodore64'", "nrf52840"),
    ),
    Case("unknown board to run on", "run --board amiga", 1, ("no board is called 'amiga'",)),
    Case("board without name", "build --board ''", 1, ("no board is called ''",)),
    Case("board climbs out", "build --board ..", 1, ("no board is called '..'",)),
    Case("board file is missing", BUILD, 1, ("mine.toml: there is no such file",)),
    Case(
        "board is not TOML",
        BUILD,
        1,
        ("mine.toml: not a TOML file:", "line 1"),
        text("mine.toml", "name: linux\n"),
    ),
    Case(
        "board is binary", BUILD, 1, ("mine.toml: not a TOML file",), text("mine.toml", b"\xff\0")
    ),
    Case(
        "board is empty", BUILD, 1, ("mine.toml: schema_version is missing",), text("mine.toml", "")
    ),
    Case(
        "board is nested beyond measure",
        BUILD,
        1,
        ("mine.toml: not a TOML file",),
        text("mine.toml", "a = " + "[" * 100_000),
    ),
    Case(
        "board file is too large",
        BUILD,
        1,
        ("mine.toml: the file has more than 262144 bytes",),
        text("mine.toml", "#" * 300_000),
    ),
    Case(
        "board of another schema",
        BUILD,
        1,
        ("mine.toml: schema_version:", "not 2"),
        board_file("schema_version = 1", "schema_version = 2"),
    ),
    Case(
        "board lacks RAM",
        BUILD,
        1,
        ("mine.toml: memory.ram_bytes is missing",),
        board_file(RAM, ""),
    ),
    Case(
        "board's RAM is text",
        BUILD,
        1,
        ("mine.toml: memory.ram_bytes.value:", "not '256 KB'"),
        board_file(
            'value = 1_073_741_824, source = "chosen: the arena',
            'value = "256 KB", source = "chosen: the arena',
        ),
    ),
    Case(
        "board's RAM is negative",
        BUILD,
        1,
        ("mine.toml: memory.ram_bytes.value:", "a number above 0 was expected", "not -4"),
        board_file(
            'value = 1_073_741_824, source = "chosen: the arena',
            'value = -4, source = "chosen: the arena',
        ),
    ),
    Case(
        "board's RAM is all stack",
        BUILD,
        1,
        ("mine.toml: memory: reserved_ram_bytes and stack_bytes together",),
        board_file("value = 65_536", "value = 1_073_741_824"),
    ),
    Case(
        "board's power is NaN",
        BUILD,
        1,
        ("mine.toml: power.active_w.value:", "not nan"),
        board_file("value = 3.0", "value = nan"),
    ),
    Case(
        "figure without source",
        BUILD,
        1,
        ("mine.toml: power.active_w must be a table",),
        board_file(
            'active_w = { value = 3.0, source = "stand-in: POET, RPi: 600 mA at 5 V above idle" }',
            "active_w = 3.0",
        ),
    ),
    Case(
        "key that no board has",
        BUILD,
        1,
        ("mine.toml: cpu.cores is not a key of a board file",),
        board_file("[cpu]", "[cpu]\ncores = 4"),
    ),
    Case(
        "board's name is a path",
        BUILD,
        1,
        ("mine.toml: name:", "not '../../etc'"),
        board_file('name = "linux"', 'name = "../../etc"'),
    ),
    Case(
        "board's name holds a newline",
        BUILD,
        1,
        ("mine.toml: name:", r"not 'a\nb'"),
        board_file('name = "linux"', 'name = "a\\nb"'),
    ),
    Case(
        "board's description holds control characters",
        BUILD,
        1,
        ("mine.toml: description:",),
        board_file('description = "this', 'description = "\\u001b[2Jthis'),
    ),
    Case(
        "unknown PlatformIO environment",
        BUILD,
        1,
        ("mine.toml: firmware.platformio_env: must be an environment", "linux", "not 'toaster'"),
        board_file('platformio_env = "linux"', 'platformio_env = "toaster"'),
    ),
    Case(
        "unknown HAL family",
        BUILD,
        1,
        ("mine.toml: firmware.hal: must be a HAL family", "posix", "not 'toaster'"),
        board_file('hal = "posix"', 'hal = "toaster"'),
    ),
    Case(
        "twin of an unknown environment",
        BUILD,
        1,
        ("mine.toml: twin.0.platformio_env: must be an environment", "not 'toaster'"),
        board_file('name = "native"', 'name = "native"\nplatformio_env = "toaster"'),
    ),
    Case(
        "twin in an unknown emulator",
        BUILD,
        1,
        ("poetfw knows no emulator 'toaster'", "use one of: ", "native"),
        board_file('emulator = "native"', 'emulator = "toaster"'),
    ),
    Case(
        "twin in an unknown emulator, only to schedule",
        "schedule --board mine.toml --model mlp",
        1,
        ("poetfw knows no emulator 'toaster'", "use one of: ", "native"),
        board_file('emulator = "native"', 'emulator = "toaster"'),
    ),
    Case(
        "twin asks for what its emulator has not",
        BUILD,
        1,
        ("the emulator 'native' has no option 'semihosting'", "use one of: none at all"),
        board_file('emulator = "native"', 'emulator = "native"\noptions = ["semihosting"]'),
    ),
    Case(
        "twin with an argument of its own",
        BUILD,
        1,
        ("mine.toml: twin.0.options.0:", "not '-monitor'"),
        board_file('emulator = "native"', 'emulator = "native"\noptions = ["-monitor"]'),
    ),
    Case(
        "compiler flag that is not allowed",
        BUILD,
        1,
        ("mine.toml: toolchain: flags must be one of -pthread, not '-fplugin=./evil.so'",),
        board_file('flags = ["-pthread"]', 'flags = ["-fplugin=./evil.so"]'),
    ),
    Case(
        "compiler that is not allowed",
        BUILD,
        1,
        ("mine.toml: toolchain: compiler must be one of ", "not './evil'"),
        board_file('compiler = "gcc"', 'compiler = "./evil"'),
    ),
    Case(
        "firmware without toolchain",
        BUILD,
        1,
        ("mine.toml: the file: the tables firmware and toolchain need each other",),
        board_file('[toolchain]\ncompiler = "gcc"\nflags = ["-pthread"]\n', ""),
    ),
)
