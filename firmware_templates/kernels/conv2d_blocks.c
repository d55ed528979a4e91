/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_blocks.h"

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers leave some of sixteen sums in memory.
 *   r10, r11  source and weight at a tap    r8, r9  of a row    r2  weight of a channel
 *   r1, r3, r4  elements to the other positions, or r1 = 0 for neighbours
 *   r5  bytes to the next channel's weight    r6, r7  to the next tap of both    r12  one of four    lr  taps left
 *   [sp]  rows, channels left; source of a channel; the totals; source, weight, result, fours left, bias
 *   s0-s3  four positions    s4-s7  four channels' weights    s8-s15  products    s16-s31  sums */
__asm__(POET_ASSEMBLY
        "   .macro poet_load_lanes first, second, third, at\n"
        "   vldr    s0, [r10]\n"
        "   add     \\at, r10, \\first, lsl #2\n"
        "   vldr    s1, [\\at]\n"
        "   add     \\at, r10, \\second, lsl #2\n"
        "   vldr    s2, [\\at]\n"
        "   add     \\at, r10, \\third, lsl #2\n"
        "   vldr    s3, [\\at]\n"
        "   .endm\n"
        /* 0 is no distance to another. Between a first one and its third neighbour no box's order has but the second. */
        "   .macro poet_mark_neighbours first, third\n"
        "   cmp     \\first, #1\n"
        "   it      eq\n"
        "   cmpeq   \\third, #3\n"
        "   it      eq\n"
        "   moveq   \\first, #0\n"
        "   .endm\n"
        "   .macro poet_four_products\n"
        "   vldr    s4, [r11]\n"
        "   add     r10, r10, r7, lsl #2\n"
        "   add     r11, r11, r8, lsl #2\n"
        "   poet_multiply 0, 4\n"
        "   poet_add 8, 0\n"
        "   subs    lr, lr, #1\n"
        "   .endm\n"
        "   .macro poet_load_weights\n"
        "   vldr    s4, [r11]\n"
        "   add     r12, r11, r5\n"
        "   .irp    to, 5, 6, 7\n"
        "   vldr    s\\to, [r12]\n"
        "   .ifnc   \\to, 7\n"
        "   add     r12, r12, r5\n"
        "   .endif\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_multiply to, weight\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\to+\\at, \\at, \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add to, what\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\to+\\at, %\\what+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_store_one sum, to\n"
        "   vstr    s\\sum, [\\to]\n"
        "   .endm\n"
        "   .macro poet_products\n"
        "   poet_load_weights\n"
        "   poet_multiply 8, 4\n"
        "   poet_multiply 12, 5\n"
        "   poet_add 16, 8\n"
        "   poet_add 20, 12\n"
        "   poet_multiply 8, 6\n"
        "   poet_multiply 12, 7\n"
        "   poet_add 24, 8\n"
        "   poet_add 28, 12\n"
        "   add     r10, r10, r6\n"
        "   add     r11, r11, r7\n"
        "   subs    lr, lr, #1\n"
        "   .endm\n"
        "   .macro poet_put first, second, third, fourth, bias\n"
        "   .irp    sum, \\first, \\second, \\third, \\fourth\n"
        "   add_one \\sum, \\bias\n"
        "   .endr\n"
        "   vstr    s\\first, [r8]\n"
        "   add     r12, r8, r9, lsl #2\n"
        "   vstr    s\\second, [r12]\n"
        "   add     r12, r8, r10, lsl #2\n"
        "   vstr    s\\third, [r12]\n"
        "   add     r12, r8, r11, lsl #2\n"
        "   vstr    s\\fourth, [r12]\n"
        "   add     r8, r8, lr, lsl #2\n"
        "   .endm\n"

        "   poet_function poet_conv2d_blocks_f32\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldrd    r8, r9, [r0, #44]\n" /* fours, bias */
        "   push    {r1, r2, r3, r8, r9}\n"
        "   sub     sp, sp, #76\n"
        "   ldrd    r6, r7, [r0, #28]\n" /* inner.a_next, inner.b_next */
        "   lsls    r6, r6, #2\n"
        "   lsls    r7, r7, #2\n"
        "   ldr     r12, [r0, #56]\n" /* lanes */
        "   ldmia   r12, {r1, r3, r4}\n"
        "   poet_mark_neighbours r1, r4\n"
        "   ldr     r5, [r0, #36]\n" /* weight_next */
        "   lsls    r5, r5, #2\n"
        "0: ldr     r12, [r0]\n" /* outer.count */
        "   ldr     r8, [sp, #76]\n"
        "   str     r12, [sp, #4]\n"
        "1: str     r8, [sp, #8]\n"
        "   movs    lr, #0\n"
        "   vmov    s16, lr\n"
        "   .irp    sum, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
        "   vmov.f32 s\\sum, s16\n"
        "   .endr\n"
        "   mov     r9, r2\n"
        "   ldr     r12, [r0, #12]\n" /* middle.count */
        "2: str     r12, [sp]\n"
        "   mov     r10, r8\n"
        "   mov     r11, r9\n"
        "   ldr     lr, [r0, #24]\n" /* inner.count */
        "   cmp     r1, #0\n"
        "   beq.w   8f\n"
        "3: poet_load_lanes r1, r3, r4, r12\n"
        "   poet_products\n"
        "   bne.w   3b\n"
        "4:\n"
        "   ldrd    r10, r11, [r0, #16]\n" /* middle.a_next, middle.b_next */
        "   add     r8, r8, r10, lsl #2\n"
        "   add     r9, r9, r11, lsl #2\n"
        "   ldr     r12, [sp]\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        /* but for the first channel, the totals so far */
        "   ldrd    r10, r11, [r0]\n" /* outer.count, outer.a_next */
        "   ldr     r12, [sp, #4]\n"
        "   cmp     r12, r10\n"
        "   add     r10, sp, #12\n"
        "   beq.w   5f\n"
        "   vldmia  r10, {s0-s15}\n"
        "   .irp    sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "   add_one %16+\\sum, \\sum\n"
        "   .endr\n"
        "5: subs    r12, r12, #1\n"
        "   beq.n   6f\n"
        "   str     r12, [sp, #4]\n"
        "   vstmia  r10, {s16-s31}\n"
        "   ldr     r8, [sp, #8]\n"
        "   add     r8, r8, r11, lsl #2\n"
        "   ldr     r12, [r0, #8]\n" /* outer.b_next */
        "   add     r2, r2, r12, lsl #2\n"
        "   b.w     1b\n"
        "6: ldr     r12, [sp, #92]\n" /* bias */
        "   vldmia  r12, {s0-s3}\n"
        "   ldr     r12, [r0, #56]\n"
        "   add     r12, r12, #12\n" /* lanes' results */
        "   ldmia   r12, {r9, r10, r11}\n"
        "   ldr     r8, [sp, #84]\n"
        "   ldr     lr, [r0, #40]\n" /* result_channel */
        "   poet_put 16, 17, 18, 19, 0\n"
        "   poet_put 20, 21, 22, 23, 1\n"
        "   poet_put 24, 25, 26, 27, 2\n"
        "   poet_put 28, 29, 30, 31, 3\n"
        "   add     r12, sp, #80\n"
        "   ldmia   r12, {r2, r9, r10, r11}\n" /* weight, result, fours, bias */
        "   subs    r10, r10, #1\n"
        "   beq.n   7f\n"
        "   ldr     r9, [r0, #52]\n" /* bias_next */
        "   add     r2, r2, r5, lsl #2\n"
        "   add     r11, r11, r9, lsl #2\n"
        "   mov     r9, r8\n"
        "   stmia   r12, {r2, r9, r10, r11}\n"
        "   b.w     0b\n"
        "7: add     sp, sp, #96\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "8: vldmia  r10, {s0-s3}\n"
        "   poet_products\n"
        "   bne.w   8b\n"
        "   b.w     4b\n"
        "   poet_function_end poet_conv2d_blocks_f32\n"

        /* r10, r11  a and b at a tap    r1, r2  of a row    r4-r6  as r1, r3, r4 above    r7, r8  elements to the next tap
         * r12, lr  rows, taps left    [sp]  a and b of a channel, channels left, the lanes' results
         * s0-s3  four of a    s4  b    s8-s11  sums    s12-s15  totals */
        "   poet_function poet_conv2d_four_f32\n"
        "   push    {r4-r11, lr}\n"
        "   sub     sp, sp, #16\n"
        "   ldmia   r3!, {r4-r6}\n"
        "   str     r3, [sp, #12]\n"
        "   poet_mark_neighbours r4, r6\n"
        "   ldrd    r7, r8, [r0, #28]\n"
        "   movs    lr, #0\n"
        "   vmov    s12, lr\n"
        "   .irp    sum, 13, 14, 15\n"
        "   vmov.f32 s\\sum, s12\n"
        "   .endr\n"
        "   ldr     r3, [r0]\n" /* outer.count */
        "1: stmia   sp, {r1-r3}\n"
        "   movs    lr, #0\n"
        "   vmov    s8, lr\n"
        "   .irp    sum, 9, 10, 11\n"
        "   vmov.f32 s\\sum, s8\n"
        "   .endr\n"
        "   ldr     r12, [r0, #12]\n" /* middle.count */
        "2: mov     r10, r1\n"
        "   mov     r11, r2\n"
        "   ldr     lr, [r0, #24]\n" /* inner.count */
        "   cmp     r4, #0\n"
        "   beq.n   8f\n"
        "3: poet_load_lanes r4, r5, r6, r9\n"
        "   poet_four_products\n"
        "   bne.n   3b\n"
        "4:\n"
        "   ldrd    r10, r11, [r0, #16]\n" /* middle.a_next, middle.b_next */
        "   add     r1, r1, r10, lsl #2\n"
        "   add     r2, r2, r11, lsl #2\n"
        "   subs    r12, r12, #1\n"
        "   bne.n   2b\n"
        "   poet_add 12, 8\n"
        "   ldmia   sp, {r1-r3}\n"
        "   ldrd    r10, r11, [r0, #4]\n" /* outer.a_next, outer.b_next */
        "   add     r1, r1, r10, lsl #2\n"
        "   add     r2, r2, r11, lsl #2\n"
        "   subs    r3, r3, #1\n"
        "   bne.n   1b\n"
        "   ldrd    r1, r2, [sp, #52]\n" /* bias, result */
        "   vldr    s0, [r1]\n"
        "   ldr     r3, [sp, #12]\n"
        "   ldmia   r3, {r4-r6}\n" /* lanes' results */
        "   .irp    sum, 12, 13, 14, 15\n"
        "   add_one \\sum, 0\n"
        "   .endr\n"
        "   vstr    s12, [r2]\n"
        "   .irp    lane, 4, 5, 6\n"
        "   add     r12, r2, r\\lane, lsl #2\n"
        "   poet_store_one %9+\\lane, r12\n"
        "   .endr\n"
        "   add     sp, sp, #16\n"
        "   pop     {r4-r11, pc}\n"
        "8: vldmia  r10, {s0-s3}\n"
        "   poet_four_products\n"
        "   bne.n   8b\n"
        "   b.n     4b\n"
        "   poet_function_end poet_conv2d_four_f32\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define EACH_OF_FOUR(NAME) _Pragma("GCC unroll 4") for (int32_t NAME = 0; NAME < 4; NAME++)

static inline __attribute__((always_inline)) void
sum_block(const struct poet_blocks *at, const float *source, const float *weight, const float *bias,
          float *result)
{
    const struct poet_dot *walk = &at->walk;
    const struct poet_lanes *lanes = at->lanes;
    float totals[4][4] = {{0.0f}};
    for (int32_t channel = 0; channel < walk->outer.count; channel++) {
        float sums[4][4] = {{0.0f}};
        for (int32_t row = 0; row < walk->middle.count; row++) {
            const float *s = source + row * walk->middle.a_next;
            const float *w = weight + row * walk->middle.b_next;
            for (int32_t column = 0; column < walk->inner.count; column++) {
                EACH_OF_FOUR (out) {
                    EACH_OF_FOUR (i) {
                        sums[out][i] +=
                            s[i > 0 ? lanes->apart[i - 1] : 0] * w[out * at->weight_next];
                    }
                }
                s += walk->inner.a_next;
                w += walk->inner.b_next;
            }
        }
        EACH_OF_FOUR (out) {
            EACH_OF_FOUR (i) {
                totals[out][i] += sums[out][i];
            }
        }
        source += walk->outer.a_next;
        weight += walk->outer.b_next;
    }
    EACH_OF_FOUR (out) {
        EACH_OF_FOUR (i) {
            float *to = result + out * at->result_channel;
            to[i > 0 ? lanes->result[i - 1] : 0] = totals[out][i] + bias[out];
        }
    }
}

void poet_conv2d_blocks_f32(const struct poet_blocks *at, const float *source, const float *weight,
                            float *result)
{
    for (int32_t four = 0; four < at->fours; four++) {
        sum_block(at, source, weight + 4 * four * at->weight_next, at->bias + four * at->bias_next,
                  result + 4 * four * at->result_channel);
    }
}

void poet_conv2d_four_f32(const struct poet_dot *walk, const float *a, const float *b,
                          const struct poet_lanes *lanes, const float *bias, float *result)
{
    float totals[4] = {0.0f};
    for (int32_t channel = 0; channel < walk->outer.count; channel++) {
        float sums[4] = {0.0f};
        for (int32_t row = 0; row < walk->middle.count; row++) {
            const float *four = a + row * walk->middle.a_next;
            const float *same = b + row * walk->middle.b_next;
            for (int32_t column = 0; column < walk->inner.count; column++) {
                EACH_OF_FOUR (i) {
                    sums[i] += four[i > 0 ? lanes->apart[i - 1] : 0] * *same;
                }
                four += walk->inner.a_next;
                same += walk->inner.b_next;
            }
        }
        EACH_OF_FOUR (i) {
            totals[i] += sums[i];
        }
        a += walk->outer.a_next;
        b += walk->outer.b_next;
    }
    EACH_OF_FOUR (i) {
        result[i > 0 ? lanes->result[i - 1] : 0] = totals[i] + *bias;
    }
}

#endif
