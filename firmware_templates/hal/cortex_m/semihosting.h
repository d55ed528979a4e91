/* SPDX-License-Identifier: Apache-2.0 */
/* Arm semihosting: services of the emulator (Arm, "Semihosting for AArch32 and AArch64", 2.0). */
#ifndef POET_SEMIHOSTING_H
#define POET_SEMIHOSTING_H

#include <stdint.h>

#define POET_ADP_STOPPED_APPLICATION_EXIT 0x20026u

enum poet_semihosting {
    POET_SYS_OPEN = 0x01,
    POET_SYS_WRITE = 0x05,
    POET_SYS_READ = 0x06,
    POET_SYS_SEEK = 0x0a,
    POET_SYS_FLEN = 0x0c,
    POET_SYS_GET_CMDLINE = 0x15,
    POET_SYS_EXIT_EXTENDED = 0x20,
};

/* Requests a service whose arguments are the words at `arguments`. */
static inline int32_t poet_semihosting(enum poet_semihosting service, const uint32_t *arguments)
{
    register uint32_t r0 __asm__("r0") = (uint32_t)service;
    register const uint32_t *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int32_t)r0;
}

/* True if the emulator passed "listen" to the firmware, as the last of several arguments. */
static inline int poet_semihosting_listens(void)
{
    static const char last[] = " listen";
    char line[48]; /* a longer line is the firmware's path alone */
    uint32_t arguments[2] = {(uint32_t)line, sizeof line};
    const uint32_t bytes = sizeof last - 1u;
    if (poet_semihosting(POET_SYS_GET_CMDLINE, arguments) != 0 || arguments[1] < bytes ||
        arguments[1] >= sizeof line) {
        return 0;
    }
    for (uint32_t i = 0u; i < bytes; i++) {
        if (line[arguments[1] - bytes + i] != last[i]) {
            return 0;
        }
    }
    return 1;
}

/* Ends the emulation with an exit code. */
static inline _Noreturn void poet_semihosting_exit(int code)
{
    const uint32_t arguments[2] = {POET_ADP_STOPPED_APPLICATION_EXIT, (uint32_t)code};
    for (;;) {
        (void)poet_semihosting(POET_SYS_EXIT_EXTENDED, arguments);
    }
}

#endif
