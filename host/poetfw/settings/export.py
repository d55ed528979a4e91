# SPDX-License-Identifier: Apache-2.0
"""Settings of exports."""

from __future__ import annotations

from dataclasses import dataclass

import click

from poetfw.common.option_values import EXPORTED_NAME, EXPORTED_WEIGHTS, EXPORTS
from poetfw.settings.declaration import Settings, setting


@dataclass(frozen=True)
class ExportSettings(Settings):
    """Settings of a library for another build system."""

    form: str = setting(
        "Build system of the library.", flag="--as", type=click.Choice(EXPORTS), required=True
    )
    name: str = setting(
        "Name of the library, its header and the prefix of its symbols.", EXPORTED_NAME
    )
    weights: str = setting(
        "Weights in the library; trained ones come from the last `poetfw run`.",
        EXPORTED_WEIGHTS[0],
        type=click.Choice(EXPORTED_WEIGHTS),
    )
