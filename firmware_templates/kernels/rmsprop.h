/* SPDX-License-Identifier: Apache-2.0 */
/* RMSprop with momentum, as in PyTorch. */
#ifndef POET_RMSPROP_H
#define POET_RMSPROP_H

#include "update.h"

struct poet_rmsprop {
    struct poet_update update;
    float alpha;
    float share; /* 1 - alpha, rounded once */
    float eps;
    float momentum;
};

/* first = alpha * first + (1 - alpha) * gradient^2,  step = gradient / (sqrt(first) + eps)
 * second = momentum * second + step, and step = second; not where `second` is NULL
 * parameter = parameter - learning_rate * step */
void poet_rmsprop_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                           const float *gradient);

#endif
