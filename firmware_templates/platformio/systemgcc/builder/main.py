# SPDX-License-Identifier: Apache-2.0
"""SCons script: compiler, flags, outputs and targets of one environment.

The section `toolchain` of platformio.ini says which compiler, and what the processor asks of it.
"""

import os

from platformio.device.list.util import list_serial_ports
from SCons.Script import AlwaysBuild, Builder, Default, DefaultEnvironment

env = DefaultEnvironment()
board = env.BoardConfig()
toolchain = dict(env.GetProjectConfig().items("toolchain"))
prefix = toolchain["prefix"]
bare_metal = toolchain["hosted"] == "no"

env.Replace(
    AR=f"{prefix}gcc-ar",  # which reads objects of -flto
    AS=f"{prefix}gcc",
    CC=f"{prefix}gcc",
    CXX=f"{prefix}g++",
    LINK=f"{prefix}gcc",
    OBJCOPY=f"{prefix}objcopy",
    RANLIB=f"{prefix}gcc-ranlib",
    SIZETOOL=f"{prefix}size",
    ARFLAGS=["rc"],
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
    SIZEPROGREGEXP=r"^(?:\.vectors|\.text|\.rodata|\.data)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
)
env.Append(ASFLAGS=["-x", "assembler-with-cpp"])
platforms = os.path.dirname(env.PioPlatform().get_dir())
env.SConscript(os.path.join(platforms, "machine_flags.py"), exports={"env": env})


def converter(output_format, suffix):
    """A builder that turns the ELF into another format."""
    command = f"$OBJCOPY -O {output_format} $SOURCES $TARGET"
    return Builder(action=env.VerboseAction(command, "Building $TARGET"), suffix=suffix)


env.Append(
    BUILDERS={"ElfToBin": converter("binary", ".bin"), "ElfToHex": converter("ihex", ".hex")}
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
