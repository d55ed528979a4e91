/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded waiting for peripherals. */
#ifndef POET_WAIT_H
#define POET_WAIT_H

#include "core.h"

#include <stdint.h>

/* Statuses of this family; storage/sd.h has -16 to -31, hal/nrf52840 -32 to -47, hal/samd21 -48 to -63. */
enum poet_stm32f405_status {
    POET_STM32F405_ERROR_OSCILLATOR = -64, /* the chip's own oscillator does not take over from the bootloader */
    POET_STM32F405_ERROR_CRYSTAL = -65,    /* the high-speed crystal does not start */
    POET_STM32F405_ERROR_FLASH = -66,      /* flash does not take its wait states */
    POET_STM32F405_ERROR_PLL = -67,        /* the 168 MHz clock does not lock to the crystal */
    POET_STM32F405_ERROR_SWITCH = -68,     /* the core does not take the 168 MHz clock */
};

/* A poll takes 4 cycles or more: these bounds are 24 ms or more at 168 MHz, and 250 ms at the initial 16 MHz. The
 * crystal takes 2 ms, the PLL 0.3 ms, a console character 0.1 ms. An SPI byte takes at most 2 * 256 * 8 cycles, at
 * the slowest clock. */
#ifndef POET_POLLS
#define POET_POLLS 1000000u
#define POET_POLLS_PER_BYTE 4096u
#endif

/* A tenth of a second, for a host to send something. */
#ifndef POET_LISTEN_TICKS
#define POET_LISTEN_TICKS 16800000u
#endif

/* True if bits of a register become `wanted` within a number of polls. */
static inline int poet_wait(uint32_t address, uint32_t mask, uint32_t wanted, uint32_t polls)
{
    while ((poet_read(address) & mask) != wanted) {
        if (polls-- == 0u) {
            return 0;
        }
    }
    return 1;
}

#endif
