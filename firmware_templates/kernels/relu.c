/* SPDX-License-Identifier: Apache-2.0 */
#include "relu.h"

#include "lanes.h"
#include "poet_math.h"

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

/* x > 0, of its bits where comparing floats is a call: those of numbers above 0 are the integers from 1 to infinity's. */
INLINE bool is_positive(float x)
{
    return POET_HAS_FPU ? x > 0.0f : poet_float_bits(x) - 1u < 0x7f800000u;
}

INLINE float rectified(float x, bool to_six)
{
    const float floored = is_positive(x) ? x : 0.0f;
    return to_six && !(floored < 6.0f) ? 6.0f : floored;
}

INLINE void forward(const struct poet_relu *op, const float *x, float *y, bool to_six)
{
    int32_t left = op->elements;
    for (; left % POET_LANES != 0; left--) {
        *y++ = rectified(*x++, to_six);
    }
    for (; left > 0; left -= POET_LANES) {
        struct poet_lanes at = poet_load_lanes(&x);
        POET_EACH_LANE
        for (int i = 0; i < POET_LANES; i++) {
            at.of[i] = rectified(at.of[i], to_six);
        }
        poet_store_lanes(&y, &at);
    }
}

INLINE float passed(float y, float dy, bool to_six)
{
    return is_positive(y) && !(to_six && !(y < 6.0f)) ? dy : 0.0f;
}

INLINE void backward(const struct poet_relu *op, const float *y, const float *dy, float *dx,
                     bool to_six)
{
    int32_t left = op->elements;
    for (; left % POET_LANES != 0; left--) {
        *dx++ = passed(*y++, *dy++, to_six);
    }
    for (; left > 0; left -= POET_LANES) {
        const struct poet_lanes at = poet_load_lanes(&y);
        struct poet_lanes gradient = poet_load_lanes_too(&dy);
        POET_EACH_LANE
        for (int i = 0; i < POET_LANES; i++) {
            gradient.of[i] = passed(at.of[i], gradient.of[i], to_six);
        }
        poet_store_lanes(&dx, &gradient);
    }
}

void poet_relu_forward_f32(const struct poet_relu *op, const float *x, float *y)
{
    forward(op, x, y, false);
}

void poet_relu_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx)
{
    backward(op, y, dy, dx, false);
}

void poet_relu6_forward_f32(const struct poet_relu *op, const float *x, float *y)
{
    forward(op, x, y, true);
}

void poet_relu6_backward_f32(const struct poet_relu *op, const float *y, const float *dy, float *dx)
{
    backward(op, y, dy, dx, true);
}
