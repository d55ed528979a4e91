/* SPDX-License-Identifier: Apache-2.0 */
/* Execution of a host's commands over the serial line: docs/serial-line.md. */
#ifndef POET_DESK_H
#define POET_DESK_H

#include <stdint.h>

/* Waits for commands for a number of ticks, and for poet_hal_listen_ticks after any character; then returns. After
 * the first intact frame the host is in charge, and this does not return. */
void poet_listen(uint64_t ticks);

#endif
