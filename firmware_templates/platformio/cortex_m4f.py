# SPDX-License-Identifier: Apache-2.0
"""PlatformIO pre-script: the flags of a Cortex-M4 with FPU, which stock platforms do not pass."""

Import("env")  # noqa: F821 (SCons puts it there)

FLAGS = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
env.Append(ASFLAGS=FLAGS, CCFLAGS=[*FLAGS, "-ffreestanding"], LINKFLAGS=[*FLAGS, "-nostdlib"])  # noqa: F821
