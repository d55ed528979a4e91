/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_blocks.h"

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers leave some of sixteen sums in memory.
 *   r10, r11  source and weight at a tap    r8, r9  of a row    r1, r2  of a channel    r4-r7  what is next of them, bytes
 *   r12  from one to the next    lr  taps left    [sp]  rows, channels left; the totals; fours left, source, weight, bias
 *   s0-s3  four positions    s4-s7  four channels' weights    s8-s15  products    s16-s31  sums */
__asm__(POET_ASSEMBLY
        "   .macro poet_load_four to, from, next\n"
        "   vldr    s\\to, [\\from]\n"
        "   add     r12, \\from, \\next\n"
        "   load_one %\\to+1\n"
        "   add     r12, r12, \\next\n"
        "   load_one %\\to+2\n"
        "   add     r12, r12, \\next\n"
        "   load_one %\\to+3\n"
        "   .endm\n"
        "   .macro load_one to\n"
        "   vldr    s\\to, [r12]\n"
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
        "   .macro poet_put first, second, third, fourth, bias\n"
        "   .irp    sum, \\first, \\second, \\third, \\fourth\n"
        "   add_one \\sum, \\bias\n"
        "   .endr\n"
        "   mov     r12, r3\n"
        "   .irp    sum, \\first, \\second, \\third, \\fourth\n"
        "   vstr    s\\sum, [r12]\n"
        "   add     r12, r12, r4, lsl #2\n"
        "   .endr\n"
        "   add     r3, r3, r5, lsl #2\n"
        "   .endm\n"

        "   poet_function poet_conv2d_blocks_f32\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldrd    r8, r9, [r0, #52]\n" /* fours, bias */
        "   push    {r1, r2, r8, r9}\n"
        "   sub     sp, sp, #72\n"
        "   ldrd    r6, r7, [r0, #28]\n" /* inner.a_next, inner.b_next */
        "   lsls    r6, r6, #2\n"
        "   lsls    r7, r7, #2\n"
        "0: ldrd    r4, r5, [r0, #36]\n" /* source_next, weight_next */
        "   lsls    r4, r4, #2\n"
        "   lsls    r5, r5, #2\n"
        "   ldr     r12, [r0]\n" /* outer.count */
        "   str     r12, [sp, #4]\n"
        "1: movs    lr, #0\n"
        "   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
        "   vmov    s\\sum, lr\n"
        "   .endr\n"
        "   mov     r8, r1\n"
        "   mov     r9, r2\n"
        "   ldr     r12, [r0, #12]\n" /* middle.count */
        "2: str     r12, [sp]\n"
        "   mov     r10, r8\n"
        "   mov     r11, r9\n"
        "   ldr     lr, [r0, #24]\n" /* inner.count */
        "3: poet_load_four 0, r10, r4\n"
        "   poet_load_four 4, r11, r5\n"
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
        "   bne.w   3b\n"
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
        "   add     r10, sp, #8\n"
        "   beq.w   4f\n"
        "   vldmia  r10, {s0-s15}\n"
        "   .irp    sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "   add_one %16+\\sum, \\sum\n"
        "   .endr\n"
        "4: subs    r12, r12, #1\n"
        "   beq.n   5f\n"
        "   str     r12, [sp, #4]\n"
        "   vstmia  r10, {s16-s31}\n"
        "   add     r1, r1, r11, lsl #2\n"
        "   ldr     r12, [r0, #8]\n" /* outer.b_next */
        "   add     r2, r2, r12, lsl #2\n"
        "   b.w     1b\n"
        "5: ldrd    r4, r5, [r0, #44]\n" /* result_next, result_channel */
        "   ldr     r12, [sp, #84]\n"    /* bias */
        "   vldmia  r12, {s0-s3}\n"
        "   poet_put 16, 17, 18, 19, 0\n"
        "   poet_put 20, 21, 22, 23, 1\n"
        "   poet_put 24, 25, 26, 27, 2\n"
        "   poet_put 28, 29, 30, 31, 3\n"
        "   add     r12, sp, #72\n"
        "   ldmia   r12, {r1, r2, r8, r9}\n"
        "   subs    r8, r8, #1\n"
        "   beq.n   6f\n"
        "   ldr     r10, [r0, #40]\n" /* weight_next */
        "   ldr     r11, [r0, #60]\n" /* bias_next */
        "   add     r2, r2, r10, lsl #4\n"
        "   add     r9, r9, r11, lsl #2\n"
        "   stmia   r12, {r1, r2, r8, r9}\n"
        "   b.w     0b\n"
        "6: add     sp, sp, #88\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end poet_conv2d_blocks_f32\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define EACH_OF_FOUR(NAME) _Pragma("GCC unroll 4") for (int32_t NAME = 0; NAME < 4; NAME++)

static inline __attribute__((always_inline)) void
sum_block(const struct poet_blocks *at, const float *source, const float *weight, const float *bias,
          float *result)
{
    const struct poet_dot *walk = &at->walk;
    float totals[4][4] = {{0.0f}};
    for (int32_t channel = 0; channel < walk->outer.count; channel++) {
        float sums[4][4] = {{0.0f}};
        for (int32_t row = 0; row < walk->middle.count; row++) {
            const float *s = source + row * walk->middle.a_next;
            const float *w = weight + row * walk->middle.b_next;
            for (int32_t column = 0; column < walk->inner.count; column++) {
                EACH_OF_FOUR (out) {
                    EACH_OF_FOUR (i) {
                        sums[out][i] += s[i * at->source_next] * w[out * at->weight_next];
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
            result[out * at->result_channel + i * at->result_next] = totals[out][i] + bias[out];
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

#endif
