/* SPDX-License-Identifier: Apache-2.0 */
/* The twin's timer goes on every 40 instructions: set anew, it does so 40 after a case began. */
#include "mark.h"
#include "registers.h"

#include <stdint.h>

#define TIMER_VALUE REGISTER(0x40000004u)

void poet_mark(int begins)
{
    if (begins) {
        TIMER_VALUE = UINT32_MAX;
    }
}
