/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy in one: the loss of a classifier, and its gradient.
 *
 *   logits, dlogits   [batch][classes]
 *   labels            [batch], each in [0, classes)
 *   loss              [1]
 *
 * A sample whose label is not a class adds nothing to the loss and has gradient 0.
 */
#ifndef POET_SOFTMAX_CROSS_ENTROPY_H
#define POET_SOFTMAX_CROSS_ENTROPY_H

#include <stdint.h>

struct poet_softmax_cross_entropy {
    int32_t batch;
    int32_t classes;
};

/* loss = mean over samples of log(sum over k of exp(logits[n][k])) - logits[n][label] */
void poet_softmax_cross_entropy_forward_f32(const struct poet_softmax_cross_entropy *op,
                                            const float *logits, const int32_t *labels,
                                            float *loss);

/* dlogits = (softmax(logits) - 1 at the label) / batch */
void poet_softmax_cross_entropy_backward_f32(const struct poet_softmax_cross_entropy *op,
                                             const float *logits, const int32_t *labels,
                                             float *dlogits);

#endif
