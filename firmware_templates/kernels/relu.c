/* SPDX-License-Identifier: Apache-2.0 */
#include "relu.h"

#include "burst.h"
#include "poet_math.h"
#include "shapes.h"

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))
#define WORD_BITS 32

/* x < 0, or minus infinity, of its bits where comparing floats is a call: as integers with a sign those are the smallest, and NaN is
 * above them. With an FPU 0 is below, too; what comes of it is 0. NaN never is. */
INLINE bool is_below(float x)
{
    return POET_HAS_FPU ? x <= 0.0f : (int32_t)poet_float_bits(x) <= -0x800000;
}

INLINE float rectified(float x, bool to_six)
{
    const float floored = is_below(x) ? 0.0f : x;
    return to_six && floored >= 6.0f ? 6.0f : floored;
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

INLINE bool stops(float y, bool to_six)
{
    const bool is_floored = is_below(y) || (!POET_HAS_FPU && poet_float_bits(y) == 0u);
    return is_floored || (to_six && y >= 6.0f);
}

INLINE float passed(float y, float dy, bool to_six)
{
    return stops(y, to_six) ? 0.0f : dy;
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

INLINE void mask(const struct poet_relu *op, const float *y, int32_t *words, bool to_six)
{
    for (int32_t left = op->elements; left > 0; left -= WORD_BITS) {
        const int32_t count = left < WORD_BITS ? left : WORD_BITS;
        uint32_t bits = 0u;
        for (int32_t i = 0; i < count; i++) {
            bits |= (uint32_t)!stops(*y++, to_six) << i;
        }
        *words++ = (int32_t)bits;
    }
}

void poet_relu_mask_f32(const struct poet_relu *op, const float *y, int32_t *words)
{
    mask(op, y, words, false);
}

void poet_relu6_mask_f32(const struct poet_relu *op, const float *y, int32_t *words)
{
    mask(op, y, words, true);
}

void poet_relu_masked_backward_f32(const struct poet_relu *op, const int32_t *words, const float *dy, float *dx)
{
    for (int32_t left = op->elements; left > 0; left -= WORD_BITS) {
        const int32_t count = left < WORD_BITS ? left : WORD_BITS;
        uint32_t bits = (uint32_t)*words++;
        for (int32_t i = 0; i < count; i++) {
            *dx++ = (bits & 1u) != 0u ? *dy : 0.0f;
            dy++;
            bits >>= 1;
        }
    }
}
