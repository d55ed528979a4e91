# SPDX-License-Identifier: Apache-2.0
"""The firmware, the plugin and the cases of benchmarks/kernels.py."""
