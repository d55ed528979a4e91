# SPDX-License-Identifier: Apache-2.0
"""Settings of a command's output."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.settings.declaration import Settings, setting


@dataclass(frozen=True)
class Printed(Settings, group="Output"):
    """Format of a command's results."""

    as_json: bool = setting(
        "Print one JSON document on stdout.", False, flag="--json", variable=False, first=True
    )


@dataclass(frozen=True)
class Detailed(Printed):
    """Format and detail of a command's results."""

    verbose: bool = setting("Show all rows: phases, costs and checks.", False)
