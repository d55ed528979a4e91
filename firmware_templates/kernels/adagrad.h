/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad, as in PyTorch. */
#ifndef POET_ADAGRAD_H
#define POET_ADAGRAD_H

#include "update.h"

struct poet_adagrad {
    struct poet_update update;
    float eps;
};

/* first = first + gradient^2
 * parameter = parameter - learning_rate * gradient / (sqrt(first) + eps) */
void poet_adagrad_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                           const float *gradient);

#endif
