/* SPDX-License-Identifier: Apache-2.0 */
/* A training step in which several devices take part: a worker, a thread of its own, for each of them and for each
 * link between two. All go through the same list of statements; each takes those that are its own, in their order,
 * and waits before one until those that it needs have ended. */
#ifndef POET_WORKERS_H
#define POET_WORKERS_H

#include "plan.h"
#include "status.h"

#include <stdint.h>

enum poet_worker_status {
    POET_ERROR_WORKER = -96, /* a worker cannot be started, or hangs */
};

/* How long nothing at all may end while a worker waits, in seconds: longer than the longest op. */
#ifndef POET_WORKER_S
#define POET_WORKER_S 600
#endif

/* Has each worker go through the list, and returns when all have: POET_OK, or how the first to fail did. After
 * POET_ERROR_WORKER one hangs, in memory that nobody may use any more: the program is to end. With one worker all that
 * follows is done by the caller, in the order of the list. */
int poet_run_workers(int (*list)(uint32_t worker));

/* Waits until a worker has ended its statement `number`, or one behind it.
 *
 * POET_ERROR_WORKER: another worker failed, or nothing ended for POET_WORKER_S. */
int poet_wait_for(uint32_t worker, uint32_t number);

/* The worker that calls it has ended its statement `number`. */
void poet_end_statement(uint32_t worker, uint32_t number);

/* Whether the worker that goes through the list takes a statement of worker `number`. */
#define POET_TAKES(number) (POET_WORKERS == 1u || worker == (number))

/* As POET_TRY, for a call that may use the storage, of which there is one. */
#define POET_ALONE(call)                \
    do {                                \
        POET_TRY(poet_take_storage());  \
        const int poet_alone_ = (call); \
        poet_give_storage();            \
        POET_TRY(poet_alone_);          \
    } while (0)
int poet_take_storage(void); /* as poet_wait_for */
void poet_give_storage(void);

/* Copies `bytes` from one device's arena to another's, as much at a time as the link's buffers hold, which have
 * `buffer_bytes` on each side. */
void poet_copy(void *target, const void *source, uint32_t bytes, void *source_buffer, void *target_buffer,
               uint32_t buffer_bytes);

#endif
