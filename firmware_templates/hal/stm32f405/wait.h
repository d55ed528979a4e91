/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a peripheral, never for ever. */
#ifndef POET_WAIT_H
#define POET_WAIT_H

#include "core.h"

#include <stdint.h>

/* This family's own statuses; storage/sd.h has -16 to -31, hal/nrf52840 -32 to -47, hal/samd21 -48 to -63. */
enum poet_stm32f405_status {
    POET_STM32F405_ERROR_OSCILLATOR = -64, /* the chip's own oscillator does not take over from the bootloader */
    POET_STM32F405_ERROR_CRYSTAL = -65,    /* the high-speed crystal does not start */
    POET_STM32F405_ERROR_FLASH = -66,      /* flash does not take its wait states */
    POET_STM32F405_ERROR_PLL = -67,        /* the 168 MHz clock does not lock to the crystal */
    POET_STM32F405_ERROR_SWITCH = -68,     /* the core does not take the 168 MHz clock */
};

/* A poll takes 4 cycles or more: these are 24 ms or more at 168 MHz, and 250 ms at the 16 MHz from before. The
 * crystal takes 2 ms, the PLL 0.3, a character on the console 0.1. A byte on SPI takes at most 2 * 256 * 8
 * cycles, at the slowest clock there is. */
#ifndef POET_POLLS
#define POET_POLLS 1000000u
#define POET_POLLS_PER_BYTE 4096u
#endif

/* A tenth of a second for somebody to say something. */
#ifndef POET_LISTEN_TICKS
#define POET_LISTEN_TICKS 16800000u
#endif

/* Whether these bits of a register became `wanted` within so many polls. */
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
