/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks: 48 MHz from the DFLL, locked to the board's 32 kHz crystal. */
#ifndef POET_CLOCK_H
#define POET_CLOCK_H

#include <stdint.h>

/* Starts the 48 MHz clock. *hz is the resulting frequency of processor and SERCOMs: 8 MHz, from the internal
 * oscillator, if this fails with a status of wait.h. */
int poet_clock_start(uint32_t *hz);

/* Connects a SERCOM to the processor's clock, and enables its bus clock. Returns whether it succeeded. */
int poet_clock_sercom(uint32_t i);

/* Connects the watchdog to 32,768 Hz divided by 1 to POET_WATCHDOG_DIVIDER, from an oscillator independent of the
 * processor's. Returns whether it succeeded. */
#define POET_WATCHDOG_DIVIDER 255u
int poet_clock_watchdog(uint32_t divider);

#endif
