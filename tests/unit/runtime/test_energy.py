# SPDX-License-Identifier: Apache-2.0
"""What a program under Linux reads of the computer's meters, on a tree that stands for /sys."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c
from poetfw.tools.console import parse_line

CONSOLE = """
#include "hal.h"
#include <string.h>
char said[256];
void poet_hal_console_write(const char *text, uint32_t bytes) { strncat(said, text, bytes); }
"""
RANGE = 262_143_328_850
Report = Callable[[], tuple[int, str] | None]

SOURCES = ("hal/posix/energy.c", "runtime/console.c", "storage/crc32.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("energy")
    (folder / "said.c").write_text(CONSOLE)
    return compile_c(
        folder / "energy.so",
        [folder / "said.c", *(TEMPLATES / name for name in SOURCES)],
        [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("runtime", "storage", "hal"))],
        *("-shared", "-fPIC", "-pthread"),
    )


@pytest.fixture
def start(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Report]:
    """Begins to measure, and returns what ends it: microjoules and source."""

    def begin() -> Report:
        monkeypatch.setenv("POETFW_SYSFS", str(tmp_path))
        loaded = ctypes.CDLL(str(shutil.copy(library, tmp_path)))
        loaded.poet_energy_start()

        def end() -> tuple[int, str] | None:
            said = (ctypes.c_char * 256).in_dll(loaded, "said")
            said.value = b""
            loaded.poet_energy_report()
            line = said.value
            if not line:
                return None
            event = parse_line(line)
            assert event is not None
            assert event.word == "energy"
            return event.integer("microjoules"), event.values["source"]

        return end

    return begin


def write(folder: Path, **values: str | int) -> Path:
    """A folder of sysfs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        # The program keeps files open, and reads whenever it likes: never an empty one.
        text = f"{value}\n".encode()
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT)
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))
        os.close(file)
    return folder


def zone(root: Path, number: str, name: str, energy_uj: int) -> Path:
    folder = root / f"class/powercap/intel-rapl:{number}"
    return write(folder, name=name, energy_uj=energy_uj, max_energy_range_uj=RANGE)


def monitor(root: Path, number: int, labels: list[str], **values: str | int) -> Path:
    named = {f"in{channel}_label": label for channel, label in enumerate(labels, 1)}
    return write(root / f"class/hwmon/hwmon{number}", name="ina3221", **named, **values)


def test_packages_and_their_dram_are_added_up(start: Callable[[], Report], tmp_path: Path) -> None:
    """Cores are part of their package, and psys holds all."""
    zones = [
        zone(tmp_path, "0", "package-0", 1000),
        zone(tmp_path, "0:0", "core", 0),
        zone(tmp_path, "0:1", "dram", 500),
        zone(tmp_path, "1", "package-1", 0),
        zone(tmp_path, "2", "psys", 0),
    ]
    end = start()
    for folder, energy_uj in zip(zones, (1007, 10**6, 530, 200, 10**6), strict=True):
        write(folder, energy_uj=energy_uj)
    assert end() == (7 + 30 + 200, "rapl")


def test_a_counter_begins_again(start: Callable[[], Report], tmp_path: Path) -> None:
    folder = zone(tmp_path, "0", "package-0", RANGE - 10)
    end = start()
    write(folder, energy_uj=25)
    assert end() == (35, "rapl")
    assert end() == (35, "rapl")  # nothing is counted twice


@pytest.mark.parametrize("milliwatts", [800, 12_345])
def test_power_is_integrated(start: Callable[[], Report], tmp_path: Path, milliwatts: int) -> None:
    monitor(tmp_path, 0, ["VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI"], in1_input=1, curr1_input=1)
    labels = ["VDD_SYS_CPU", "VDD_IN", "VDD_SYS_DDR"]
    monitor(tmp_path, 1, labels, in2_input=5000, curr2_input=milliwatts // 5)
    began = time.monotonic()
    end = start()
    inside = time.monotonic()
    time.sleep(0.25)  # longer than a period
    least = time.monotonic() - inside
    measured = end()
    most = time.monotonic() - began
    assert measured is not None
    assert measured[1] == "ina3221"
    power_w = milliwatts // 5 * 5e-3
    assert power_w * least - 1e-6 <= measured[0] * 1e-6 <= power_w * most


def test_a_processor_is_asked_before_a_monitor(start: Callable[[], Report], tmp_path: Path) -> None:
    zone(tmp_path, "0", "package-0", 0)
    monitor(tmp_path, 0, ["VDD_IN"], in1_input=5000, curr1_input=1000)
    assert start()() == (0, "rapl")


def nothing(root: Path) -> None:
    pass


def another_sensor(root: Path) -> None:
    write(monitor(root, 0, ["VDD_IN"], in1_input=5000, curr1_input=1000), name="coretemp")


def another_rail(root: Path) -> None:
    monitor(root, 0, ["VDD_SYS_GPU"], in1_input=5000, curr1_input=1000)


def no_current(root: Path) -> None:
    monitor(root, 0, ["VDD_IN"], in1_input=5000)


def unreadable_zone(root: Path) -> None:
    """As where only root may read one: the rest would be taken for the whole."""
    zone(root, "0", "package-0", 0)
    (zone(root, "1", "package-1", 0) / "energy_uj").unlink()


def no_number(root: Path) -> None:
    write(zone(root, "0", "package-0", 0), energy_uj="-5")


@pytest.mark.parametrize(
    "make", [nothing, another_sensor, another_rail, no_current, unreadable_zone, no_number]
)
def test_what_is_not_measured_is_not_claimed(
    start: Callable[[], Report], tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path)
    assert start()() is None


def test_a_meter_that_fails_meanwhile(start: Callable[[], Report], tmp_path: Path) -> None:
    folder = zone(tmp_path, "0", "package-0", 0)
    end = start()
    write(folder, energy_uj="?")
    assert end() is None
