# SPDX-License-Identifier: Apache-2.0
"""Build hook: boards, firmware templates and platformio.ini travel inside the wheel.

An editable install reads them from the checkout instead, so there is one copy to edit.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DATA = ("boards", "firmware_templates", "profiler_sketches", "platformio.ini")


class DataFilesHook(BuildHookInterface):
    """Adds the data folders to a wheel, as `poetfw/data/…`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the build; `version` is "standard" or "editable"."""
        if version == "standard":
            build_data["force_include"].update({name: f"poetfw/data/{name}" for name in DATA})
