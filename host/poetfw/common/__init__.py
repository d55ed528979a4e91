# SPDX-License-Identifier: Apache-2.0
"""Shared by all packages: errors, limits, files, names of choices."""
