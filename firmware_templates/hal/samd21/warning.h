/* SPDX-License-Identifier: Apache-2.0 */
/* Early warning of the watchdog, which keeps counting during sleep. */
#ifndef POET_WARNING_H
#define POET_WARNING_H

/* True if the watchdog must be fed before sleeping, as half of its time has passed. If that happens later, it ends
 * the next sleep. */
int poet_watchdog_warns(void);

#endif
