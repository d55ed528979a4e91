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
    POET_SCHEDULE_STEP,   /* multiplied with `factor` every `period` steps */
    POET_SCHEDULE_LINEAR, /* linear to 0 in `period` steps */
    POET_SCHEDULE_COSINE  /* half a cosine period to 0 in `period` steps */
};

struct poet_pace {
    float learning_rate; /* the largest rate */
    int32_t warm_up;     /* steps of the linear rise to it, before the schedule begins */
    int32_t schedule;
    int32_t period;   /* 1 or more */
    float factor;     /* in [0, 1] */
    int32_t micro_batches; /* micro-batches per batch */
    int32_t moments;       /* at most 2 */
    float beta1;
    float share1; /* 1 - beta1, rounded once */
    float beta2;
    float share2;
};

/* Updates are counted in a float: from 2^24 on, the rate does not change. */
void poet_pace_f32(const struct poet_pace *op, float *pace, float *state);

#endif
