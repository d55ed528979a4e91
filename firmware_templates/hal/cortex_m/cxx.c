/* SPDX-License-Identifier: Apache-2.0 */
/* What classes with virtual functions refer to in C++. An application that wants a heap defines the operators new and
 * delete; without one there is nothing to delete, and to get here is a fault. */
#include "for_size.h"

static void refuse(void)
{
    __builtin_trap();
}

#define REFUSED(name, symbol)  \
    void name(void) __asm__(symbol); \
    __attribute__((weak, alias("refuse"))) void name(void)
REFUSED(poet_delete, "_ZdlPv");
REFUSED(poet_delete_sized, "_ZdlPvj");
REFUSED(poet_pure_virtual, "__cxa_pure_virtual");
