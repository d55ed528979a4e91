/* SPDX-License-Identifier: Apache-2.0 */
/* SysTick as a cycle counter (ARMv6-M Architecture Reference Manual, B3.3). It counts down in 24 bits and interrupts
 * at 0, where it reloads: a family's SysTick_Handler calls poet_systick_wrapped. */
#ifndef POET_SYSTICK_H
#define POET_SYSTICK_H

#include "core.h"

#include <stdint.h>

#define SYST_CSR 0xe000e010u
#define SYST_CSR_ENABLE 1u
#define SYST_CSR_TICKINT 2u
#define SYST_CSR_CORE_CLOCK 4u
#define SYST_RVR 0xe000e014u
#define SYST_CVR 0xe000e018u
#define SYST_MAXIMUM 0x00ffffffu
#define ICSR 0xe000ed04u
#define ICSR_SYSTICK_PENDING (1u << 26)

struct poet_systick_clock {
    uint32_t wraps;
};

/* Continues from where it was stopped. */
static inline void poet_systick_resume(void)
{
    poet_write(SYST_CSR, SYST_CSR_ENABLE | SYST_CSR_TICKINT | SYST_CSR_CORE_CLOCK);
}

static inline void poet_systick_start(void)
{
    poet_write(SYST_RVR, SYST_MAXIMUM);
    poet_write(SYST_CVR, 0u);
    poet_systick_resume();
}

static inline void poet_systick_stop(void)
{
    poet_write(SYST_CSR, 0u);
}

static inline void poet_systick_wrapped(struct poet_systick_clock *clock)
{
    clock->wraps++;
}

/* Cycles since the start. A pending wrap is counted; the value is then read again, since the first reading may
 * precede the wrap. */
static inline uint64_t poet_systick_cycles(const struct poet_systick_clock *clock)
{
    const uint32_t primask = poet_interrupts_off();
    uint32_t wraps = clock->wraps;
    uint32_t value = poet_read(SYST_CVR);
    if ((poet_read(ICSR) & ICSR_SYSTICK_PENDING) != 0u) {
        wraps++;
        value = poet_read(SYST_CVR);
    }
    poet_interrupts_restore(primask);
    return ((uint64_t)wraps << 24) + ((0u - value) & SYST_MAXIMUM);
}

#endif
