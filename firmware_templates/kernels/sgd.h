/* Stochastic gradient descent with momentum and weight decay, by PyTorch's rule.
 *
 *   gradient, parameter, momentum   [elements]
 */
#ifndef POET_SGD_H
#define POET_SGD_H

#include <stdint.h>

struct poet_sgd {
    int32_t elements;
    float learning_rate;
    float momentum;
    float weight_decay;
};

/* step = gradient + weight_decay * parameter
 * momentum = op->momentum * momentum + step, and step = momentum; not where `momentum` is NULL
 * parameter = parameter - learning_rate * step */
void poet_sgd_update_f32(const struct poet_sgd *op, const float *gradient, float *parameter,
                         float *momentum);

#endif
