/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded waiting for peripherals. */
#ifndef POET_WAIT_H
#define POET_WAIT_H

#include "core.h"

#include <stdint.h>

/* Statuses of this family; storage/sd.h has -16 to -31, hal/nrf52840 -32 to -47. */
enum poet_samd21_status {
    POET_SAMD21_ERROR_CRYSTAL = -48,   /* the 32 kHz crystal does not start */
    POET_SAMD21_ERROR_GENERATOR = -49, /* a clock generator does not take its setting */
    POET_SAMD21_ERROR_DFLL = -50,      /* the 48 MHz clock does not become ready */
    POET_SAMD21_ERROR_LOCK = -51,      /* the 48 MHz clock does not lock to the crystal */
};

/* A poll takes 4 cycles or more: these bounds are 80 ms or more at 48 MHz, and 0.5 s at the initial 8 MHz. Clocks and
 * registers take less than 10 ms, a console character 0.1 ms. The crystal is ready after 2 s, and gets 5 s. */
#ifndef POET_POLLS
#define POET_POLLS 1000000u
#define POET_POLLS_OF_CRYSTAL 10000000u
#endif

/* A tenth of a second, for a host to send something. */
#ifndef POET_LISTEN_TICKS
#define POET_LISTEN_TICKS 4800000u
#endif

/* True if bits of a register, or of its lowest byte, become `wanted` within a number of polls. */
static inline int poet_wait(uint32_t address, uint32_t mask, uint32_t wanted, uint32_t polls)
{
    while ((poet_read8(address) & mask) != wanted) {
        if (polls-- == 0u) {
            return 0;
        }
    }
    return 1;
}

#endif
