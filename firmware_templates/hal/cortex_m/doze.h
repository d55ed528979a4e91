/* SPDX-License-Identifier: Apache-2.0 */
/* Sleep until a peripheral's interrupt becomes pending, without taking it; it need not be enabled (ARMv6-M
 * Architecture Reference Manual, B3.2.7, SEVONPEND; the same on ARMv7-M). */
#ifndef POET_DOZE_H
#define POET_DOZE_H

#include "core.h"
#include "nvic.h"
#include "systick.h"

#include <stdint.h>

#define SCR 0xe000ed10u
#define SCR_SEVONPEND (1u << 4)
#define NVIC_ICPR(interrupt) (0xe000e280u + (interrupt) / 32u * 4u)

static inline void poet_doze_prepare(void)
{
    poet_write(SCR, SCR_SEVONPEND);
}

/* An interrupt that becomes pending after this call ends the next sleep or prevents it. */
static inline void poet_doze_clear(uint32_t interrupt)
{
    poet_write(NVIC_ICPR(interrupt), 1u << interrupt % 32u);
}

/* Sleeps until an interrupt becomes pending. */
static inline void poet_doze(void)
{
    poet_systick_stop();
    poet_wait_for_event();
    poet_systick_resume();
}

/* Sleeps until a peripheral requests this interrupt, which is enabled meanwhile but not taken. */
static inline void poet_doze_until(uint32_t interrupt)
{
    const uint32_t primask = poet_interrupts_off();
    poet_interrupt_enable(interrupt);
    __asm__ volatile("wfi" ::: "memory");
    poet_interrupt_disable(interrupt);
    poet_doze_clear(interrupt);
    poet_interrupts_restore(primask);
}

#endif
