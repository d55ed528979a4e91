# SPDX-License-Identifier: Apache-2.0
"""PlatformIO platform that builds with the compilers on PATH."""

from platformio.public import PlatformBase


class SystemgccPlatform(PlatformBase):
    """Embedded, so that PlatformIO asks for a board."""

    def is_embedded(self):
        """Whether environments must name a board."""
        return True
