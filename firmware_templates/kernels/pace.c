/* SPDX-License-Identifier: Apache-2.0 */
#include "pace.h"

/* factor^exponent, by squaring. */
static float power(float factor, int32_t exponent)
{
    float result = 1.0f;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) {
            result *= factor;
        }
        factor *= factor;
    }
    return result;
}

/* (1 + cos(pi x)) / 2 for x in [0, 1]: with v = x / 2 or, from 1/2 on, (1 - x) / 2, it is 1 - sin^2(pi v) or
 * sin^2(pi v), so that both ends are exact. The polynomial is a minimax fit, with a relative error of 4e-9. */
static float half_cosine(float x)
{
    const int32_t late = x >= 0.5f;
    const float v = 0.5f * (late ? 1.0f - x : x);
    const float z = v * v;
    float p = -0x1.2d9302p-1f;
    p = p * z + 0x1.465e92p+1f;
    p = p * z + -0x1.4abbbap+2f;
    p = p * z + 0x1.921fb6p+1f;
    const float sine = v * p;
    return late ? sine * sine : 1.0f - sine * sine;
}

static float learning_rate(const struct poet_pace *op, int32_t done)
{
    if (done < op->warm_up) {
        return op->learning_rate * ((float)(done + 1) / (float)op->warm_up);
    }
    done -= op->warm_up;
    const float part = done < op->period ? (float)done / (float)op->period : 1.0f;
    switch (op->schedule) {
    case POET_SCHEDULE_STEP:
        return op->learning_rate * power(op->factor, done / op->period);
    case POET_SCHEDULE_LINEAR:
        return op->learning_rate * (1.0f - part);
    case POET_SCHEDULE_COSINE:
        return op->learning_rate * half_cosine(part);
    default:
        return op->learning_rate;
    }
}

void poet_pace_f32(const struct poet_pace *op, float *pace, float *state)
{
    const int32_t batches = (int32_t)state[1] + 1;
    const int32_t is_last = batches == op->micro_batches;
    pace[0] = learning_rate(op, (int32_t)state[0]);
    pace[1] = is_last ? 1.0f : 0.0f;
    state[0] += pace[1];
    state[1] = is_last ? 0.0f : (float)batches;
    for (int32_t i = 0; i < op->moments; i++) {
        float *part = state + 2 + i;
        if (is_last) {
            *part = i == 0 ? op->beta1 * *part + op->share1 : op->beta2 * *part + op->share2;
        }
        pace[2 + i] = is_last ? 1.0f / *part : 0.0f;
    }
}
