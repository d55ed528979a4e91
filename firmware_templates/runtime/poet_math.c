/* SPDX-License-Identifier: Apache-2.0 */
#include "poet_math.h"

#define SIGN 0x80000000u
#define INFINITE 0x7f800000u
#define QUIET_NAN 0x7fc00000u
#define ONE 0x3f800000u

/* ln 2 in two parts: the first has 15 significant bits, so its product with an exponent is exact. */
static const float LN2_HIGH = 0x1.62e4p-1f;
static const float LN2_LOW = 0x1.7f7d1cp-20f;

/* Adding 1 to an exponent of ones, and to no other, carries into the sign's place. */
int poet_all_finite(const float *values, uint32_t count)
{
    uint32_t carries = 0u;
    for (uint32_t i = 0u; i < count; i++) {
        carries |= (poet_float_bits(values[i]) & ~SIGN) + 0x00800000u;
    }
    return (carries & SIGN) == 0u;
}

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
    return poet_inline_sqrtf(x);
}

/* Minimax fits to the relative error, which they leave below 0.25 units in the last place: of [0, 1/8), then of
 * quarters of each power of two up to 8, then of what is left up to 9.25. Centres are where tanh is nearly a float. */
const struct poet_tanh_piece poet_tanh_pieces[] = {
    {0.0f, {0.0f, 0x1p+0f, 0x1.4ee5ecp-22f, -0x1.555b2ep-2f, 0x1.efc4fap-12f, 0x1.0a361ap-3f}},
    {0x1.1ff20ep-3f, {0x1.1e1024p-3f, 0x1.f602cp-1f, -0x1.187b56p-3f, -0x1.3b593ep-2f, 0x1.69037cp-4f, 0x1.dacffcp-1f}},
    {0x1.6006ap-3f, {0x1.5c9976p-3f, 0x1.f12a74p-1f, -0x1.527fd2p-3f, -0x1.2ef2a2p-2f, 0x1.acc5p-4f, 0x1.10c1cap+0f}},
    {0x1.a01ad6p-3f, {0x1.9a78dep-3f, 0x1.eb6ec4p-1f, -0x1.89fbc2p-3f, -0x1.1fa8c4p-2f, 0x1.f0a09p-4f, -0x1.64d8d2p+0f}},
    {0x1.e01738p-3f, {0x1.d77c5ap-3f, 0x1.e4dd2ap-1f, -0x1.be7f34p-3f, -0x1.10157cp-2f, 0x1.118388p-3f, 0x1.a2b8a8p-1f}},
    {0x1.201c7cp-2f, {0x1.18bdf2p-2f, 0x1.d983fep-1f, -0x1.03a3dap-2f, -0x1.e8f03p-3f, 0x1.331106p-3f, 0x1.4ec38cp-5f}},
    {0x1.600068p-2f, {0x1.52c322p-2f, 0x1.c7f704p-1f, -0x1.2dafdap-2f, -0x1.982df4p-3f, 0x1.5036d6p-3f, -0x1.fc0b42p-6f}},
    {0x1.9fefaap-2f, {0x1.8a79f8p-2f, 0x1.b4048ap-1f, -0x1.4fef6p-2f, -0x1.4255e8p-3f, 0x1.5c49aep-3f, -0x1.1e48cp-4f}},
    {0x1.e0167ep-2f, {0x1.bfc09cp-2f, 0x1.9e1bbap-1f, -0x1.6a24fep-2f, -0x1.d6fd8p-4f, 0x1.58529ap-3f, 0x1.9bf458p-9f}},
    {0x1.2018bp-1f, {0x1.051ab4p-1f, 0x1.7ad846p-1f, -0x1.8265fep-2f, -0x1.bc4bbap-5f, 0x1.39eed6p-3f, -0x1.3fd756p-5f}},
    {0x1.5ffc7cp-1f, {0x1.31559cp-1f, 0x1.49e972p-1f, -0x1.897d76p-2f, 0x1.d7c1c6p-7f, 0x1.e96e88p-4f, -0x1.0e1c0ep-4f}},
    {0x1.a01cfcp-1f, {0x1.5798eep-1f, 0x1.196a6cp-1f, -0x1.79b5b2p-2f, 0x1.07667ep-4f, 0x1.46de34p-4f, -0x1.e9497ep-5f}},
    {0x1.dff95ap-1f, {0x1.77d528p-1f, 0x1.d83dd4p-2f, -0x1.5aa5e4p-2f, 0x1.84231p-4f, 0x1.63055p-5f, -0x1.a76354p-5f}},
    {0x1.20155cp+0f, {0x1.9e6b72p-1f, 0x1.61204ep-2f, -0x1.1dd3bap-2f, 0x1.c69346p-4f, 0x1.d9bfbap-9f, -0x1.06e0fcp-5f}},
    {0x1.5fef1ep+0f, {0x1.c27104p-1f, 0x1.cedcf8p-3f, -0x1.9736fap-3f, 0x1.97ef16p-4f, -0x1.59bec8p-6f, -0x1.386632p-7f}},
    {0x1.a01248p+0f, {0x1.d9cc3cp-1f, 0x1.26374ep-3f, -0x1.1043acp-3f, 0x1.33c27ep-4f, -0x1.9bb0ecp-6f, 0x1.651062p-10f}},
    {0x1.dfe98p+0f, {0x1.e87494p-1f, 0x1.700d5ap-4f, -0x1.5f2096p-4f, 0x1.a898ep-5f, -0x1.55c10ep-6f, 0x1.2c9f82p-8f}},
    {0x1.1ff226p+1f, {0x1.f4bd6ep-1f, 0x1.645bfp-5f, -0x1.5c8318p-5f, 0x1.bc25fap-6f, -0x1.961ebap-7f, 0x1.04a902p-8f}},
    {0x1.5fe7f2p+1f, {0x1.fbd37ap-1f, 0x1.0a0ac4p-6f, -0x1.07dbaep-6f, 0x1.5a127p-7f, -0x1.51ce2cp-8f, 0x1.f65a6p-10f}},
    {0x1.a01c78p+1f, {0x1.fe7728p-1f, 0x1.884158p-8f, -0x1.870d7ap-8f, 0x1.0321fep-8f, -0x1.02cd8ap-9f, 0x1.94697ap-11f}},
    {0x1.e01726p+1f, {0x1.ff6f4cp-1f, 0x1.213f24p-9f, -0x1.20e7fap-9f, 0x1.8059dap-10f, -0x1.8306e6p-11f, 0x1.332554p-12f}},
    {0x1.1fe142p+2f, {0x1.ffdf88p-1f, 0x1.03b96p-11f, -0x1.03564cp-11f, 0x1.59a638p-12f, -0x1.69f2eap-13f, 0x1.1fb044p-14f}},
    {0x1.5fe8bep+2f, {0x1.fffb9cp-1f, 0x1.1900a6p-14f, -0x1.18a418p-14f, 0x1.762f3ap-15f, -0x1.884a7p-16f, 0x1.38b17ap-17f}},
    {0x1.9fef28p+2f, {0x1.ffff68p-1f, 0x1.3001eap-17f, -0x1.2f9fdep-17f, 0x1.94d60ep-18f, -0x1.a881cep-19f, 0x1.52baaep-20f}},
    {0x1.e01f4p+2f, {0x1.ffffecp-1f, 0x1.473596p-20f, -0x1.b92b12p-20f, 0x1.b07dd2p-21f, 0x1.565ee2p-20f, 0x1.d9f60cp-23f}},
    {0x1.141f4p+3f, {0x1.fffffep-1f, 0x1.12d9bcp-23f, -0x1.d16376p-23f, 0x1.665bc6p-24f, 0x1.869b08p-23f, 0x1.d01e94p-26f}},
};
