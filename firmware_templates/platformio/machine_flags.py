# SPDX-License-Identifier: Apache-2.0
"""PlatformIO pre-script: what the board's processor asks of compiler and linker.

Stock platforms do not all pass the processor's flags. A program of a bare-metal board has no C++
runtime: it does not unwind, and as it never ends, its static objects are never destroyed.
"""

Import("env")  # noqa: F821 (SCons puts it there)

TOOLCHAIN = dict(env.GetProjectConfig().items("toolchain"))  # noqa: F821
FLAGS = TOOLCHAIN["machine_flags"].split()
BARE_METAL = TOOLCHAIN["hosted"] == "no"
CXX_FLAGS = [
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-use-cxa-atexit",
]

LINK_FLAGS = TOOLCHAIN["link_flags"].split()
LIBS = TOOLCHAIN["libs"].split()

env.Append(ASFLAGS=FLAGS, CCFLAGS=FLAGS, LINKFLAGS=[*FLAGS, *LINK_FLAGS], LIBS=LIBS)  # noqa: F821
if BARE_METAL:
    env.Append(CCFLAGS=["-ffreestanding"], CXXFLAGS=CXX_FLAGS)  # noqa: F821
