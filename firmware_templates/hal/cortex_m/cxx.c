/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols that C++ classes with virtual functions refer to. An application with a heap defines operators new and
 * delete; without one nothing is deleted, and a call of these is a fault. */
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
