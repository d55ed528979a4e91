# SPDX-License-Identifier: Apache-2.0
"""SCons script: compiler, flags, outputs and targets of one environment.

The section `toolchain` of platformio.ini says which compiler, and what the processor asks of it.
"""

import os
import sys

from platformio.device.list.util import list_serial_ports
from SCons.Script import AlwaysBuild, Builder, Default, DefaultEnvironment

FOR_SIZE = '#include "for_size.h"'

env = DefaultEnvironment()
board = env.BoardConfig()
platform_folder = env.PioPlatform().get_dir()
sys.path.insert(0, platform_folder)
from programs import command_line  # noqa: E402 (it travels with the platform)

toolchain = dict(env.GetProjectConfig().items("toolchain"))
bare_metal = toolchain["hosted"] == "no"

env.Replace(
    AR=command_line(toolchain["ar"]),
    AS=command_line(toolchain["cc"]),
    CC=command_line(toolchain["cc"]),
    CXX=command_line(toolchain["cxx"]),
    LINK=command_line(toolchain["cc"]),
    OBJCOPY=command_line(toolchain["objcopy"]),
    RANLIB=command_line(toolchain["ranlib"]),
    SIZETOOL=os.path.join(platform_folder, "elf_size.py"),
    ARFLAGS=["rc"],
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
    SIZEPROGREGEXP=r"^(?:\.vectors|\.text|\.rodata|\.data)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
    SIZECHECKCMD="$PYTHONEXE $SIZETOOL $SOURCES",  # whose words PlatformIO splits itself
    SIZEPRINTCMD='"$PYTHONEXE" "$SIZETOOL" $SOURCES',
)
if os.name == "posix":
    env.Replace(SHELL="/bin/sh")  # which need not be on PATH
env.Append(ASFLAGS=["-x", "assembler-with-cpp"])
env.SConscript(
    os.path.join(os.path.dirname(platform_folder), "machine_flags.py"), exports={"env": env}
)


def for_size(env, node):
    """Compile what includes for_size.h for size, where its pragma is not the compiler's."""
    flags = toolchain["size_flags"].split()
    if flags and FOR_SIZE in node.get_text_contents():
        return env.Object(node, CCFLAGS=[*env["CCFLAGS"], *flags])
    return node


env.AddBuildMiddleware(for_size, "*.c")


def converter(output_format, suffix):
    """A builder that turns the ELF into another format."""
    command = f"$OBJCOPY -O {output_format} $SOURCES $TARGET"
    return Builder(action=env.VerboseAction(command, "Building $TARGET"), suffix=suffix)


env.Append(
    BUILDERS={
        "ElfToBin": converter("binary", ".bin"),
        "ElfToHex": converter(toolchain["hex"], ".hex"),
    }
)

elf = env.BuildProgram()
outputs = {"elf": elf}
if bare_metal:
    image = "$BUILD_DIR/${PROGNAME}"
    outputs |= {"bin": env.ElfToBin(image, elf), "hex": env.ElfToHex(image, elf)}

OFFSET = board.get("upload.offset_address", "0")
# Each erases what the firmware takes: what else is on the chip stays.
UPLOADS = {
    "nrfjprog": ("hex", "nrfjprog -f nrf52 --program $SOURCE --sectorerase --verify --reset"),
    "sam-ba": (
        "bin",
        f'bossac --port="$UPLOAD_PORT" --usb-port --offset={OFFSET} '
        "--write --verify --reset $SOURCE",
    ),
    "stlink": (
        "elf",
        "openocd -f interface/stlink.cfg -f target/stm32f4x.cfg "
        '-c "program {$SOURCE} verify reset exit"',
    ),
    "dfu": (
        "bin",
        "dfu-util --device 0483:df11 --alt 0 --dfuse-address 0x08000000:leave --download $SOURCE",
    ),
}


def find_bootloader(target, source, env):
    """An Arduino sketch becomes the bootloader when its port is opened at 1200 baud."""
    env.AutodetectUploadPort()
    before = list_serial_ports()
    env.TouchSerialPort("$UPLOAD_PORT", 1200)
    env.Replace(UPLOAD_PORT=env.WaitForNewSerialPort(before))


protocol = env.subst("$UPLOAD_PROTOCOL")
if protocol in UPLOADS:
    form, command = UPLOADS[protocol]
    steps = [env.VerboseAction(command, "Uploading $SOURCE")]
    if protocol == "sam-ba":
        steps.insert(0, env.VerboseAction(find_bootloader, "Looking for the bootloader"))
    env.AddPlatformTarget("upload", outputs[form], steps, "Upload")
if protocol == "nrfjprog":
    erase = "nrfjprog -f nrf52 --recover"
    env.AddPlatformTarget(
        "erase", None, env.VerboseAction(erase, "Erasing the whole chip"), "Erase Flash"
    )
env.AddPlatformTarget(
    "size", elf, env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE"), "Program Size"
)
AlwaysBuild(env.Alias("buildprog", list(outputs.values())))
Default(["buildprog"])
