/* SPDX-License-Identifier: Apache-2.0 */
/* What all updates of a training step share: the learning rate by a schedule, and what the moments of the
 * optimizer are multiplied with, because they began at 0.
 *
 *   state   [2 + moments]   updates done, micro-batches since the last one, and the part of each moment's
 *                           weights that is not the zero it began as
 *   pace    [2 + moments]   learning rate, 1 if this micro-batch completes a batch or else 0, and if it does
 *                           1 over these parts
 */
#ifndef POET_PACE_H
#define POET_PACE_H

#include <stdint.h>

enum poet_schedule {
    POET_SCHEDULE_CONSTANT,
    POET_SCHEDULE_STEP,   /* times `factor` every `period` steps */
    POET_SCHEDULE_LINEAR, /* along a line to 0 in `period` steps */
    POET_SCHEDULE_COSINE  /* along half a cosine to 0 in `period` steps */
};

struct poet_pace {
    float learning_rate; /* the largest */
    int32_t warm_up;     /* steps in which the rate rises to it; the schedule begins after them */
    int32_t schedule;
    int32_t period;   /* 1 or more */
    float factor;     /* in [0, 1] */
    int32_t micro_batches; /* in a batch */
    int32_t moments;       /* at most 2 */
    float beta1;
    float share1; /* 1 - beta1, rounded once */
    float beta2;
    float share2;
};

/* Updates are counted in a float: beyond 2^24, the schedule's last rate stays. */
void poet_pace_f32(const struct poet_pace *op, float *pace, float *state);

#endif
