# SPDX-License-Identifier: Apache-2.0
"""poetfw: train neural networks on microcontrollers that cannot hold the training."""

__version__ = "0.1.0"
