/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks: 48 MHz from the DFLL, locked to the board's 32 kHz crystal. */
#ifndef POET_CLOCK_H
#define POET_CLOCK_H

#include <stdint.h>

/* Starts the 48 MHz clock; *hz is what the processor and the SERCOMs then run at: 8 MHz, from the chip's own
 * oscillator, where that fails with a status of wait.h. */
int poet_clock_start(uint32_t *hz);

/* Gives a SERCOM the processor's clock, and its registers theirs. Whether that came to its end. */
int poet_clock_sercom(uint32_t i);

/* Gives the watchdog 32,768 Hz, divided by 1 to POET_WATCHDOG_DIVIDER, from an oscillator that is not the processor's.
 * Whether that came to its end. */
#define POET_WATCHDOG_DIVIDER 255u
int poet_clock_watchdog(uint32_t divider);

#endif
