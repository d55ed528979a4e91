/* SPDX-License-Identifier: Apache-2.0 */
/* All that generated code needs, except the kernels' headers. */
#ifndef POET_H
#define POET_H

#include "data.h"
#include "plan.h"
#include "slots.h"
#include "status.h"
#include "storage.h"

#include <stddef.h>
#include <stdint.h>

/* Generated: one training step, the forward pass of one evaluation batch, and that of one sample from
 * POET_X_BYTES of features to POET_OUTPUT_BYTES of output. */
__attribute__((cold)) int poet_train_step(void); /* cold: compiled for size */
__attribute__((cold)) int poet_evaluate_step(void);
__attribute__((cold)) int poet_predict_step(const void *x, void *output);

/* Called by these between two ops. */
void poet_between_ops(void);

/* How poet_train_step goes where it is cut into slices: after `left` ops, 0 for no end, it returns POET_AGAIN, and when it is
 * called again goes on behind the statement `next`, or from its beginning if that is 0. */
#ifdef POET_SLICES
extern struct poet_progress {
    uint32_t next;
    uint32_t left;
} poet_progress;

#define POET_SLICE(statement)                                         \
    do {                                                              \
        poet_between_ops();                                           \
        if (poet_progress.left != 0u && --poet_progress.left == 0u) { \
            poet_progress.next = (statement);                         \
            return POET_AGAIN;                                        \
        }                                                             \
        __attribute__((fallthrough));                                 \
    case (statement):;                                                \
    } while (0)
#endif

/* A step in which other boards take part. Each of these partners has a program of its own, with its part of the step.
 * Where one has something for another, or needs something, that part stops for a message, and a host carries it: see
 * docs/serial-line.md. */
#ifdef POET_MESSAGES
enum poet_partner_status {
    POET_ERROR_PARTNERS = -97, /* a step needs partners on other boards: a host has it done */
};

struct poet_message {
    uint32_t offset; /* of the tensor, in the arena */
    uint32_t bytes;
    uint32_t arrives; /* whether it comes from a partner; else it goes to one */
};

/* Generated, by number, the first of which is 1: those of a step, and behind them those that follow the last step. */
extern const struct poet_message poet_messages[POET_MESSAGES + 1u];

/* The message that the step stops for; 0 between two steps. poet_train_step returns POET_AGAIN there, and when it is
 * called again goes on behind it. */
extern uint32_t poet_stopped_for;

#define POET_STOP_FOR(message)        \
    do {                              \
        poet_stopped_for = (message); \
        return POET_AGAIN;            \
    case (message):;                  \
    } while (0)
#endif

/* Generated: puts the initial weights into the arena, if the program holds any. */
int poet_initial_weights(void);

#endif
