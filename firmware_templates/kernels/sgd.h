/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent with momentum and weight decay, as in PyTorch. */
#ifndef POET_SGD_H
#define POET_SGD_H

#include "update.h"

struct poet_sgd {
    struct poet_update update;
    float momentum;
    int32_t nesterov; /* 1 for Nesterov's momentum */
};

/* step = gradient + weight_decay * parameter
 * first = momentum * first + step, and step = first or, with nesterov, step + momentum * first;
 * not where `first` is NULL
 * parameter = parameter - learning_rate * step */
void poet_sgd_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                       const float *gradient);

#endif
