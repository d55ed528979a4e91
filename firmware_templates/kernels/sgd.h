/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent with momentum and weight decay, by PyTorch's rule.
 *
 *   gradient, parameter, momentum   [elements]
 *   factor                          [1]
 */
#ifndef POET_SGD_H
#define POET_SGD_H

#include <stddef.h>
#include <stdint.h>

struct poet_sgd {
    int32_t elements;
    float learning_rate;
    float momentum;
    float weight_decay;
};

/* The update of one element; `momentum` may be NULL. */
static inline void poet_sgd_step_f32(const struct poet_sgd *op, float gradient, float *parameter,
                                     float *momentum)
{
    float step = gradient;
    if (op->weight_decay > 0.0f) {
        step += op->weight_decay * *parameter;
    }
    if (momentum != NULL) {
        step += op->momentum * *momentum;
        *momentum = step;
    }
    *parameter -= op->learning_rate * step;
}

/* step = factor * gradient + weight_decay * parameter; the factor is 1 where `factor` is NULL
 * momentum = op->momentum * momentum + step, and step = momentum; not where `momentum` is NULL
 * parameter = parameter - learning_rate * step */
void poet_sgd_update_f32(const struct poet_sgd *op, const float *gradient, const float *factor,
                         float *parameter, float *momentum);

#endif
