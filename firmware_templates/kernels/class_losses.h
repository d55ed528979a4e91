/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of classifiers with class weights, label smoothing or an ignored label, and their gradients.
 *
 *   x, dx    [batch][classes]: logits, or for poet_nll log-probabilities
 *   labels   [batch]
 *   loss     [1]
 *
 * A sample whose label is not a class, or is the one to ignore, adds nothing and has gradient 0. Of
 * the others, the loss is
 *
 *   sum over samples of hit * weights[label] * l[label] + spread * (sum over k of weights[k] * l[k])
 *
 * divided by the sum of their labels' weights, with l = -log softmax(x), or -x, where nothing is
 * spread; it is 0 where that sum is 0. dx may be the buffer of x.
 */
#ifndef POET_CLASS_LOSSES_H
#define POET_CLASS_LOSSES_H

#include <stdint.h>

struct poet_class_loss {
    int32_t batch;
    int32_t classes;
    int32_t ignored; /* no class if none is ignored */
    float hit;
    float spread;
    float spread_of_all; /* spread times the sum of all weights */
    const float *weights; /* [classes] */
};

void poet_weighted_cross_entropy_forward_f32(const struct poet_class_loss *op, const float *x,
                                             const int32_t *labels, float *loss);
void poet_weighted_cross_entropy_backward_f32(const struct poet_class_loss *op, const float *x,
                                              const int32_t *labels, float *dx);

void poet_nll_forward_f32(const struct poet_class_loss *op, const float *x, const int32_t *labels,
                          float *loss);
void poet_nll_backward_f32(const struct poet_class_loss *op, const float *x, const int32_t *labels,
                           float *dx);

#endif
