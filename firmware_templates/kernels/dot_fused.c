/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products in integers, for cores without a floating-point unit: unpacked once, rounded once.
 *
 * The product of two floats is kept to 30 bits, and added to a sum of 30 bits at the larger exponent of the two. n
 * terms are so wrong by at most (n + 6) 2^-29 of the sum of all magnitudes, where floats would be by n 2^-24, and then
 * the result is rounded. Zeros are skipped; infinities, NaN and numbers below 2^-126 go through the
 * floating-point library. */
#include "dot.h"

#include "poet_math.h"

/* mantissa * 2^(exponent - ORIGIN), with at most 30 bits in the mantissa, and what the library summed. */
struct total {
    int32_t mantissa;
    int32_t exponent;
    float rest;
};

enum {
    SPECIAL = 255, /* exponent of infinities and NaN; zero and subnormal numbers have 0 */
    ORIGIN = 2 * 127 + 2 * 23 - 18, /* of the sum of two exponents, for 30 of 48 bits */
};

/* Adds the products of the middle and the inner axis. Below in C and, as the inner loop is all that takes time, in
 * the assembly of cores that have only Thumb's first instructions. */
void poet_dot_add_plane(struct total *total, const struct poet_dot *dot, const float *a, const float *b);

/* Adds a product whose factors are not both normal numbers. Called by the assembly. */
void poet_dot_add_rest(struct total *total, const float *a, const float *b);

void poet_dot_add_rest(struct total *total, const float *a, const float *b)
{
    total->rest += *a * *b;
}

#if !defined __thumb__ || defined __thumb2__

static const uint32_t hidden_bit = 0x800000u;

static uint32_t exponent_of(uint32_t bits)
{
    return bits << 1 >> 24;
}

/* value / 2^places, rounded to nearest, ties up: the last bit shifted out is added. */
static int32_t shifted(int32_t value, int32_t places)
{
    const int32_t bits = places < 31 ? places : 31;
    const int32_t half = bits > 0 ? (int32_t)((uint32_t)value >> (bits - 1)) & 1 : 0;
    return (value >= 0 ? value >> bits : ~(~value >> bits)) + half;
}

static void add_product(struct total *total, const float *a, const float *b)
{
    const uint32_t x = poet_float_bits(*a);
    const uint32_t y = poet_float_bits(*b);
    const uint32_t x_exponent = exponent_of(x);
    const uint32_t y_exponent = exponent_of(y);
    if ((x << 1 == 0u && y_exponent != SPECIAL) || (y << 1 == 0u && x_exponent != SPECIAL)) {
        return;
    }
    if (x_exponent == 0u || y_exponent == 0u || x_exponent == SPECIAL || y_exponent == SPECIAL) {
        poet_dot_add_rest(total, a, b);
        return;
    }
    const uint32_t x_high = (x | hidden_bit) << 8 >> 16;
    const uint32_t y_high = (y | hidden_bit) << 8 >> 16;
    const uint32_t cross = x_high * (y & 0xffu) + (x & 0xffu) * y_high;
    const int32_t magnitude = (int32_t)((x_high * y_high + (cross >> 8)) >> 2);
    const int32_t product = (x ^ y) >> 31 != 0u ? -magnitude : magnitude;
    const int32_t exponent = (int32_t)(x_exponent + y_exponent);
    const int32_t ahead = total->exponent - exponent;
    if (ahead > 31) {
        return;
    }
    if (ahead >= 0) {
        total->mantissa += shifted(product, ahead);
    } else {
        total->mantissa = shifted(total->mantissa, -ahead) + product;
        total->exponent = exponent;
    }
    if (total->mantissa >= 1 << 30 || total->mantissa < -(1 << 30)) {
        total->mantissa = shifted(total->mantissa, 1);
        total->exponent++;
    }
}

void poet_dot_add_plane(struct total *total, const struct poet_dot *dot, const float *a, const float *b)
{
    for (int32_t j = 0; j < dot->middle.count; j++) {
        for (int32_t k = 0; k < dot->inner.count; k++) {
            add_product(total, a + k * dot->inner.a_next, b + k * dot->inner.b_next);
        }
        a += dot->middle.a_next;
        b += dot->middle.b_next;
    }
}

#endif

/* Rounds to the nearest float, ties to even. */
static float rounded(const struct total *total)
{
    const uint32_t sign = total->mantissa < 0 ? 0x80000000u : 0u;
    uint32_t mantissa = (uint32_t)(total->mantissa < 0 ? -total->mantissa : total->mantissa);
    int32_t exponent = total->exponent - ORIGIN + 127 + 30; /* once the mantissa is at least 2^30 */
    if (mantissa == 0u) {
        return total->rest;
    }
    while (mantissa < 0x40000000u) {
        mantissa <<= 1;
        exponent--;
    }
    for (; exponent < 1 && mantissa > 1u; exponent++) { /* below 2^-126 */
        mantissa = mantissa >> 1 | (mantissa & 1u);
    }
    const uint32_t lost = mantissa & 0x7fu;
    mantissa >>= 7;
    mantissa += lost > 64u || (lost == 64u && (mantissa & 1u) != 0u) ? 1u : 0u;
    uint32_t bits = mantissa;
    if (exponent >= SPECIAL) {
        bits = (uint32_t)SPECIAL << 23;
    } else if (exponent > 1) {
        bits += (uint32_t)(exponent - 1) << 23; /* the hidden bit is the exponent's last */
    }
    bits |= sign;
    const float value = poet_float_from_bits(bits);
    return poet_float_bits(total->rest) == 0u ? value : value + total->rest;
}

float poet_dot_f32(const struct poet_dot *dot, int32_t unit, const float *a, const float *b)
{
    (void)unit;
    if (dot->outer.count * dot->middle.count * dot->inner.count == 1) {
        return 0.0f + *a * *b;
    }
    struct total total = {0, 0, 0.0f};
    if (dot->middle.count > 0 && dot->inner.count > 0) {
        for (int32_t i = 0; i < dot->outer.count; i++) {
            poet_dot_add_plane(&total, dot, a, b);
            a += dot->outer.a_next;
            b += dot->outer.b_next;
        }
    }
    return rounded(&total);
}
