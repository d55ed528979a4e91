# SPDX-License-Identifier: Apache-2.0
"""Cases of kernels with goals and published figures, and the firmware that counts them."""
