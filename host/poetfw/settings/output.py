# SPDX-License-Identifier: Apache-2.0
"""Settings of what a command prints."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.settings.declaration import Settings, setting


@dataclass(frozen=True)
class Printed(Settings, group="Output"):
    """The form of a command's results."""

    as_json: bool = setting(
        "Print one JSON document on stdout.", False, flag="--json", variable=False, first=True
    )


@dataclass(frozen=True)
class Detailed(Printed):
    """The form of results that have details."""

    verbose: bool = setting("Show all rows: phases, costs and checks.", False)
