# SPDX-License-Identifier: Apache-2.0
"""PlatformIO pre-script: the processor's flags, which stock platforms do not all pass."""

Import("env")  # noqa: F821 (SCons puts it there)

FLAGS = env.GetProjectConfig().get("toolchain", "machine_flags").split()  # noqa: F821
env.Append(ASFLAGS=FLAGS, CCFLAGS=[*FLAGS, "-ffreestanding"], LINKFLAGS=[*FLAGS, "-nostdlib"])  # noqa: F821
