/* SPDX-License-Identifier: Apache-2.0 */
#include "poet_math.h"

#define SIGN 0x80000000u
#define INFINITE 0x7f800000u
#define QUIET_NAN 0x7fc00000u
#define ONE 0x3f800000u

/* ln 2 in two parts: the first has 15 significant bits, so its product with an exponent is exact. */
static const float LN2_HIGH = 0x1.62e4p-1f;
static const float LN2_LOW = 0x1.7f7d1cp-20f;

/* 2^n for n in [-126, 127]. */
static float power_of_two(int32_t n)
{
    return poet_float_from_bits((uint32_t)(n + 127) << 23);
}

/* e^x = 2^k e^r with |r| <= ln(2)/2 and e^r = 1 + r + r^2 P(r). P is a minimax fit to the relative
 * error of e^r, which it leaves below 0.06 units in the last place. */
float poet_expf(float x)
{
    if (x != x) {
        return poet_float_from_bits(QUIET_NAN);
    }
    if (x > 89.0f) {
        return poet_float_from_bits(INFINITE);
    }
    if (x < -104.0f) {
        return 0.0f;
    }
    const float scaled = x * 0x1.715476p+0f;
    const int32_t k = (int32_t)(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
    const float r = (x - (float)k * LN2_HIGH) - (float)k * LN2_LOW;
    float p = 0x1.6a21acp-10f;
    p = p * r + 0x1.123b6ap-7f;
    p = p * r + 0x1.5558fap-5f;
    p = p * r + 0x1.555490p-3f;
    p = p * r + 0x1.fffffcp-2f;
    const float y = 1.0f + (r + r * r * p);
    /* In two exact factors, so that a subnormal result is rounded only once. */
    const int32_t half = k / 2;
    return y * power_of_two(half) * power_of_two(k - half);
}

/* log x = k ln 2 + log(1 + f) with 1 + f in [sqrt(1/2), sqrt 2). With s = f / (2 + f),
 * log(1 + f) = 2s + s R(s^2) = f - f^2/2 + s (f^2/2 + R(s^2)), where the last form loses nothing to
 * cancellation (the identity is fdlibm's; R is a minimax fit with 0.02 units of error). */
float poet_logf(float x)
{
    uint32_t bits = poet_float_bits(x);
    int32_t k = 0;
    if ((bits & ~SIGN) == 0u) {
        return poet_float_from_bits(SIGN | INFINITE);
    }
    if (bits > INFINITE) {
        return poet_float_from_bits(QUIET_NAN);
    }
    if (bits == INFINITE) {
        return x;
    }
    if (bits < 0x00800000u) {
        bits = poet_float_bits(x * 0x1p+25f);
        k = -25;
    }
    /* Adding the distance from sqrt(1/2) to 1 moves the border between exponents to sqrt 2. */
    const uint32_t root_half = 0x3f3504f3u;
    bits += ONE - root_half;
    k += (int32_t)(bits >> 23) - 127;
    const float f = poet_float_from_bits((bits & 0x007fffffu) + root_half) - 1.0f;
    const float s = f / (2.0f + f);
    const float z = s * s;
    float p = 0x1.831e20p-4f;
    p = p * z + 0x1.2c6a08p-2f;
    p = p * z + 0x1.9976a2p-2f;
    p = p * z + 0x1.55556cp-1f;
    const float half_square = 0.5f * f * f;
    const float scale = (float)k;
    return s * (half_square + z * p) + scale * LN2_LOW - half_square + f + scale * LN2_HIGH;
}

/* The result's 24 bits and one more are the integer square root of the significand times a power of
 * four; the last bit alone decides the rounding, since no square root of a float lies halfway. */
float poet_sqrtf_soft(float x)
{
    uint32_t bits = poet_float_bits(x);
    if ((bits & ~SIGN) == 0u || bits == INFINITE) {
        return x;
    }
    if (bits > INFINITE) {
        return poet_float_from_bits(QUIET_NAN);
    }
    int32_t exponent = (int32_t)(bits >> 23);
    uint32_t significand = bits & 0x007fffffu;
    if (exponent == 0) {
        exponent = 1;
    } else {
        significand |= 0x00800000u;
    }
    while (significand < 0x00800000u) {
        significand <<= 1;
        exponent--;
    }
    exponent -= 127;
    if (exponent % 2 != 0) {
        significand <<= 1;
        exponent--;
    }
    uint64_t rest = (uint64_t)significand << 25;
    uint64_t root = 0u;
    for (uint64_t bit = (uint64_t)1u << 48; bit != 0u; bit >>= 2) {
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    const uint32_t rounded = (uint32_t)((root >> 1) + (root & 1u));
    return poet_float_from_bits(((uint32_t)(exponent / 2 + 126) << 23) + rounded);
}

float poet_sqrtf(float x)
{
#if (defined(__ARM_FP) && (__ARM_FP & 4)) || defined(__SSE2__)
    return x >= 0.0f ? __builtin_sqrtf(x) : poet_float_from_bits(QUIET_NAN);
#else
    return poet_sqrtf_soft(x);
#endif
}

/* An odd polynomial (minimax) near 0; elsewhere 1 - 2 / (e^2x + 1), whose rounding errors shrink as
 * the result nears 1. */
float poet_tanhf(float x)
{
    const uint32_t sign = poet_float_bits(x) & SIGN;
    const float magnitude = poet_float_from_bits(poet_float_bits(x) & ~SIGN);
    if (x != x) {
        return poet_float_from_bits(QUIET_NAN);
    }
    float y;
    if (magnitude < 0.625f) {
        const float z = magnitude * magnitude;
        float p = -0x1.0fd476p-8f;
        p = p * z + 0x1.3a2ba8p-6f;
        p = p * z + -0x1.b45d7ap-5f;
        p = p * z + 0x1.10e7cep-3f;
        p = p * z + -0x1.555496p-2f;
        y = magnitude + magnitude * (z * p);
    } else {
        y = 1.0f - 2.0f / (poet_expf(2.0f * magnitude) + 1.0f);
    }
    return poet_float_from_bits(poet_float_bits(y) | sign);
}
