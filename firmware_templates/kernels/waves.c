/* SPDX-License-Identifier: Apache-2.0 */
#include "waves.h"

/* Range reduction: x is k quarters of a period plus a remainder of at most an eighth. Pi / 2 is split into three parts, whose
 * products with k are exact for moderate k (Cody and Waite, 1980). Polynomials of the remainder as in Cephes' sinf (Moshier). */
static const float QUARTERS = 0x1.45f306p-1f;
static const float FIRST = 0x1.92p+0f;
static const float SECOND = 0x1.fb4p-12f;
static const float THIRD = 0x1.4442dp-24f;
static const float LIMIT = 0x1p+24f;

static float sine_of(float r)
{
    const float z = r * r;
    float p = -1.9515295891e-4f;
    p = p * z + 8.3321608736e-3f;
    p = p * z + -1.6666654611e-1f;
    return p * z * r + r;
}

static float cosine_of(float r)
{
    const float z = r * r;
    float p = 2.443315711809948e-5f;
    p = p * z + -1.388731625493765e-3f;
    p = p * z + 4.166664568298827e-2f;
    return p * z * z - 0.5f * z + 1.0f;
}

/* sin(x + quarter · pi / 2) for x of 0 or more. */
static float wave(float x, int32_t quarter)
{
    if (!(x < LIMIT)) {
        return x - x;
    }
    const int32_t k = (int32_t)(x * QUARTERS + 0.5f);
    const float turns = (float)k;
    const float r = ((x - turns * FIRST) - turns * SECOND) - turns * THIRD;
    const int32_t place = (k + quarter) & 3;
    const float y = (place & 1) != 0 ? cosine_of(r) : sine_of(r);
    return (place & 2) != 0 ? -y : y;
}

void poet_sin_f32(const struct poet_waves *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        const float v = x[i];
        y[i] = v < 0.0f ? -wave(-v, 0) : wave(v, 0);
    }
}

void poet_cos_f32(const struct poet_waves *op, const float *x, float *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        const float v = x[i];
        y[i] = wave(v < 0.0f ? -v : v, 1);
    }
}
