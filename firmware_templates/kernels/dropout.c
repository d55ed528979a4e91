/* SPDX-License-Identifier: Apache-2.0 */
#include "dropout.h"

/* A number of 32 bits for another: lowbias32 of Wellons, "Prospecting for Hash Functions". */
static uint32_t mixed(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x7FEB352Du;
    h = (h ^ (h >> 15)) * 0x846CA68Bu;
    return h ^ (h >> 16);
}

void poet_dropout_f32(const struct poet_dropout *op, const float *x, const float *step, float *y)
{
    const uint32_t key = mixed((uint32_t)op->seed ^ mixed((uint32_t)*step));
    const uint32_t threshold = (uint32_t)op->threshold;
    uint32_t place = 0;
    for (int32_t i = 0; i < op->elements; place++) {
        const uint32_t drawn = mixed(mixed(place ^ key) + key) >> 8;
        const int32_t end = op->elements - i < op->run ? op->elements : i + op->run;
        for (; i < end; i++) {
            y[i] = drawn < threshold ? 0.0f : x[i] * op->factor;
        }
    }
}

void poet_uniform_f32(const struct poet_uniform *op, const float *step, float *y)
{
    const uint32_t key = mixed((uint32_t)op->seed ^ mixed((uint32_t)*step));
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = (float)(mixed(mixed((uint32_t)i ^ key) + key) >> 8) * 0x1p-24f;
    }
}

void poet_count_step_f32(const struct poet_count_step *op, float *step)
{
    *step = *step < (float)op->last ? *step + 1.0f : 0.0f;
}
