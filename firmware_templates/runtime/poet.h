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
int poet_train_step(void);
int poet_evaluate_step(void);
int poet_predict_step(const void *x, void *output);

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

/* Generated: puts the initial weights into the arena, if the program holds any. */
int poet_initial_weights(void);

#endif
