/* SPDX-License-Identifier: Apache-2.0 */
#include "mean_losses.h"

#include "poet_math.h"

/* The expressions are one element's, of the prediction p and the target t. */

#define FORWARD(name, expression)                                                                     \
    void poet_##name##_forward_f32(const struct poet_mean_loss *op, const float *prediction,          \
                                   const float *target, float *loss)                                  \
    {                                                                                                 \
        float total = 0.0f;                                                                           \
        for (int32_t n = 0; n < op->batch; n++) {                                                     \
            float sum = 0.0f;                                                                         \
            for (int32_t f = 0; f < op->features; f++) {                                              \
                const float p = *prediction++;                                                        \
                const float t = *target++;                                                            \
                sum += (expression);                                                                  \
            }                                                                                         \
            total += sum;                                                                             \
        }                                                                                             \
        loss[0] = total / (float)(op->batch * op->features);                                          \
    }

#define BACKWARD(name, expression)                                                                    \
    void poet_##name##_backward_f32(const struct poet_mean_loss *op, const float *prediction,         \
                                    const float *target, float *dprediction)                          \
    {                                                                                                 \
        const int32_t elements = op->batch * op->features;                                            \
        const float share = 1.0f / (float)elements;                                                   \
        for (int32_t i = 0; i < elements; i++) {                                                      \
            const float p = prediction[i];                                                            \
            const float t = target[i];                                                                \
            dprediction[i] = (expression) * share;                                                    \
        }                                                                                             \
    }

static float magnitude(float x)
{
    return x < 0.0f ? -x : x;
}

static float huber(float error)
{
    return error <= 1.0f ? error * error * 0.5f : error - 0.5f;
}

static float bounded(float error)
{
    return error < -1.0f ? -1.0f : (error > 1.0f ? 1.0f : error);
}

/* log(1 + t) for t in [0, 1]: what the sum's rounding loses is made up for (Kahan). */
static float log_of_1_and(float t)
{
    const float sum = 1.0f + t;
    return sum == 1.0f ? t : poet_logf(sum) * (t / (sum - 1.0f));
}

static float logistic(float x)
{
    const float e = poet_expf(-magnitude(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

FORWARD(l1, magnitude(p - t))
BACKWARD(l1, p > t ? 1.0f : (p < t ? -1.0f : 0.0f))

FORWARD(huber, huber(magnitude(p - t)))
BACKWARD(huber, bounded(p - t))

FORWARD(binary_cross_entropy, (p > 0.0f ? p : 0.0f) - p * t + log_of_1_and(poet_expf(-magnitude(p))))
BACKWARD(binary_cross_entropy, logistic(p) - t)
