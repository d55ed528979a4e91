/* SPDX-License-Identifier: Apache-2.0 */
/* WDT (SAM D21 data sheet, DS40001882, chapter 18). It counts a power of two of cycles; its clock divider allows any
 * time, from an oscillator that never stops. */
#include "for_size.h"

#include "clock.h"
#include "core.h"
#include "doze.h"
#include "hal.h"
#include "wait.h"
#include "warning.h"

#define WDT_CTRL 0x40001000u
#define WDT_CTRL_ENABLE (1u << 1)
#define WDT_CTRL_ALWAYSON (1u << 7)
#define WDT_CONFIG 0x40001001u
#define WDT_EWCTRL 0x40001002u
#define WDT_INTENSET 0x40001005u
#define WDT_INTFLAG 0x40001006u
#define WDT_EW (1u << 0) /* the early warning */
#define WDT_STATUS 0x40001007u
#define WDT_STATUS_SYNCBUSY (1u << 7)
#define WDT_CLEAR 0x40001008u
#define WDT_CLEAR_KEY 0xa5u
#define WDT_INTERRUPT 2u

/* Cycles that `i` stands for in CONFIG and EWCTRL. From 128 cycles on, the 6 cycles of feeding (section 14.3.1.4) are
 * negligible. */
#define CYCLES(i) (8u << (i))
#define CYCLES_OF_FEEDING 6u
#define SHORTEST 4u

static int runs(void)
{
    return (poet_read8(WDT_CTRL) & (WDT_CTRL_ENABLE | WDT_CTRL_ALWAYSON)) != 0u;
}

/* Divides 32,768 Hz such that the effective timeout is not shorter than requested. */
static void start(uint32_t ms)
{
    const uint32_t ticks = (ms * 4096u + 124u) / 125u;
    uint32_t period = SHORTEST;
    while ((CYCLES(period) - CYCLES_OF_FEEDING) * POET_WATCHDOG_DIVIDER < ticks) {
        period++;
    }
    const uint32_t counted = CYCLES(period) - CYCLES_OF_FEEDING;
    if (poet_clock_watchdog((ticks + counted - 1u) / counted)) {
        poet_write8(WDT_CONFIG, (uint8_t)period);
        poet_write8(WDT_EWCTRL, (uint8_t)(period - 1u));
        poet_write8(WDT_INTENSET, WDT_EW);
        if (poet_wait(WDT_STATUS, WDT_STATUS_SYNCBUSY, 0u, POET_POLLS)) {
            poet_write8(WDT_CTRL, WDT_CTRL_ENABLE);
        }
    }
}

void poet_hal_watchdog_start(uint32_t ms)
{
    if (!runs()) {
        start(ms);
    }
    poet_hal_watchdog_feed();
}

/* While the last feeding synchronises, another would stall the bus, without effect. */
void poet_hal_watchdog_feed(void)
{
    if (runs() && (poet_read8(WDT_STATUS) & WDT_STATUS_SYNCBUSY) == 0u) {
        poet_write8(WDT_INTFLAG, WDT_EW);
        poet_write8(WDT_CLEAR, WDT_CLEAR_KEY);
    }
}

int poet_watchdog_warns(void)
{
    poet_doze_clear(WDT_INTERRUPT);
    return (poet_read8(WDT_INTFLAG) & WDT_EW) != 0u;
}
