/* SPDX-License-Identifier: Apache-2.0 */
#include "relu.h"

#include "burst.h"
#include "poet_math.h"
#include "shapes.h"

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
    for (; POET_RELU_ELEMENTS % POET_BURST != 0 && left % POET_BURST != 0; left--) {
        *y++ = rectified(*x++, to_six);
    }
    for (; left > 0; left -= POET_BURST) {
        struct poet_burst at = poet_load_burst(&x);
        POET_EACH_OF_BURST
        for (int i = 0; i < POET_BURST; i++) {
            at.of[i] = rectified(at.of[i], to_six);
        }
        poet_store_burst(&y, &at);
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
    for (; POET_RELU_ELEMENTS % POET_BURST != 0 && left % POET_BURST != 0; left--) {
        *dx++ = passed(*y++, *dy++, to_six);
    }
    for (; left > 0; left -= POET_BURST) {
        const struct poet_burst at = poet_load_burst(&y);
        struct poet_burst gradient = poet_load_burst_too(&dy);
        POET_EACH_OF_BURST
        for (int i = 0; i < POET_BURST; i++) {
            gradient.of[i] = passed(at.of[i], gradient.of[i], to_six);
        }
        poet_store_burst(&dx, &gradient);
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
