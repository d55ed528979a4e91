/* SPDX-License-Identifier: Apache-2.0 */
/* Work in parts, which an application whose computer has several cores may run at once. */
#ifndef POET_PARTS_H
#define POET_PARTS_H

#include <stdint.h>

/* Calls part(context, index) for every index below poet_parts(), and returns when all have ended. The library's own have
 * one part; an application may define both. Whatever their number, results have the same bits. */
int32_t poet_parts(void);
void poet_run_parts(void (*part)(void *context, int32_t index), void *context);

#endif
