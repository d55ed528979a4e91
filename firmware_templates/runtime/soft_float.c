/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, differences and products of floats for cores that have only Thumb's first instructions: the functions that
 * compilers call for +, - and *, to the same bits as their library's.
 *
 * Sums of ordinary numbers and zeros, and products of ordinary numbers, are taken in assembly. All others, which have
 * infinities, NaN or numbers below 2^-126 in them, or might come to such, are taken in C, which holds for every pair.
 * Weak: a program that has these functions of its own keeps them. */
#include <stdint.h>

#if (defined __thumb__ && !defined __thumb2__) || defined POET_SOFT_FLOAT_IN_C

/* The bits of a + b and of a * b, to the nearest float, the even one of two. The assembly calls them, which no linker
 * sees that looks at C. */
__attribute__((used)) uint32_t poet_sum_bits(uint32_t a, uint32_t b);
__attribute__((used)) uint32_t poet_product_bits(uint32_t a, uint32_t b);

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

#if defined __thumb__ && !defined __thumb2__

/* A result's mantissa has 31 or 32 bits before it is rounded to 24: what is shifted out last is the carry, which is
 * added. Only where all bits below that one are 0 do those matter that were lost before, and which of two is even.
 *
 *            sum                                     product
 * r0, r1     the larger, the smaller number          a mantissa, the other's highest bits
 * r2         the result's sign and exponent          the same, less one
 * r3         places between the mantissas            a mantissa's hidden bit
 * r4         the smaller one's mantissa, shifted     the product
 * r5         a mantissa's hidden bit                 the other mantissa's middle bits */
__asm__("   .pushsection .text.poet_soft_float, \"ax\", %progbits\n"
        "   .syntax unified\n"
        "   .thumb\n"
        "   .p2align 2\n"
        "   .weak __aeabi_fsub\n"
        "   .type __aeabi_fsub, %function\n"
        "   .thumb_func\n"
        "__aeabi_fsub:\n"
        "   movs    r2, #1\n"
        "   lsls    r2, r2, #31\n"
        "   eors    r1, r2\n"
        "   .weak __aeabi_fadd\n"
        "   .type __aeabi_fadd, %function\n"
        "   .thumb_func\n"
        "__aeabi_fadd:\n"
        "   push    {r4, r5, lr}\n"
        "   movs    r4, r0\n"
        "   eors    r4, r1\n"
        "   lsls    r2, r0, #1\n"
        "   lsls    r3, r1, #1\n"
        "   cmp     r2, r3\n"
        "   bhs     .Lordered\n"
        "   eors    r0, r4              @ exchanged: the larger one is r0\n"
        "   eors    r1, r4\n"
        "   lsls    r2, r0, #1\n"
        "   lsls    r3, r1, #1\n"
        ".Lordered:\n"
        "   lsrs    r3, r3, #24         @ exponents\n"
        "   beq     .Lsum_with_zero\n"
        "   lsrs    r2, r2, #24\n"
        "   cmp     r2, #254\n"
        "   bhs     .Lsum_in_c\n"
        "   subs    r3, r2, r3\n"
        "   asrs    r4, r4, #31         @ whether signs differ, in all bits\n"
        "   lsrs    r2, r0, #23\n"
        "   lsls    r2, r2, #23\n"
        "   movs    r5, #128\n"
        "   lsls    r5, r5, #16\n"
        "   orrs    r0, r5              @ mantissas of 31 bits\n"
        "   lsls    r0, r0, #8\n"
        "   lsrs    r0, r0, #1\n"
        "   orrs    r1, r5\n"
        "   lsls    r1, r1, #8\n"
        "   lsrs    r1, r1, #1\n"
        "   eors    r1, r4\n"
        "   subs    r1, r1, r4\n"
        "   movs    r4, r1\n"
        "   asrs    r4, r3\n"
        "   adds    r0, r0, r4\n"
        "   bmi     .Lsum_of_32\n"
        "   lsls    r4, r0, #1\n"
        "   bpl     .Lcancelled\n"
        ".Lsum_of_31:\n"
        "   lsls    r4, r0, #26\n"
        "   beq     .Lsum_of_even\n"
        "   lsrs    r0, r0, #7\n"
        "   adcs    r0, r2\n"
        "   subs    r0, r0, r5\n"
        "   pop     {r4, r5, pc}\n"
        ".Lsum_of_32:\n"
        "   lsls    r4, r0, #25\n"
        "   beq     .Lsum_of_even_32\n"
        "   lsrs    r0, r0, #8\n"
        "   adcs    r0, r2\n"
        "   pop     {r4, r5, pc}\n"
        ".Lcancelled:\n"
        "   cmp     r0, #0\n"
        "   beq     .Lsum_done\n"
        "   lsls    r4, r2, #1          @ not below an exponent of 1\n"
        "   lsrs    r4, r4, #24\n"
        "   lsls    r0, r0, #1\n"
        ".Lshift:\n"
        "   subs    r4, r4, #1\n"
        "   beq     .Lshifted\n"
        "   subs    r2, r2, r5\n"
        "   adds    r0, r0, r0\n"
        "   bpl     .Lshift\n"
        ".Lshifted:\n"
        "   lsrs    r0, r0, #1\n"
        "   b       .Lsum_of_31\n"
        ".Lsum_of_even_32:\n"
        "   adds    r2, r2, r5\n"
        "   lsrs    r0, r0, #1\n"
        ".Lsum_of_even:\n"
        "   lsrs    r0, r0, #7\n"
        "   bcc     .Lsum_packed\n"
        "   movs    r4, #32             @ what was lost of r1\n"
        "   subs    r4, r4, r3\n"
        "   lsls    r1, r4\n"
        "   bne     .Lsum_up\n"
        "   lsrs    r4, r0, #1\n"
        "   bcc     .Lsum_packed\n"
        ".Lsum_up:\n"
        "   adds    r0, r0, #1\n"
        ".Lsum_packed:\n"
        "   adds    r0, r0, r2\n"
        "   subs    r0, r0, r5\n"
        ".Lsum_done:\n"
        "   pop     {r4, r5, pc}\n"
        ".Lsum_with_zero:\n"
        "   lsls    r3, r1, #1\n"
        "   bne     .Lsum_in_c\n"
        "   cmp     r2, #0\n"
        "   bne     .Lsum_done\n"
        "   ands    r0, r1              @ -0 of two only\n"
        "   pop     {r4, r5, pc}\n"
        ".Lsum_in_c:\n"
        "   sub     sp, #4\n"
        "   bl      poet_sum_bits\n"
        "   add     sp, #4\n"
        "   pop     {r4, r5, pc}\n"
        "   .weak __aeabi_fmul\n"
        "   .type __aeabi_fmul, %function\n"
        "   .thumb_func\n"
        "__aeabi_fmul:\n"
        "   push    {r4, r5, lr}\n"
        "   lsrs    r2, r0, #23         @ signs and exponents; exponents less 1\n"
        "   uxtb    r4, r2\n"
        "   subs    r4, r4, #1\n"
        "   cmp     r4, #254\n"
        "   bhs     .Lproduct_in_c\n"
        "   lsrs    r3, r1, #23\n"
        "   uxtb    r5, r3\n"
        "   subs    r5, r5, #1\n"
        "   cmp     r5, #254\n"
        "   bhs     .Lproduct_in_c\n"
        "   adds    r4, r4, r5\n"
        "   subs    r4, r4, #126\n"
        "   cmp     r4, #253\n"
        "   bhs     .Lproduct_in_c\n"
        "   adds    r2, r2, r3\n"
        "   subs    r2, r2, #128\n"
        "   lsls    r2, r2, #23\n"
        "   mov     r12, r1\n"
        "   movs    r3, #128\n"
        "   lsls    r3, r3, #16\n"
        "   orrs    r0, r3              @ a mantissa of 24 bits; of the other 8, 8 and 8\n"
        "   lsls    r0, r0, #8\n"
        "   lsrs    r0, r0, #8\n"
        "   uxtb    r4, r1\n"
        "   lsrs    r5, r1, #8\n"
        "   uxtb    r5, r5\n"
        "   orrs    r1, r3\n"
        "   lsls    r1, r1, #8\n"
        "   lsrs    r1, r1, #24\n"
        "   muls    r4, r0\n"
        "   lsrs    r4, r4, #8\n"
        "   muls    r5, r0\n"
        "   adds    r4, r4, r5\n"
        "   lsrs    r4, r4, #8\n"
        "   muls    r1, r0\n"
        "   adds    r4, r4, r1\n"
        "   bmi     .Lproduct_of_32\n"
        "   lsls    r1, r4, #26\n"
        "   beq     .Lproduct_of_even\n"
        "   lsrs    r0, r4, #7\n"
        "   adcs    r0, r2\n"
        "   pop     {r4, r5, pc}\n"
        ".Lproduct_of_32:\n"
        "   lsls    r1, r4, #25\n"
        "   beq     .Lproduct_of_even_32\n"
        "   lsrs    r0, r4, #8\n"
        "   adcs    r0, r2\n"
        "   adds    r0, r0, r3\n"
        "   pop     {r4, r5, pc}\n"
        ".Lproduct_of_even_32:\n"
        "   adds    r2, r2, r3\n"
        "   lsrs    r4, r4, #1\n"
        ".Lproduct_of_even:\n"
        "   lsrs    r4, r4, #7\n"
        "   bcc     .Lproduct_packed\n"
        "   mov     r1, r12             @ what was lost of 48 bits\n"
        "   muls    r1, r0\n"
        "   lsls    r1, r1, #16\n"
        "   bne     .Lproduct_up\n"
        "   lsrs    r1, r4, #1\n"
        "   bcc     .Lproduct_packed\n"
        ".Lproduct_up:\n"
        "   adds    r4, r4, #1\n"
        ".Lproduct_packed:\n"
        "   adds    r0, r4, r2\n"
        "   pop     {r4, r5, pc}\n"
        ".Lproduct_in_c:\n"
        "   sub     sp, #4\n"
        "   bl      poet_product_bits\n"
        "   add     sp, #4\n"
        "   pop     {r4, r5, pc}\n"
        "   .popsection\n");

#endif
