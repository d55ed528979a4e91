# SPDX-License-Identifier: Apache-2.0
"""Boards: unknown ones, and TOML files that are wrong in every way."""

from __future__ import annotations

from invalid.case import Case, cases
from invalid.makers import board_file, text

BUILD = "build --board mine.toml --model mlp --ram 1000000 --generate-only"
RAM = 'ram_bytes = { value = 1_073_741_824, source = "chosen: the arena may have up to 1 GiB" }'

ACTIVE_W = 'active_w = { value = 3.0, source = "stand-in: POET, RPi: 600 mA at 5 V above idle" }'
CASES = (
    *cases(
        BUILD,
        (
            "board is not TOML",
            text("mine.toml", "name: linux\n"),
            "mine.toml: not a TOML file:",
            "line 1",
        ),
        ("board is binary", text("mine.toml", b"\xff\0"), "mine.toml: not a TOML file"),
        ("board is empty", text("mine.toml", ""), "mine.toml: schema_version is missing"),
        (
            "board is nested beyond measure",
            text("mine.toml", "a = " + "[" * 100_000),
            "mine.toml: not a TOML file",
        ),
        (
            "board file is too large",
            text("mine.toml", "#" * 300_000),
            "mine.toml: the file has more than 262144 bytes",
        ),
        (
            "board of another schema",
            board_file("schema_version = 1", "schema_version = 2"),
            "mine.toml: schema_version:",
            "not 2",
        ),
        ("board lacks RAM", board_file(RAM, ""), "mine.toml: memory.ram_bytes is missing"),
        (
            "board's RAM is text",
            board_file(
                'value = 1_073_741_824, source = "chosen: the arena',
                'value = "256 KB", source = "chosen: the arena',
            ),
            "mine.toml: memory.ram_bytes.value:",
            "not '256 KB'",
        ),
        (
            "board's RAM is negative",
            board_file(
                'value = 1_073_741_824, source = "chosen: the arena',
                'value = -4, source = "chosen: the arena',
            ),
            "mine.toml: memory.ram_bytes.value:",
            "a number above 0 was expected",
            "not -4",
        ),
        (
            "board's RAM is all stack",
            board_file("value = 65_536", "value = 1_073_741_824"),
            "mine.toml: memory: reserved_ram_bytes and stack_bytes together",
        ),
        (
            "board's power is NaN",
            board_file("value = 3.0", "value = nan"),
            "mine.toml: power.active_w.value:",
            "not nan",
        ),
        (
            "figure without source",
            board_file(ACTIVE_W, "active_w = 3.0"),
            "mine.toml: power.active_w must be a table",
        ),
        (
            "key that no board has",
            board_file("[cpu]", "[cpu]\ncores = 4"),
            "mine.toml: cpu.cores is not a key of a board file",
        ),
        (
            "board's name is a path",
            board_file('name = "linux"', 'name = "../../etc"'),
            "mine.toml: name:",
            "not '../../etc'",
        ),
        (
            "board's name holds a newline",
            board_file('name = "linux"', 'name = "a\\nb"'),
            "mine.toml: name:",
            r"not 'a\nb'",
        ),
        (
            "board's description holds control characters",
            board_file('description = "this', 'description = "\\u001b[2Jthis'),
            "mine.toml: description:",
        ),
        (
            "unknown PlatformIO environment",
            board_file('platformio_env = "linux"', 'platformio_env = "toaster"'),
            "mine.toml: firmware.platformio_env: must be an environment",
            "linux",
            "not 'toaster'",
        ),
        (
            "unknown HAL family",
            board_file('hal = "posix"', 'hal = "toaster"'),
            "mine.toml: firmware.hal: must be a HAL family",
            "posix",
            "not 'toaster'",
        ),
        (
            "twin of an unknown environment",
            board_file('name = "native"', 'name = "native"\nplatformio_env = "toaster"'),
            "mine.toml: twin.0.platformio_env: must be an environment",
            "not 'toaster'",
        ),
        (
            "twin in an unknown emulator",
            board_file('emulator = "native"', 'emulator = "toaster"'),
            "poetfw knows no emulator 'toaster'",
            "use one of: ",
            "native",
        ),
        (
            "twin asks for what its emulator has not",
            board_file('emulator = "native"', 'emulator = "native"\noptions = ["semihosting"]'),
            "the emulator 'native' has no option 'semihosting'",
            "use one of: none at all",
        ),
        (
            "twin with an argument of its own",
            board_file('emulator = "native"', 'emulator = "native"\noptions = ["-monitor"]'),
            "mine.toml: twin.0.options.0:",
            "not '-monitor'",
        ),
        (
            "compiler flag that is not allowed",
            board_file('flags = ["-pthread"]', 'flags = ["-fplugin=./evil.so"]'),
            "mine.toml: toolchain: flags must be one of -pthread, not '-fplugin=./evil.so'",
        ),
        (
            "compiler that is not allowed",
            board_file('compiler = "gcc"', 'compiler = "./evil"'),
            "mine.toml: toolchain: compiler must be one of ",
            "not './evil'",
        ),
        (
            "firmware without toolchain",
            board_file('[toolchain]\ncompiler = "gcc"\nflags = ["-pthread"]\n', ""),
            "mine.toml: the file: the tables firmware and toolchain need each other",
        ),
    ),
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
        "twin in an unknown emulator, only to schedule",
        "schedule --board mine.toml --model mlp",
        1,
        (
            "poetfw knows no emulator 'toaster'",
            "use one of: ",
            "native",
        ),
        board_file('emulator = "native"', 'emulator = "toaster"'),
    ),
)
