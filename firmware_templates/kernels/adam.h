/* SPDX-License-Identifier: Apache-2.0 */
/* Adam and AdamW, by PyTorch's rule. The pace has the learning rate, and what the first and the second
 * moment are multiplied with, because both began at 0. */
#ifndef POET_ADAM_H
#define POET_ADAM_H

#include "update.h"

struct poet_adam {
    struct poet_update update;
    float beta1;
    float beta2;
    float share1; /* 1 - beta1, rounded once */
    float share2;
    float eps;
    int32_t decoupled; /* 1 for decoupled weight decay, as in AdamW */
};

/* first = beta1 * first + (1 - beta1) * gradient, and second likewise of its square
 * parameter = parameter - rate * first * pace[2] / (sqrt(second * pace[3]) + eps) */
void poet_adam_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                        const float *gradient);

#endif
