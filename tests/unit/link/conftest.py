# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from link_device import Device, compile_device


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_device(tmp_path_factory.mktemp("device") / "device.so")


@pytest.fixture
def device(firmware: Path) -> Device:
    return Device(firmware)
