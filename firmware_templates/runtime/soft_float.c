/* SPDX-License-Identifier: Apache-2.0 */
/* Addition, subtraction and multiplication of floats for cores with only the base Thumb instructions: the functions
 * that compilers call for +, - and *, bit-identical to those of their libraries.
 *
 * Sums of normal numbers and zeros, and products of normal numbers, are computed in assembly. Operands that are
 * infinite, NaN or below 2^-126, or results that may be, are handled in C, which is correct for all pairs. Weak
 * symbols: functions of the same name in a program take precedence. */
#include "soft_float.h"

#if (defined __thumb__ && !defined __thumb2__) || defined POET_SOFT_FLOAT_IN_C

enum { SPECIAL = 255, BIAS = 127 }; /* the exponent of infinities and NaN, and of 1 */

static const uint32_t sign_bit = 0x80000000u;
static const uint32_t hidden_bit = 0x800000u;
static const uint32_t quiet_bit = 0x400000u;
static const uint32_t infinity = 0x7f800000u;

/* mantissa * 2^(exponent - 127 - 31), where its last bit stands for all that is lost below it. */
static uint32_t rounded(uint32_t sign, int32_t exponent, uint32_t mantissa)
{
    for (; mantissa >> 31 == 0u; exponent--) {
        mantissa <<= 1;
    }
    for (; exponent < 1 && mantissa > 1u; exponent++) {
        mantissa = mantissa >> 1 | (mantissa & 1u);
    }
    if (exponent >= SPECIAL) {
        return sign | infinity;
    }
    const uint32_t lost = mantissa & 0xffu;
    mantissa >>= 8;
    mantissa += lost > 128u || (lost == 128u && (mantissa & 1u) != 0u) ? 1u : 0u;
    /* the hidden bit is the exponent's last, and none below 2^-126 */
    return sign | (mantissa + (exponent > 1 ? (uint32_t)(exponent - 1) << 23 : 0u));
}

/* The exponent of a number, and its mantissa with the hidden bit where it has one. */
static int32_t unpacked(uint32_t bits, uint32_t *mantissa)
{
    const int32_t exponent = (int32_t)(bits << 1 >> 24);
    *mantissa = (bits & (hidden_bit - 1u)) | (exponent > 0 ? hidden_bit : 0u);
    return exponent > 0 ? exponent : 1;
}

/* Of NaN and anything. */
static uint32_t not_a_number(uint32_t a, uint32_t b)
{
    return ((a & ~sign_bit) > infinity ? a : b) | quiet_bit;
}

uint32_t poet_product_bits(uint32_t a, uint32_t b)
{
    const uint32_t sign = (a ^ b) & sign_bit;
    const uint32_t x = a & ~sign_bit;
    const uint32_t y = b & ~sign_bit;
    if (x > infinity || y > infinity) {
        return not_a_number(a, b);
    }
    if (x == 0u || y == 0u) {
        return x == infinity || y == infinity ? infinity | quiet_bit : sign;
    }
    if (x == infinity || y == infinity) {
        return sign | infinity;
    }
    uint32_t p;
    uint32_t q;
    int32_t exponent = unpacked(x, &p) + unpacked(y, &q) - BIAS;
    for (; p < hidden_bit; exponent--) {
        p <<= 1;
    }
    for (; q < hidden_bit; exponent--) {
        q <<= 1;
    }
    /* 48 bits as 24 times 8, 8 and 8: the upper 32 of them, and whether any other is set */
    const uint32_t low = p * (q & 0xffu);
    const uint32_t middle = (low >> 8) + p * (q >> 8 & 0xffu);
    const uint32_t high = (middle >> 8) + p * (q >> 16);
    const uint32_t lost = (low | middle) & 0xffu;
    return rounded(sign, exponent + 1, high | (lost != 0u ? 1u : 0u));
}

uint32_t poet_sum_bits(uint32_t a, uint32_t b)
{
    if ((a & ~sign_bit) < (b & ~sign_bit)) {
        const uint32_t larger = b;
        b = a;
        a = larger;
    }
    const uint32_t x = a & ~sign_bit;
    const uint32_t y = b & ~sign_bit;
    const uint32_t sign = a & sign_bit;
    const int differ = ((a ^ b) & sign_bit) != 0u;
    if (x >= infinity) {
        return x > infinity ? not_a_number(a, b) : y == infinity && differ ? x | quiet_bit : a;
    }
    uint32_t p;
    uint32_t q;
    const int32_t exponent = unpacked(x, &p);
    const int32_t less = exponent - unpacked(y, &q);
    p <<= 7;
    q <<= 7;
    const uint32_t aligned = less < 32 ? q >> less : 0u;
    const uint32_t lost = less < 32 ? q - (aligned << less) : q;
    const uint32_t sum = differ ? p - aligned - (lost != 0u ? 1u : 0u) : p + aligned;
    if (sum == 0u) {
        return a & b & sign_bit; /* -0 is the sum of two only */
    }
    return rounded(sign, exponent + 1, sum | (lost != 0u ? 1u : 0u));
}

#endif
