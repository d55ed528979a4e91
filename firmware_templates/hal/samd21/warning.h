/* SPDX-License-Identifier: Apache-2.0 */
/* What the board has to know of its watchdog, which counts on in every sleep. */
#ifndef POET_WARNING_H
#define POET_WARNING_H

/* Whether it wants to be fed before any sleep: half of its time has passed. Where that comes later, it ends the sleep
 * that begins next. */
int poet_watchdog_warns(void);

#endif
