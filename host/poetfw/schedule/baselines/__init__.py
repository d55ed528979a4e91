# SPDX-License-Identifier: Apache-2.0
"""Published schedulers: baselines of poetfw's own scheduler, and its starting points."""
