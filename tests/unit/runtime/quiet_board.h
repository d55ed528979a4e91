/* SPDX-License-Identifier: Apache-2.0 */
/* What hal.h wants of a board that nobody speaks to, and whose stack is not the firmware's own. */
#ifndef QUIET_BOARD_H
#define QUIET_BOARD_H

#include "hal.h"

#include <stddef.h>

uint32_t poet_hal_console_read(char *text, uint32_t bytes)
{
    (void)text;
    (void)bytes;
    return 0u;
}

uint64_t poet_hal_listen_ticks(void)
{
    return 0u;
}

void poet_hal_idle(void)
{
}

struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack none = {NULL, NULL};
    return none;
}

#endif
