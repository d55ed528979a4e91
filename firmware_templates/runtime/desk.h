/* SPDX-License-Identifier: Apache-2.0 */
/* A board on the desk: what a host has it do over the serial line, as docs/serial-line.md says. */
#ifndef POET_DESK_H
#define POET_DESK_H

#include <stdint.h>

/* Waits for commands for so many ticks, and as poet_hal_listen_ticks says where any character has come; then
 * returns. From the first whole frame on the host is in charge, and this does not return any more. */
void poet_listen(uint64_t ticks);

#endif
