# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, in which tests look at pages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[Any]:
    """A browser session of its own, which keeps nothing."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    arguments += ["--force-device-scale-factor=1", f"--window-size={width},{height}"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's does not work for root
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


def prefer(driver: Any, scheme: str, media: str = "") -> None:
    """Have the system prefer a colour scheme, and show pages as on a medium."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def resize(driver: Any, width: int, height: int) -> None:
    """Set the size of the page's window."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def requests(driver: Any) -> list[str]:
    """Addresses that pages asked for since the last call."""
    messages = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def picture(driver: Any, page: Path, width: int, height: int) -> bytes:
    """A page from its top as a PNG file."""
    resize(driver, width, height)
    driver.get(page.as_uri())
    content: bytes = driver.get_screenshot_as_png()
    return content
