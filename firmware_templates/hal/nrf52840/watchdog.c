/* SPDX-License-Identifier: Apache-2.0 */
/* WDT (nRF52840 Product Specification 1.7, section 6.36): counts down at 32,768 Hz, from an oscillator that it starts
 * itself, and resets the chip (RESETREAS: DOG) after 0. */
#include "for_size.h"

#include "core.h"
#include "hal.h"

#define WDT_TASKS_START 0x40010000u
#define WDT_RUNSTATUS 0x40010400u
#define WDT_CRV 0x40010504u
#define WDT_CONFIG 0x4001050cu
#define WDT_CONFIG_PAUSED 0u /* while the core sleeps, and while a debugger halts it */
#define WDT_RR0 0x40010600u  /* the only reload register that is enabled after a reset */
#define WDT_RR_RELOAD 0x6e524635u
#define WDT_HZ 32768u

/* It keeps running over a software reset, and its period is locked while it runs. */
void poet_hal_watchdog_start(uint32_t ms)
{
    if (poet_read(WDT_RUNSTATUS) == 0u) {
        poet_write(WDT_CRV, (uint32_t)(((uint64_t)ms * WDT_HZ + 999u) / 1000u) - 1u);
        poet_write(WDT_CONFIG, WDT_CONFIG_PAUSED);
        poet_write(WDT_TASKS_START, 1u);
    }
    poet_hal_watchdog_feed();
}

void poet_hal_watchdog_feed(void)
{
    poet_write(WDT_RR0, WDT_RR_RELOAD);
}
