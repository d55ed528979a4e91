/* SPDX-License-Identifier: Apache-2.0 */
#include "softmax_cross_entropy.h"

#include "poet_math.h"

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

void poet_softmax_cross_entropy_forward_f32(const struct poet_softmax_cross_entropy *op,
                                            const float *logits, const int32_t *labels, float *loss)
{
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const int32_t label = labels[n];
        if (label >= 0 && label < op->classes) {
            const float largest = largest_of(logits, op->classes);
            float sum = 0.0f;
            for (int32_t k = 0; k < op->classes; k++) {
                sum += poet_expf(logits[k] - largest);
            }
            total += poet_logf(sum) - (logits[label] - largest);
        }
        logits += op->classes;
    }
    loss[0] = total / (float)op->batch;
}

void poet_softmax_cross_entropy_backward_f32(const struct poet_softmax_cross_entropy *op,
                                             const float *logits, const int32_t *labels,
                                             float *dlogits)
{
    const float batch = (float)op->batch;
    for (int32_t n = 0; n < op->batch; n++) {
        const int32_t label = labels[n];
        const int32_t counts = label >= 0 && label < op->classes;
        const float largest = largest_of(logits, op->classes);
        float sum = 0.0f;
        for (int32_t k = 0; k < op->classes; k++) {
            dlogits[k] = poet_expf(logits[k] - largest);
            sum += dlogits[k];
        }
        for (int32_t k = 0; k < op->classes; k++) {
            const float softmax = dlogits[k] / sum;
            dlogits[k] = counts ? (softmax - (k == label ? 1.0f : 0.0f)) / batch : 0.0f;
        }
        logits += op->classes;
        dlogits += op->classes;
    }
}
