# SPDX-License-Identifier: Apache-2.0
"""Version of the package, in a module that imports nothing."""

__version__ = "0.1.0"
