/* SPDX-License-Identifier: Apache-2.0 */
/* Cause of a reset, from the bits of the chip's reset register. */
#ifndef POET_RESET_CAUSE_H
#define POET_RESET_CAUSE_H

#include <stdint.h>

struct poet_reset_cause {
    uint8_t bit;
    char name[12];
};

/* First of these causes whose bit is set. */
static inline const char *poet_name_reset(uint32_t bits, const struct poet_reset_cause *causes, uint32_t count)
{
    for (uint32_t i = 0u; i < count; i++) {
        if ((bits >> causes[i].bit & 1u) != 0u) {
            return causes[i].name;
        }
    }
    return "power-on";
}

#endif
