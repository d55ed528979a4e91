/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded waiting for peripherals. */
#ifndef POET_WAIT_H
#define POET_WAIT_H

#include "core.h"

#include <stdint.h>

/* Statuses of this family; storage/sd.h has -16 to -31. */
enum poet_nrf52840_status {
    POET_NRF52840_ERROR_CRYSTAL = -32,   /* the crystal oscillator does not start */
    POET_NRF52840_ERROR_RESET_PIN = -33, /* the setting of the reset pin cannot be written */
    POET_NRF52840_ERROR_RESET = -34,     /* the chip does not reset itself when told to */
};

/* A poll takes 4 cycles or more, so these bounds are 60 ms or more. The crystal starts within 2 ms, 64 characters
 * take 6 ms, and a word of flash 0.05 ms. */
#ifndef POET_POLLS
#define POET_POLLS 1000000u
#endif

/* A tenth of a second, for a host to send something. */
#ifndef POET_LISTEN_TICKS
#define POET_LISTEN_TICKS 6400000u
#endif

/* True if a register becomes nonzero within a number of polls. */
static inline int poet_wait(uint32_t address, uint32_t polls)
{
    while (poet_read(address) == 0u) {
        if (polls-- == 0u) {
            return 0;
        }
    }
    return 1;
}

#endif
