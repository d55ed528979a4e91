# SPDX-License-Identifier: Apache-2.0
"""Settings of an export."""

from __future__ import annotations

from dataclasses import dataclass

import click

from poetfw.common.option_values import EXPORTED_NAME, EXPORTED_WEIGHTS, EXPORTS
from poetfw.settings.declaration import Settings, setting


@dataclass(frozen=True)
class ExportSettings(Settings):
    """Settings of a library for another build system."""

    form: str = setting("For what.", flag="--as", type=click.Choice(EXPORTS), required=True)
    name: str = setting(
        "What the library, its header and all its symbols are called.", EXPORTED_NAME
    )
    weights: str = setting(
        "Which weights the library holds; trained ones are those of the last `poetfw run`.",
        EXPORTED_WEIGHTS[0],
        type=click.Choice(EXPORTED_WEIGHTS),
    )
