# SPDX-License-Identifier: Apache-2.0
"""Environments of platformio.ini that build for boards."""

from __future__ import annotations

import configparser
from functools import cache

from poetfw.common.resources import platformio_ini

SYSTEM_SUFFIX = "-system"
"""Ends the name of the environment that builds for a board without its stock platform."""


def known_environments() -> frozenset[str]:
    """Names of all environments in platformio.ini."""
    return frozenset(
        section.removeprefix("env:")
        for section in read_environments().sections()
        if section.startswith("env:")
    )


@cache
def read_environments() -> configparser.RawConfigParser:
    """Read the platformio.ini that holds all environments."""
    parser = configparser.RawConfigParser()
    parser.read_string(platformio_ini().read_text(encoding="utf-8"))
    return parser
