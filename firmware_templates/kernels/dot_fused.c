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
    SPECIAL = 255, /* the exponent of infinities and NaN; 0 is that of zero and what is close to it */
    ORIGIN = 2 * 127 + 2 * 23 - 18, /* of two floats' exponents added, for 30 bits of 48 */
};

/* Adds the products of the middle and the inner axis. Below in C and, as the inner loop is all that takes time, in
 * the assembly of cores that have only Thumb's first instructions. */
void poet_dot_add_plane(struct total *total, const struct poet_dot *dot, const float *a, const float *b);

/* Adds a product that is not of two ordinary numbers. The assembly calls it, which no linker sees that looks at C. */
__attribute__((used)) void poet_dot_add_rest(struct total *total, const float *a, const float *b);

void poet_dot_add_rest(struct total *total, const float *a, const float *b)
{
    total->rest += *a * *b;
}

#if defined __thumb__ && !defined __thumb2__

/* r0, r1   the factors' addresses           r8, r9   bytes to the next ones
 * r6, r11  the sum's mantissa and exponent  r12      r0 at the end of the row
 * r7       a mantissa's hidden bit          r10, lr  the product's sign and exponent
 * sp       total, dot, the addresses of the row's factors, rows left */
__asm__("   .pushsection .text.poet_dot_add_plane, \"ax\", %progbits\n"
        "   .syntax unified\n"
        "   .thumb\n"
        "   .p2align 2\n"
        "   .global poet_dot_add_plane\n"
        "   .type poet_dot_add_plane, %function\n"
        "   .thumb_func\n"
        "poet_dot_add_plane:\n"
        "   push    {r4-r7, lr}\n"
        "   mov     r4, r8\n"
        "   mov     r5, r9\n"
        "   mov     r6, r10\n"
        "   mov     r7, r11\n"
        "   push    {r4-r7}\n"
        "   ldr     r4, [r1, #12]       @ middle.count\n"
        "   sub     sp, #20\n"
        "   str     r4, [sp, #16]\n"
        "   str     r3, [sp, #12]\n"
        "   str     r2, [sp, #8]\n"
        "   str     r1, [sp, #4]\n"
        "   str     r0, [sp, #0]\n"
        "   ldr     r6, [r0, #0]\n"
        "   ldr     r4, [r0, #4]\n"
        "   mov     r11, r4\n"
        "   ldr     r4, [r1, #28]       @ inner.a_next\n"
        "   lsls    r4, r4, #2\n"
        "   mov     r8, r4\n"
        "   ldr     r4, [r1, #32]       @ inner.b_next\n"
        "   lsls    r4, r4, #2\n"
        "   mov     r9, r4\n"
        "   movs    r7, #1\n"
        "   lsls    r7, r7, #23\n"
        ".Lrow:\n"
        "   ldr     r0, [sp, #8]\n"
        "   ldr     r1, [sp, #12]\n"
        "   ldr     r4, [sp, #4]\n"
        "   ldr     r4, [r4, #24]       @ inner.count\n"
        "   mov     r5, r8\n"
        "   muls    r4, r5, r4\n"
        "   adds    r4, r4, r0\n"
        "   mov     r12, r4\n"
        ".Lproduct:\n"
        "   ldr     r2, [r0]\n"
        "   ldr     r3, [r1]\n"
        "   add     r0, r8\n"
        "   add     r1, r9\n"
        "   lsls    r4, r2, #1          @ both exponents\n"
        "   lsrs    r4, r4, #24\n"
        "   beq     .La_is_zero\n"
        "   lsls    r5, r3, #1\n"
        "   lsrs    r5, r5, #24\n"
        "   beq     .Lb_is_zero\n"
        "   cmp     r4, #255\n"
        "   beq     .Lspecial\n"
        "   cmp     r5, #255\n"
        "   beq     .Lspecial\n"
        "   adds    r4, r4, r5\n"
        "   mov     lr, r4\n"
        "   movs    r4, r2              @ the product's sign, in all bits\n"
        "   eors    r4, r3\n"
        "   asrs    r4, r4, #31\n"
        "   mov     r10, r4\n"
        "   uxtb    r4, r2              @ mantissas: 16 bits and 8 bits of each\n"
        "   uxtb    r5, r3\n"
        "   orrs    r2, r7\n"
        "   orrs    r3, r7\n"
        "   lsls    r2, r2, #8\n"
        "   lsrs    r2, r2, #16\n"
        "   lsls    r3, r3, #8\n"
        "   lsrs    r3, r3, #16\n"
        "   muls    r4, r3, r4\n"
        "   muls    r5, r2, r5\n"
        "   adds    r4, r4, r5\n"
        "   lsrs    r4, r4, #8\n"
        "   muls    r2, r3, r2\n"
        "   adds    r2, r2, r4\n"
        "   lsrs    r2, r2, #2\n"
        "   mov     r4, r10\n"
        "   eors    r2, r4\n"
        "   subs    r2, r2, r4\n"
        "   mov     r3, r11             @ to the larger exponent\n"
        "   mov     r4, lr\n"
        "   subs    r3, r3, r4\n"
        "   blt     .Llarger\n"
        "   cmp     r3, #31\n"
        "   bgt     .Lnext\n"
        "   asrs    r2, r3              @ what is shifted out last is the carry\n"
        "   adcs    r6, r2\n"
        ".Ladded:\n"
        "   lsls    r3, r6, #1          @ of 31 bits?\n"
        "   eors    r3, r6\n"
        "   bmi     .Lcarry\n"
        ".Lnext:\n"
        "   cmp     r0, r12\n"
        "   bne     .Lproduct\n"
        "   ldr     r4, [sp, #4]\n"
        "   ldr     r5, [r4, #16]       @ middle.a_next\n"
        "   lsls    r5, r5, #2\n"
        "   ldr     r0, [sp, #8]\n"
        "   adds    r0, r0, r5\n"
        "   str     r0, [sp, #8]\n"
        "   ldr     r5, [r4, #20]       @ middle.b_next\n"
        "   lsls    r5, r5, #2\n"
        "   ldr     r1, [sp, #12]\n"
        "   adds    r1, r1, r5\n"
        "   str     r1, [sp, #12]\n"
        "   ldr     r4, [sp, #16]\n"
        "   subs    r4, r4, #1\n"
        "   str     r4, [sp, #16]\n"
        "   bne     .Lrow\n"
        "   ldr     r0, [sp, #0]\n"
        "   str     r6, [r0, #0]\n"
        "   mov     r4, r11\n"
        "   str     r4, [r0, #4]\n"
        "   add     sp, #20\n"
        "   pop     {r4-r7}\n"
        "   mov     r8, r4\n"
        "   mov     r9, r5\n"
        "   mov     r10, r6\n"
        "   mov     r11, r7\n"
        "   pop     {r4-r7, pc}\n"
        ".Llarger:\n"
        "   mov     r11, r4\n"
        "   negs    r3, r3\n"
        "   cmp     r3, #31\n"
        "   ble     .Lshift\n"
        "   movs    r3, #31\n"
        ".Lshift:\n"
        "   asrs    r6, r3\n"
        "   adcs    r6, r2\n"
        "   b       .Ladded\n"
        ".Lcarry:\n"
        "   movs    r3, #0\n"
        "   asrs    r6, r6, #1\n"
        "   adcs    r6, r3\n"
        "   movs    r3, #1\n"
        "   add     r11, r3\n"
        "   b       .Lnext\n"
        ".La_is_zero:\n"
        "   lsls    r4, r2, #1\n"
        "   bne     .Lspecial\n"
        "   lsls    r5, r3, #1\n"
        "   lsrs    r5, r5, #24\n"
        "   cmp     r5, #255\n"
        "   bne     .Lnext\n"
        "   b       .Lspecial\n"
        ".Lb_is_zero:\n"
        "   lsls    r5, r3, #1\n"
        "   bne     .Lspecial\n"
        "   cmp     r4, #255\n"
        "   bne     .Lnext\n"
        ".Lspecial:\n"
        "   push    {r0, r1}\n"
        "   mov     r4, r9\n"
        "   subs    r2, r1, r4\n"
        "   mov     r4, r8\n"
        "   subs    r1, r0, r4\n"
        "   ldr     r0, [sp, #8]\n"
        "   mov     r4, r12\n"
        "   bl      poet_dot_add_rest\n"
        "   mov     r12, r4\n"
        "   pop     {r0, r1}\n"
        "   b       .Lnext\n"
        "   .size poet_dot_add_plane, . - poet_dot_add_plane\n"
        "   .popsection\n");

#else

static const uint32_t hidden_bit = 0x800000u;

static uint32_t exponent_of(uint32_t bits)
{
    return bits << 1 >> 24;
}

/* value / 2^places, rounded to the nearest, and up from the middle: the last bit shifted out is added. */
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

/* The nearest float, the even one of two. */
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
