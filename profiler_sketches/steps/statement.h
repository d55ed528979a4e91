/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for runtime/statement.h in the copy of a project that times its training step: what is timed, and its slot
 * if it begins a transfer or waits for one. */
#ifndef POET_STATEMENT_H
#define POET_STATEMENT_H

#include <stdint.h>

struct poet_timed {
    uint32_t statement; /* 0 for a wait, which is of the statement that began the transfer */
    uint32_t slot;      /* UINT32_MAX for none */
};
extern struct poet_timed poet_timed;

/* Waits for a transfer, as poet_page_wait, and has it timed as a slice of its own. */
int poet_timed_wait(uint32_t slot);

#define POET_ARE_KEPT(load) 0
#define POET_STATEMENT(number) ((void)(poet_timed = (struct poet_timed){(number), UINT32_MAX}))
#define poet_page_in_begin(number, target, bytes) \
    (poet_timed.slot = (number), poet_page_in_begin(number, target, bytes))
#define poet_page_out_begin(number, source, bytes) \
    (poet_timed.slot = (number), poet_page_out_begin(number, source, bytes))
#define poet_page_wait(number) poet_timed_wait(number)

#endif
