/* SPDX-License-Identifier: Apache-2.0 */
/* Watchdog of the board, if the build asks for one: main.c starts it, and it is fed whenever the application runs. A
 * twin may have none. */
#ifndef POET_WATCHDOG_H
#define POET_WATCHDOG_H

#include "hal.h"
#include "poetfw.h"

#include <stddef.h>

#ifdef POETFW_WATCHDOG_MS
static inline void poet_feed(void)
{
    if (poet_hal_watchdog_feed != NULL) {
        poet_hal_watchdog_feed();
    }
}
#else
static inline void poet_feed(void)
{
}
#endif

#endif
