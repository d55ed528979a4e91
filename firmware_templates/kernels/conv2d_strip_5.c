/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_strip_5.h"

#include <stdbool.h>

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c: lists of registers are loaded at once, and sums stay in theirs.
 *   by 1:  s0-s7 columns of the source, s8-s12 a row of weights, s13-s15 products, s16-s19 and s20-s23 a channel's sums of
 *          the upper and the lower strip, s24-s31 totals
 *   by 2:  s0-s10, s11-s15, s24-s26, s16-s23; totals on the stack
 *   dX of that: s0-s5, s6-s10, s11-s13, s16-s23, s24-s31
 *   dW: s0-s6 columns of x, s7-s8 gradients, s9-s11 products, s12-s31 a row's sums */
__asm__(POET_ASSEMBLY POET_STRIP_ASSEMBLY
        /* A weight's products with four columns, `step` apart, for four sums, `apart`. */
        "   .macro poet_add to, apart, source, step, weight, product\n"
        "   multiply_one %\\product, %\\source, %\\weight\n"
        "   multiply_one %\\product+1, %\\source+\\step, %\\weight\n"
        "   multiply_one %\\product+2, %\\source+2*\\step, %\\weight\n"
        "   add_one %\\to, %\\product\n"
        "   multiply_one %\\product, %\\source+3*\\step, %\\weight\n"
        "   add_one %\\to+\\apart, %\\product+1\n"
        "   add_one %\\to+2*\\apart, %\\product+2\n"
        "   add_one %\\to+3*\\apart, %\\product\n"
        "   .endm\n"

        /* A row of the source. */
        "   .macro poet_load_by_1\n"
        "   vldmia  r1!, {s2-s5}\n"
        "   it      pl\n"
        "   vldrpl  d0, [r1, #-24]\n"
        "   it      cc\n"
        "   vldmiacc r1, {s6-s7}\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   .endm\n"
        "   .macro poet_load_by_2\n"
        "   vldmia  r1!, {s2-s8}\n"
        "   it      pl\n"
        "   vldrpl  d0, [r1, #-36]\n"
        "   it      cc\n"
        "   vldrcc  s9, [r1]\n"
        "   it      vc\n"
        "   vldrvc  s10, [r1, #4]\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   .endm\n"

        /* A row of the kernel in one strip: its taps meet these columns. */
        "   .macro poet_row_by_1 weights, to, first, second, third, fourth, fifth\n"
        "   vldmia  \\weights!, {s8-s12}\n"
        "   poet_add \\to, 1, \\first, 1, 8, 13\n"
        "   poet_add \\to, 1, \\second, 1, 9, 13\n"
        "   poet_add \\to, 1, \\third, 1, 10, 13\n"
        "   poet_add \\to, 1, \\fourth, 1, 11, 13\n"
        "   poet_add \\to, 1, \\fifth, 1, 12, 13\n"
        "   .endm\n"
        "   .macro poet_row_by_2 weights, to, columns:vararg\n"
        "   vldmia  \\weights!, {s11-s15}\n"
        "   .irp    at, 0, 1, 2, 3, 4\n"
        "   poet_add \\to, 1, \\at, 2, %11+\\at, 24\n"
        "   .endr\n"
        "   .endm\n"

        /* At the end of a channel. */
        "   .macro poet_begin_by_1\n"
        "   .endm\n"
        "   .macro poet_begin_pair_by_1\n"
        "   .endm\n"
        "   .macro poet_end_by_1\n"
        "   .endm\n"
        "   .macro poet_total_by_1\n"
        "   poet_add_totals\n"
        "   .endm\n"
        "   .macro poet_begin_by_2\n"
        "   poet_clear 9\n"
        "   sub     sp, sp, #32\n"
        "   .endm\n"
        "   .macro poet_begin_pair_by_2\n"
        "   vstmia  sp, {s24-s31}\n"
        "   .endm\n"
        "   .macro poet_end_by_2\n"
        "   add     sp, sp, #32\n"
        "   .endm\n"
        "   .macro poet_total_by_2\n"
        "   vldmia  sp, {s24-s31}\n"
        "   poet_add_totals\n"
        "   vstmia  sp, {s24-s31}\n"
        "   .endm\n"

        /* Two registers. */
        "   .macro poet_clear_two to, too\n"
        "   vmov    s\\to, s\\too, lr, lr\n"
        "   .endm\n"
        "   .macro poet_clear first\n"
        "   poet_clear_two \\first, %1+\\first\n"
        "   .endm\n"
        "   .macro poet_next what, field\n"
        "   ldr     lr, [r0, #\\field]\n"
        "   add     \\what, \\what, lr, lsl #2\n"
        "   .endm\n"

        /* r1  source    r2, r7  weights of the upper and the lower strip    r3  result    r4  row_next    r5  pairs left
         * r6  bias    r8  channels left    r9, r10, r11  rows of the upper strip, of both, of the lower    r12  edges
         * lr  rows left */
        "   .macro poet_strips name, by, columns:vararg\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0!, {r4-r12}\n"
        "   add     r7, r2, r7, lsl #2\n"
        "   movs    lr, #0\n"
        "   poet_clear 0\n"
        "   poet_clear 6\n"
        "   poet_begin_\\by\n"
        "0:\n"
        "   .irp    first, 24, 26, 28, 30\n"
        "   poet_clear \\first\n"
        "   .endr\n"
        "   poet_begin_pair_\\by\n"
        "1: movs    lr, #0\n"
        "   .irp    first, 16, 18, 20, 22\n"
        "   poet_clear \\first\n"
        "   .endr\n"
        "   movs    lr, r9\n"
        "   beq.w   3f\n"
        "2: msr     APSR_nzcvq, r12\n"
        "   poet_load_\\by\n"
        "   poet_row_\\by r2, 16, \\columns\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   2b\n"
        "3: mov     lr, r10\n"
        "4: msr     APSR_nzcvq, r12\n"
        "   poet_load_\\by\n"
        "   poet_row_\\by r2, 16, \\columns\n"
        "   poet_row_\\by r7, 20, \\columns\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   4b\n"
        "   movs    lr, r11\n"
        "   beq.w   6f\n"
        "5: msr     APSR_nzcvq, r12\n"
        "   poet_load_\\by\n"
        "   poet_row_\\by r7, 20, \\columns\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   5b\n"
        "6: poet_total_\\by\n"
        "   poet_next r1, 0\n"
        "   poet_next r2, 4\n"
        "   poet_next r7, 8\n"
        "   subs    r8, r8, #1\n"
        "   bne.w   1b\n"
        "   vldmia  r6, {s16-s17}\n"
        "   .irp    total, 24, 25, 26, 27\n"
        "   add_one \\total, 16\n"
        "   add_one %4+\\total, 17\n"
        "   .endr\n"
        "   vstmia  r3, {s24-s27}\n"
        "   poet_next r3, 12\n"
        "   vstmia  r3, {s28-s31}\n"
        "   subs    r5, r5, #1\n"
        "   beq.n   7f\n"
        "   ldr     r8, [r0, #-20]\n"
        "   poet_next r3, 16\n"
        "   poet_next r1, 20\n"
        "   poet_next r2, 24\n"
        "   add     r7, r7, lr, lsl #2\n"
        "   poet_next r6, 28\n"
        "   movs    lr, #0\n"
        "   b.w     0b\n"
        "7: poet_end_\\by\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_strips poet_conv2d_strips_5_f32, by_1, 0, 1, 2, 3, 4\n"
        "   poet_strips poet_conv2d_strips_5_backwards_f32, by_1, 4, 3, 2, 1, 0\n"
        "   poet_strips poet_conv2d_strips_5_by_2_f32, by_2\n"

        /* r1  dy    r2  weights    r3  dx    r4, r5, r6  what is next    r7, r8  channels left, rows    r9  edges */
        "   poet_function poet_conv2d_wide_strip_5_f32\n"
        "   push    {r4-r9, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0, {r4-r9}\n"
        "   movs    lr, #0\n"
        "   .irp    first, 0, 4, 24, 26, 28, 30\n"
        "   poet_clear \\first\n"
        "   .endr\n"
        "1: movs    lr, #0\n"
        "   .irp    first, 16, 18, 20, 22\n"
        "   poet_clear \\first\n"
        "   .endr\n"
        "   mov     lr, r8\n"
        "2: msr     APSR_nzcvq, r9\n"
        "   vldmia  r1!, {s1-s4}\n"
        "   it      pl\n"
        "   vldrpl  s0, [r1, #-20]\n"
        "   it      cc\n"
        "   vldrcc  s5, [r1]\n"
        "   vldmia  r2!, {s6-s10}\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   add     r2, r2, #20\n"
        "   poet_add 16, 2, 2, 1, 6, 11\n"
        "   poet_add 17, 2, 2, 1, 7, 11\n"
        "   poet_add 16, 2, 1, 1, 8, 11\n"
        "   poet_add 17, 2, 1, 1, 9, 11\n"
        "   poet_add 16, 2, 0, 1, 10, 11\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   2b\n"
        "   poet_add_totals\n"
        "   add     r1, r1, r5, lsl #2\n"
        "   add     r2, r2, r6, lsl #2\n"
        "   subs    r7, r7, #1\n"
        "   bne.w   1b\n"
        "   msr     APSR_nzcvq, r9\n"
        "   ite     ne\n"
        "   vstmiane r3, {s24-s31}\n"
        "   vstmiaeq r3, {s24-s30}\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r9, pc}\n"
        "   poet_function_end poet_conv2d_wide_strip_5_f32\n"

        /* dW: a column of dy and its five of x, and all four output channels at one or two columns. */
        "   .macro poet_add_taps to, source, gradient\n"
        "   multiply_one 9, \\source, \\gradient\n"
        "   multiply_one 10, %\\source+1, \\gradient\n"
        "   multiply_one 11, %\\source+2, \\gradient\n"
        "   add_one \\to, 9\n"
        "   multiply_one 9, %\\source+3, \\gradient\n"
        "   add_one %\\to+1, 10\n"
        "   multiply_one 10, %\\source+4, \\gradient\n"
        "   add_one %\\to+2, 11\n"
        "   add_one %\\to+3, 9\n"
        "   add_one %\\to+4, 10\n"
        "   .endm\n"
        "   .macro poet_two gradients, to, step\n"
        "   vldmia  \\gradients!, {s7-s8}\n"
        "   poet_add_taps \\to, 0, 7\n"
        "   poet_add_taps \\to, \\step, 8\n"
        "   .endm\n"
        "   .macro poet_one gradients, to, source\n"
        "   vldmia  \\gradients!, {s7}\n"
        "   poet_add_taps \\to, \\source, 7\n"
        "   .endm\n"

        /* Two or four output channels: columns, and what has sums and totals. */
        "   .macro poet_two_each columns, from\n"
        "   poet_\\columns r2, 12, \\from\n"
        "   poet_\\columns r0, 17, \\from\n"
        "   .endm\n"
        "   .macro poet_four_each columns, from\n"
        "   poet_two_each \\columns, \\from\n"
        "   poet_\\columns r9, 22, \\from\n"
        "   poet_\\columns r8, 27, \\from\n"
        "   .endm\n"
        "   .macro poet_two_clear\n"
        "   .irp    first, 12, 14, 16, 18, 20\n"
        "   poet_clear \\first\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_four_clear\n"
        "   poet_two_clear\n"
        "   .irp    first, 22, 24, 26, 28, 30\n"
        "   poet_clear \\first\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_two_begin\n"
        "   vstmia  r3, {s12-s21}\n"
        "   .endm\n"
        "   .macro poet_four_begin\n"
        "   vstmia  r3, {s12-s31}\n"
        "   .endm\n"
        "   .macro poet_two_totals\n"
        "   vldmia  r3, {s0-s9}\n"
        "   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9\n"
        "   add_one \\total, %12+\\total\n"
        "   .endr\n"
        "   vstmia  r3, {s0-s9}\n"
        "   .endm\n"
        "   .macro poet_four_totals\n"
        "   poet_two_totals\n"
        "   add     lr, r3, #40\n"
        "   vldmia  lr, {s0-s9}\n"
        "   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9\n"
        "   add_one \\total, %22+\\total\n"
        "   .endr\n"
        "   vstmia  lr, {s0-s9}\n"
        "   .endm\n"

        /* The columns of x that a row begins with, those of two columns of dy, and those of its end; lr is 0. */
        "   .macro poet_move to, from\n"
        "   vmov.f32 s\\to, s\\from\n"
        "   .endm\n"
        "   .macro poet_first_by_1\n"
        "   vldmia  r1!, {s2-s3}\n"
        "   .endm\n"
        "   .macro poet_next_by_1 each\n"
        "   vldmia  r1!, {s4-s5}\n"
        "   poet_\\each two, 1\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_move \\at, %2+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_last_by_1 each\n"
        "   poet_clear 4\n"
        "   it      mi\n"
        "   vldmiami r1!, {s4}\n"
        "   poet_\\each two, 1\n"
        "   bpl.w   6f\n"
        "   vmov    s6, lr\n"
        "   poet_\\each one, 2\n"
        "   .endm\n"
        "   .macro poet_first_by_2\n"
        "   vldmia  r1!, {s2}\n"
        "   .endm\n"
        "   .macro poet_next_by_2 each\n"
        "   vldmia  r1!, {s3-s6}\n"
        "   poet_\\each two, 2\n"
        "   .irp    at, 0, 1, 2\n"
        "   poet_move \\at, %4+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_last_by_2 each\n"
        "   bmi.w   5f\n"
        "   vldmia  r1!, {s3-s4}\n"
        "   poet_clear 5\n"
        "   it      cc\n"
        "   vldmiacc r1!, {s5}\n"
        "   poet_\\each two, 2\n"
        "   b.n     6f\n"
        "5: poet_clear 3\n"
        "   it      cc\n"
        "   vldmiacc r1!, {s3}\n"
        "   poet_\\each one, 0\n"
        "   .endm\n"

        /* r1  x    r2, r0, r9, r8  dy    r3  totals    r4, r12  samples, rows left    r5, r6, [sp]  rows, pairs, edges
         * r7, r10, r11  what is next    lr  pairs left */
        "   .macro poet_rows name, many, by\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0, {r4-r8, r10-r12}\n"
        "   push    {r12}\n"
        "   add     r0, r2, r8, lsl #2\n"
        "   add     r9, r0, r8, lsl #2\n"
        "   add     r8, r9, r8, lsl #2\n"
        "   movs    lr, #0\n"
        "   poet_four_clear\n"
        "   poet_\\many\\()_begin\n"
        "   cmp     r5, #0\n"
        "   beq.w   7f\n"
        "1: mov     r12, r5\n"
        "2: movs    lr, #0\n"
        "   poet_clear 0\n"
        "   poet_first_\\by\n"
        "   movs    lr, r6\n"
        "   beq.w   4f\n"
        "3: poet_next_\\by \\many\\()_each\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   3b\n"
        "4: ldr     lr, [sp]\n"
        "   msr     APSR_nzcvq, lr\n"
        "   mov     lr, #0\n"
        "   poet_last_\\by \\many\\()_each\n"
        "6: poet_\\many\\()_totals\n"
        "   movs    lr, #0\n"
        "   poet_\\many\\()_clear\n"
        "   add     r1, r1, r7, lsl #2\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        "   add     r1, r1, r10, lsl #2\n"
        "   .irp    next, r2, r0, r9, r8\n"
        "   add     \\next, \\next, r11, lsl #2\n"
        "   .endr\n"
        "   subs    r4, r4, #1\n"
        "   bne.w   1b\n"
        "7: add     sp, sp, #4\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_rows poet_conv2d_four_rows_5_f32, four, by_1\n"
        "   poet_rows poet_conv2d_two_rows_5_f32, two, by_1\n"
        "   poet_rows poet_conv2d_four_rows_5_by_2_f32, four, by_2\n"
        "   poet_rows poet_conv2d_two_rows_5_by_2_f32, two, by_2\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define UNROLLED _Pragma("GCC unroll 11")
#define INLINE static inline __attribute__((always_inline))

/* A row of the kernel in one strip. */
INLINE void add_row(const float *columns, const float *weight, int32_t step, bool backwards,
                    float sums[POET_STRIP])
{
    UNROLLED
    for (int32_t tap = 0; tap < 5; tap++) {
        UNROLLED
        for (int32_t i = 0; i < POET_STRIP; i++) {
            sums[i] += columns[step * i + (backwards ? 4 - tap : tap)] * weight[tap];
        }
    }
}

INLINE void sum_strips(const struct poet_strips_5 *strips, const float *source, const float *weight,
                       float *result, int32_t step, bool backwards)
{
    const int32_t met = step * (POET_STRIP - 1) + 1; /* columns that are no padding at any edge, from 0 on */
    const bool left = (strips->edges & POET_LEFT_EDGE) != 0u;
    const bool right = (strips->edges & POET_RIGHT_EDGE) != 0u;
    const bool last = (strips->edges & (step > 1 ? POET_LAST_COLUMN : POET_RIGHT_EDGE)) != 0u;
    const int32_t upper_end = strips->upper_rows + strips->both_rows;
    const int32_t end = upper_end + strips->lower_rows;
    const float *lower = weight + strips->lower_weight;
    const float *bias = strips->bias;
    for (int32_t pair = 0; pair < strips->pairs; pair++) {
        float totals[2][POET_STRIP] = {{0.0f}};
        for (int32_t channel = 0; channel < strips->channels; channel++) {
            float sums[2][POET_STRIP] = {{0.0f}};
            for (int32_t row = 0; row < end; row++) {
                float columns[2 * POET_STRIP + 3];
                UNROLLED
                for (int32_t i = 0; i < met + 4; i++) {
                    const bool padding =
                        (left && i < 2) || (right && i == met + 2) || (last && i == met + 3);
                    columns[i] = padding ? 0.0f : source[i - 2];
                }
                if (row < upper_end) {
                    add_row(columns, weight, step, backwards, sums[0]);
                    weight += 5;
                }
                if (row >= strips->upper_rows) {
                    add_row(columns, lower, step, backwards, sums[1]);
                    lower += 5;
                }
                source += met + strips->row_next;
            }
            UNROLLED
            for (int32_t i = 0; i < POET_STRIP; i++) {
                totals[0][i] += sums[0][i];
                totals[1][i] += sums[1][i];
            }
            source += strips->channel_next;
            weight += strips->weight_next;
            lower += strips->lower_weight_next;
        }
        UNROLLED
        for (int32_t i = 0; i < POET_STRIP; i++) {
            result[i] = totals[0][i] + bias[0];
            result[strips->lower_result + i] = totals[1][i] + bias[1];
        }
        source += strips->source_pair;
        weight += strips->weight_pair;
        lower += strips->weight_pair;
        bias += strips->bias_pair;
        result += strips->lower_result + strips->result_pair;
    }
}

void poet_conv2d_strips_5_f32(const struct poet_strips_5 *strips, const float *source,
                              const float *weight, float *result)
{
    sum_strips(strips, source, weight, result, 1, false);
}

void poet_conv2d_strips_5_backwards_f32(const struct poet_strips_5 *strips, const float *source,
                                        const float *weight, float *result)
{
    sum_strips(strips, source, weight, result, 1, true);
}

void poet_conv2d_strips_5_by_2_f32(const struct poet_strips_5 *strips, const float *source,
                                   const float *weight, float *result)
{
    sum_strips(strips, source, weight, result, 2, false);
}

void poet_conv2d_wide_strip_5_f32(const struct poet_wide_strip_5 *strip, const float *dy,
                                  const float *weight, float *dx)
{
    const bool left = (strip->edges & POET_LEFT_EDGE) != 0u;
    const bool right = (strip->edges & POET_RIGHT_EDGE) != 0u;
    const int32_t stored = (strip->edges & POET_SEVEN_COLUMNS) != 0u ? 7 : 8;
    float totals[2 * POET_STRIP] = {0.0f};
    for (int32_t channel = 0; channel < strip->channels; channel++) {
        float sums[2 * POET_STRIP] = {0.0f};
        for (int32_t row = 0; row < strip->rows; row++) {
            const float columns[] = {left ? 0.0f : dy[-1], dy[0], dy[1], dy[2], dy[3],
                                     right ? 0.0f : dy[4]};
            UNROLLED
            for (int32_t tap = 0; tap < 5; tap++) {
                UNROLLED
                for (int32_t i = 0; i < POET_STRIP; i++) {
                    sums[2 * i + tap % 2] += columns[i + 2 - tap / 2] * weight[tap];
                }
            }
            dy += POET_STRIP + strip->row_next;
            weight += 10;
        }
        UNROLLED
        for (int32_t i = 0; i < 2 * POET_STRIP; i++) {
            totals[i] += sums[i];
        }
        dy += strip->channel_next;
        weight += strip->weight_next;
    }
    for (int32_t i = 0; i < stored; i++) {
        dx[i] = totals[i];
    }
}

INLINE void sum_rows(const struct poet_rows_5 *at, const float *x, const float *dy,
                     float totals[][5], int32_t channels, int32_t step)
{
    const bool odd = (at->edges & POET_ODD_COLUMNS) != 0u;
    const bool odd_width = step > 1 && (at->edges & POET_ODD_WIDTH) != 0u;
    const int32_t last = step > 1 && odd ? 1 : odd ? 3 : 2;
    const int32_t columns = 2 * at->pairs + last;
    const int32_t width = step * columns - (odd_width ? 1 : 0);
    for (int32_t i = 0; i < 5 * channels; i++) {
        totals[i / 5][i % 5] = 0.0f;
    }
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[4][5] = {{0.0f}};
            for (int32_t column = 0; column < columns; column++) {
                float met[5];
                UNROLLED
                for (int32_t tap = 0; tap < 5; tap++) {
                    const int32_t from = step * column + tap - 2;
                    met[tap] = from >= 0 && from < width ? x[from] : 0.0f;
                }
                UNROLLED
                for (int32_t o = 0; o < channels; o++) {
                    UNROLLED
                    for (int32_t tap = 0; tap < 5; tap++) {
                        sums[o][tap] += met[tap] * dy[o * at->dy_other + column];
                    }
                }
            }
            UNROLLED
            for (int32_t o = 0; o < channels; o++) {
                UNROLLED
                for (int32_t tap = 0; tap < 5; tap++) {
                    totals[o][tap] += sums[o][tap];
                }
            }
            x += width + at->row_next;
            dy += columns;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

void poet_conv2d_four_rows_5_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                 float totals[][5])
{
    sum_rows(at, x, dy, totals, 4, 1);
}

void poet_conv2d_two_rows_5_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                float totals[][5])
{
    sum_rows(at, x, dy, totals, 2, 1);
}

void poet_conv2d_four_rows_5_by_2_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                      float totals[][5])
{
    sum_rows(at, x, dy, totals, 4, 2);
}

void poet_conv2d_two_rows_5_by_2_f32(const struct poet_rows_5 *at, const float *x, const float *dy,
                                     float totals[][5])
{
    sum_rows(at, x, dy, totals, 2, 2);
}

#endif
