/* SPDX-License-Identifier: Apache-2.0 */
#include "class_losses.h"

#include "poet_math.h"

static int counts(const struct poet_class_loss *op, int32_t label)
{
    return label >= 0 && label < op->classes && label != op->ignored;
}

static float weight_of_all(const struct poet_class_loss *op, const int32_t *labels)
{
    float whole = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        if (counts(op, labels[n])) {
            whole += op->weights[labels[n]];
        }
    }
    return whole;
}

/* Exponentials are taken relative to the largest logit, so that they cannot overflow. */
static float largest_of(const float *values, int32_t count)
{
    float largest = values[0];
    for (int32_t k = 1; k < count; k++) {
        if (values[k] > largest) {
            largest = values[k];
        }
    }
    return largest;
}

/* How far a sample's logits are below the largest one, each as often as it is in the loss. */
static float distances(const struct poet_class_loss *op, const float *x, int32_t label, float largest)
{
    float others = 0.0f;
    for (int32_t k = 0; k < op->classes; k++) {
        others += op->weights[k] * (largest - x[k]);
    }
    return op->hit * op->weights[label] * (largest - x[label]) + op->spread * others;
}

/* What of dx[k] does not come from the softmax. */
static float share_of(const struct poet_class_loss *op, int32_t label, int32_t k)
{
    const float spread = op->spread * op->weights[k];
    return k == label ? op->hit * op->weights[k] + spread : spread;
}

void poet_weighted_cross_entropy_forward_f32(const struct poet_class_loss *op, const float *x,
                                             const int32_t *labels, float *loss)
{
    const float whole = weight_of_all(op, labels);
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const int32_t label = labels[n];
        if (counts(op, label)) {
            const float largest = largest_of(x, op->classes);
            float sum = 0.0f;
            for (int32_t k = 0; k < op->classes; k++) {
                sum += poet_expf(x[k] - largest);
            }
            const float shares = op->hit * op->weights[label] + op->spread_of_all;
            total += shares * poet_logf(sum) + distances(op, x, label, largest);
        }
        x += op->classes;
    }
    loss[0] = whole > 0.0f ? total / whole : 0.0f;
}

void poet_weighted_cross_entropy_backward_f32(const struct poet_class_loss *op, const float *x,
                                              const int32_t *labels, float *dx)
{
    const float whole = weight_of_all(op, labels);
    for (int32_t n = 0; n < op->batch; n++) {
        const int32_t label = labels[n];
        const int32_t counted = counts(op, label) && whole > 0.0f;
        const float shares = counted ? op->hit * op->weights[label] + op->spread_of_all : 0.0f;
        const float largest = largest_of(x, op->classes);
        float sum = 0.0f;
        for (int32_t k = 0; k < op->classes; k++) {
            dx[k] = poet_expf(x[k] - largest);
            sum += dx[k];
        }
        for (int32_t k = 0; k < op->classes; k++) {
            const float pulled = shares * (dx[k] / sum);
            dx[k] = counted ? (pulled - share_of(op, label, k)) / whole : 0.0f;
        }
        x += op->classes;
        dx += op->classes;
    }
}

void poet_nll_forward_f32(const struct poet_class_loss *op, const float *x, const int32_t *labels,
                          float *loss)
{
    const float whole = weight_of_all(op, labels);
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        if (counts(op, labels[n]) && op->weights[labels[n]] > 0.0f) { /* others may be log 0 */
            total -= op->weights[labels[n]] * x[labels[n]];
        }
        x += op->classes;
    }
    loss[0] = whole > 0.0f ? total / whole : 0.0f;
}

void poet_nll_backward_f32(const struct poet_class_loss *op, const float *x, const int32_t *labels,
                           float *dx)
{
    const float whole = weight_of_all(op, labels);
    (void)x;
    for (int32_t n = 0; n < op->batch; n++) {
        const int32_t counted = counts(op, labels[n]) && whole > 0.0f;
        for (int32_t k = 0; k < op->classes; k++) {
            dx[k] = counted && k == labels[n] ? -op->weights[k] / whole : 0.0f;
        }
        dx += op->classes;
    }
}
