# SPDX-License-Identifier: Apache-2.0
"""SCons script: compiler, flags, outputs and targets of one environment.

The section `toolchain` of platformio.ini says which compiler, and what the processor asks of it.
"""

from platformio.device.list.util import list_serial_ports
from SCons.Script import AlwaysBuild, Builder, Default, DefaultEnvironment

env = DefaultEnvironment()
board = env.BoardConfig()
toolchain = dict(env.GetProjectConfig().items("toolchain"))
prefix = toolchain["prefix"]
machine_flags = toolchain["machine_flags"].split()
bare_metal = toolchain["hosted"] == "no"

env.Replace(
    AR=f"{prefix}ar",
    AS=f"{prefix}gcc",
    CC=f"{prefix}gcc",
    CXX=f"{prefix}g++",
    LINK=f"{prefix}gcc",
    OBJCOPY=f"{prefix}objcopy",
    RANLIB=f"{prefix}ranlib",
    SIZETOOL=f"{prefix}size",
    ARFLAGS=["rc"],
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
    SIZEPROGREGEXP=r"^(?:\.vectors|\.text|\.rodata|\.data)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
)
env.Append(
    ASFLAGS=[*machine_flags, "-x", "assembler-with-cpp"],
    CCFLAGS=machine_flags,
    LINKFLAGS=machine_flags,
)
if bare_metal:
    env.Append(CCFLAGS=["-ffreestanding"], LINKFLAGS=["-nostdlib"], LIBS=["gcc"])


def converter(output_format, suffix):
    """A builder that turns the ELF into another format."""
    command = f"$OBJCOPY -O {output_format} $SOURCES $TARGET"
    return Builder(action=env.VerboseAction(command, "Building $TARGET"), suffix=suffix)


env.Append(
    BUILDERS={"ElfToBin": converter("binary", ".bin"), "ElfToHex": converter("ihex", ".hex")}
)

elf = env.BuildProgram()
outputs = [elf]
if bare_metal:
    image = "$BUILD_DIR/${PROGNAME}"
    outputs += [env.ElfToBin(image, elf), env.ElfToHex(image, elf)]
if board.get("upload.protocol", "") == "nrfjprog":
    # Erases the pages that the firmware takes: what else is on the chip stays, UICR included.
    program = "nrfjprog -f nrf52 --program $SOURCE --sectorerase --verify --reset"
    env.AddPlatformTarget(
        "upload", outputs[-1], env.VerboseAction(program, "Uploading $SOURCE"), "Upload"
    )
    erase = "nrfjprog -f nrf52 --recover"
    env.AddPlatformTarget(
        "erase", None, env.VerboseAction(erase, "Erasing the whole chip"), "Erase Flash"
    )

if board.get("upload.protocol", "") == "sam-ba":

    def find_bootloader(target, source, env):
        """An Arduino sketch becomes the bootloader when its port is opened at 1200 baud."""
        env.AutodetectUploadPort()
        before = list_serial_ports()
        env.TouchSerialPort("$UPLOAD_PORT", 1200)
        env.Replace(UPLOAD_PORT=env.WaitForNewSerialPort(before))

    # Without --erase it erases the rows that it writes.
    options = f"--usb-port --offset={board.get('upload.offset_address')} --write --verify --reset"
    program = f'bossac --port="$UPLOAD_PORT" {options} $SOURCE'
    env.AddPlatformTarget(
        "upload",
        outputs[1],
        [
            env.VerboseAction(find_bootloader, "Looking for the bootloader"),
            env.VerboseAction(program, "Uploading $SOURCE"),
        ],
        "Upload",
    )

env.AddPlatformTarget(
    "size", elf, env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE"), "Program Size"
)
AlwaysBuild(env.Alias("buildprog", outputs))
Default(["buildprog"])
