# SPDX-License-Identifier: Apache-2.0
"""Modules that every package may use: errors, limits, files, names of choices."""
