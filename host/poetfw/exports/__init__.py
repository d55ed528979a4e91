# SPDX-License-Identifier: Apache-2.0
"""Projects as libraries for other build systems."""
