/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "stack.h"

#include "hal.h"

struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack stack = {poet_stack_lower, poet_stack_upper};
    return stack;
}
