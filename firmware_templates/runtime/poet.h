/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that generated code needs, except the kernels' headers. */
#ifndef POET_H
#define POET_H

#include "data.h"
#include "plan.h"
#include "slots.h"
#include "status.h"
#include "storage.h"

#include <stddef.h>
#include <stdint.h>

/* Generated: a training step; the forward pass of an evaluation batch; and the forward pass of one sample, from
 * POET_X_BYTES of features to POET_OUTPUT_BYTES of output. */
__attribute__((cold)) int poet_train_step(void); /* cold: compiled for size */
__attribute__((cold)) int poet_evaluate_step(void);
__attribute__((cold)) int poet_predict_step(const void *x, void *output);

/* Called by these functions between two ops. */
void poet_between_ops(void);

/* State of poet_train_step if cut into slices: it returns POET_AGAIN after `left` ops (0: no limit), and the next
 * call continues after statement `next`, or from the beginning if that is 0. */
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

/* A step that other boards take part in. Each partner has a program with its part of the step, which stops at each
 * message to or from another; a host transfers the messages: see docs/serial-line.md. */
#ifdef POET_MESSAGES
enum poet_partner_status {
    POET_ERROR_PARTNERS = -97, /* a step needs partners on other boards: a host has it done */
};

struct poet_message {
    uint32_t offset; /* offset of the tensor in the arena */
    uint32_t bytes;
    uint32_t arrives; /* nonzero if it comes from a partner, zero if it goes to one */
};

/* Generated, by number from 1: messages of a step, followed by those after the last step. */
extern const struct poet_message poet_messages[POET_MESSAGES + 1u];

/* Message at which the step has stopped; 0 between two steps. There, poet_train_step returns POET_AGAIN, and the next
 * call continues. */
extern uint32_t poet_stopped_for;

#define POET_STOP_FOR(message)        \
    do {                              \
        poet_stopped_for = (message); \
        return POET_AGAIN;            \
    case (message):;                  \
    } while (0)
#endif

/* Generated: copies the initial weights into the arena, if the program holds them. */
int poet_initial_weights(void);

#endif
