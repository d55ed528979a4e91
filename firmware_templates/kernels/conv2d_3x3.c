/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_3x3.h"

#include <stdbool.h>

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers join no loads of floats, and here all registers hold some:
 *   s0-s5    a row of the source, 0 where it is padding    s8-s10, s11-s13  a row of weights of either channel
 *   s16-s23  a channel's sums                              s24-s31          totals
 *   s6, s7, s14, s15  products */
__asm__("   .syntax unified\n"
        "   .thumb\n"
        "   .altmacro\n"

        "   .macro multiply_one to, source, weight\n"
        "   vmul.f32 s\\to, s\\source, s\\weight\n"
        "   .endm\n"
        "   .macro add_one to, what\n"
        "   vadd.f32 s\\to, s\\to, s\\what\n"
        "   .endm\n"

        "   .macro poet_multiply to, source, weight\n"
        "   multiply_one %\\to, %\\source, \\weight\n"
        "   multiply_one %\\to+1, %\\source+1, \\weight\n"
        "   multiply_one %\\to+2, %\\source+2, \\weight\n"
        "   multiply_one %\\to+3, %\\source+3, \\weight\n"
        "   .endm\n"

        "   .macro poet_add to, source, weight\n"
        "   multiply_one 6, %\\source, \\weight\n"
        "   multiply_one 7, %\\source+1, \\weight\n"
        "   multiply_one 14, %\\source+2, \\weight\n"
        "   multiply_one 15, %\\source+3, \\weight\n"
        "   add_one %\\to, 6\n"
        "   add_one %\\to+1, 7\n"
        "   add_one %\\to+2, 14\n"
        "   add_one %\\to+3, 15\n"
        "   .endm\n"

        /* The products of one row of the kernel, whose taps meet the source from these columns on. */
        "   .macro poet_row begin, first, second, third\n"
        "   vldmia  r1, {s1-s4}\n"
        "   it      pl\n"
        "   vldrpl  s0, [r1, #-4]\n"
        "   it      cc\n"
        "   vldrcc  s5, [r1, #16]\n"
        "   vldmia  r2!, {s8-s10}\n"
        "   vldmia  r7!, {s11-s13}\n"
        "   poet_\\begin 16, \\first, 8\n"
        "   poet_\\begin 20, \\first, 11\n"
        "   poet_add 16, \\second, 9\n"
        "   poet_add 20, \\second, 12\n"
        "   poet_add 16, \\third, 10\n"
        "   poet_add 20, \\third, 13\n"
        "   .endm\n"

        "   .macro poet_strip name, first, second, third\n"
        "   .pushsection .text.\\name, \"ax\", %progbits\n"
        "   .p2align 2\n"
        "   .global \\name\n"
        "   .type   \\name, %function\n"
        "   .thumb_func\n"
        "\\name:\n"
        "   push    {r4-r8, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0!, {r4-r8, r12}\n"
        "   add     r7, r2, r7, lsl #2\n"
        "   movs    lr, #0\n"
        "   vmov    s0, lr\n"
        "   vmov    s5, lr\n"
        "   .irp    total, 24, 25, 26, 27, 28, 29, 30, 31\n"
        "   vmov.f32 s\\total, s0\n"
        "   .endr\n"
        "1: msr     APSR_nzcvq, r12\n"
        "   poet_row multiply, \\first, \\second, \\third\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_row add, \\first, \\second, \\third\n"
        "   beq.w   2f\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_row add, \\first, \\second, \\third\n"
        "2:\n"
        "   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   add_one %8+\\sum, \\sum\n"
        "   .endr\n"
        "   add     r1, r1, r5, lsl #2\n"
        "   add     r2, r2, r6, lsl #2\n"
        "   add     r7, r7, r6, lsl #2\n"
        "   subs    r8, r8, #1\n"
        "   bne.w   1b\n"
        "   vldmia  r0!, {s0-s1}\n"
        "   ldr     r0, [r0]\n"
        "   .irp    total, 24, 25, 26, 27\n"
        "   add_one \\total, 0\n"
        "   add_one %4+\\total, 1\n"
        "   .endr\n"
        "   vstmia  r3, {s24-s27}\n"
        "   add     r3, r3, r0, lsl #2\n"
        "   vstmia  r3, {s28-s31}\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r8, pc}\n"
        "   .size   \\name, . - \\name\n"
        "   .popsection\n"
        "   .endm\n"

        "   poet_strip poet_conv2d_strip_f32, 0, 1, 2\n"
        "   poet_strip poet_conv2d_strip_backwards_f32, 2, 1, 0\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
static inline __attribute__((always_inline)) void
sum_strip(const struct poet_strip *strip, const float *source, const float *weight, float *result, bool backwards)
{
    const int32_t rows = (strip->edges & POET_TWO_ROWS) != 0u ? 2 : 3;
    const bool left = (strip->edges & POET_LEFT_EDGE) != 0u;
    const bool right = (strip->edges & POET_RIGHT_EDGE) != 0u;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strip->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = 0; row < rows; row++) {
            const float columns[] = {left ? 0.0f : source[-1], source[0], source[1], source[2], source[3],
                                     right ? 0.0f : source[4]};
            for (int32_t tap = 0; tap < 3; tap++) {
                for (int32_t i = 0; i < POET_STRIP; i++) {
                    const float met = columns[i + (backwards ? 2 - tap : tap)];
                    sums[0][i] += met * weight[tap];
                    sums[1][i] += met * weight[strip->weight_other + tap];
                }
            }
            weight += 3;
            source += row + 1 < rows ? strip->row_next : strip->channel_next;
        }
        for (int32_t i = 0; i < POET_STRIP; i++) {
            totals[0][i] += sums[0][i];
            totals[1][i] += sums[1][i];
        }
        weight += strip->weight_next;
    }
    for (int32_t i = 0; i < POET_STRIP; i++) {
        result[i] = totals[0][i] + strip->bias[0];
        result[strip->result_other + i] = totals[1][i] + strip->bias[1];
    }
}

void poet_conv2d_strip_f32(const struct poet_strip *strip, const float *source, const float *weight, float *result)
{
    sum_strip(strip, source, weight, result, false);
}

void poet_conv2d_strip_backwards_f32(const struct poet_strip *strip, const float *source, const float *weight,
                                     float *result)
{
    sum_strip(strip, source, weight, result, true);
}

#endif
