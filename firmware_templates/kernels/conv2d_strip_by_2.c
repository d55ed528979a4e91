/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_strip_by_2.h"

#include <stdbool.h>

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c: lists of registers are loaded at once, and sums stay in theirs.
 * Forward: s0-s8 columns of the source, s9-s11 weights of one channel of results, s12-s15 products, s16-s23 a channel's
 *     sums, s24-s31 totals.
 * dX: s0-s4 columns of dy, s5-s7 weights and products, s8-s15 a channel's sums, s16-s23 and s24-s31 totals of both rows.
 * dW: s0-s8 columns of x, s9-s12 gradients, s13-s15 products, s16-s27 a row's sums. */
__asm__(POET_ASSEMBLY POET_STRIP_ASSEMBLY
        /* Four sums, and four columns of the source, two registers or one apart. */
        "   .macro poet_multiply to, apart, source, step, weight\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\to+\\apart*\\at, %\\source+\\step*\\at, \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add to, apart, source, step, weight\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %12+\\at, %\\source+\\step*\\at, \\weight\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\to+\\apart*\\at, %12+\\at\n"
        "   .endr\n"
        "   .endm\n"

        "   .macro poet_begin name, registers\n"
        "   poet_function \\name\n"
        "   push    {r4-\\registers, lr}\n"
        "   vpush   {s16-s31}\n"
        "   .endm\n"
        "   .macro poet_end name, registers\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-\\registers, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"
        "   .macro poet_clear first, others:vararg\n"
        "   movs    lr, #0\n"
        "   vmov    s\\first, lr\n"
        "   .irp    other, \\others\n"
        "   vmov.f32 s\\other, s\\first\n"
        "   .endr\n"
        "   .endm\n"

        /* Forward: the products of one row of the kernel, and of that in one channel of results. */
        "   .macro poet_products begin, weights, to\n"
        "   vldmia  \\weights!, {s9-s11}\n"
        "   poet_\\begin \\to, 1, 0, 2, 9\n"
        "   poet_add \\to, 1, 1, 2, 10\n"
        "   poet_add \\to, 1, 2, 2, 11\n"
        "   .endm\n"
        "   .macro poet_row begin\n"
        "   vldmia  r1, {s1-s7}\n"
        "   it      pl\n"
        "   vldrpl  s0, [r1, #-4]\n"
        "   it      cc\n"
        "   vldrcc  s8, [r1, #28]\n"
        "   poet_products \\begin, r2, 16\n"
        "   poet_products \\begin, r7, 20\n"
        "   .endm\n"

        "   poet_begin_strip poet_conv2d_strips_by_2_f32, 8\n"
        "   poet_row multiply\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_row add\n"
        "   beq.w   3f\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   poet_row add\n"
        "3:\n"
        "   poet_end_strip\n"
        "   poet_function_end poet_conv2d_strips_by_2_f32\n"

        /* dX: a row of dy, and adding its products with s7 two at a time. */
        "   .macro poet_load_dy from\n"
        "   vldmia  \\from, {s0-s3}\n"
        "   it      cc\n"
        "   vldrcc  s4, [\\from, #16]\n"
        "   .endm\n"
        "   .macro poet_add_pairs to, source\n"
        "   .irp    at, 0, 2\n"
        "   multiply_one 5, %\\source+\\at, 7\n"
        "   multiply_one 6, %\\source+1+\\at, 7\n"
        "   add_one %\\to+2*\\at, 5\n"
        "   add_one %\\to+2+2*\\at, 6\n"
        "   .endr\n"
        "   .endm\n"

        "   poet_begin poet_conv2d_wide_strip_f32, r9\n"
        "   ldmia   r0, {r4-r9}\n"
        "   poet_clear 4, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n"
        "   add     lr, r1, r4, lsl #2\n"
        "1: msr     APSR_nzcvq, r8\n"
        "   beq.w   2f\n"
        /* the kernel's first row, and its last */
        "   poet_load_dy lr\n"
        "   vldmia  r2, {s5-s7}\n"
        "   poet_multiply 8, 2, 0, 1, 6\n"
        "   poet_multiply 9, 2, 1, 1, 5\n"
        "   poet_add_pairs 9, 0\n"
        "   poet_load_dy r1\n"
        "   vldr    s7, [r2, #28]\n"
        "   poet_add_pairs 8, 0\n"
        "   vldr    s7, [r2, #24]\n"
        "   poet_add_pairs 9, 1\n"
        "   b.n     3f\n"
        /* its last row alone */
        "2: poet_load_dy r1\n"
        "   vldr    s6, [r2, #28]\n"
        "   vldr    s5, [r2, #24]\n"
        "   poet_multiply 8, 2, 0, 1, 6\n"
        "   poet_multiply 9, 2, 1, 1, 5\n"
        "3: vldr    s7, [r2, #32]\n"
        "   poet_add_pairs 9, 0\n"
        "   .irp    sum, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "   add_one %16+\\sum, \\sum\n"
        "   .endr\n"
        /* its middle row */
        "   add     r0, r2, #12\n"
        "   vldmia  r0, {s5-s7}\n"
        "   poet_multiply 8, 1, 0, 1, 6\n"
        "   poet_multiply 12, 1, 1, 1, 5\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %16+2*\\at, %8+\\at\n"
        "   .endr\n"
        "   poet_multiply 8, 1, 0, 1, 7\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %12+\\at, %8+\\at\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %17+2*\\at, %12+\\at\n"
        "   .endr\n"
        "   add     r1, r1, r5, lsl #2\n"
        "   add     lr, lr, r5, lsl #2\n"
        "   add     r2, r2, r6, lsl #2\n"
        "   subs    r7, r7, #1\n"
        "   bne.w   1b\n"
        "   msr     APSR_nzcvq, r8\n"
        "   ite     pl\n"
        "   vstmiapl r3, {s16-s23}\n"
        "   vstmiami r3, {s16-s22}\n"
        "   bvs.n   4f\n"
        "   add     r3, r3, r9, lsl #2\n"
        "   ite     pl\n"
        "   vstmiapl r3, {s24-s31}\n"
        "   vstmiami r3, {s24-s30}\n"
        "4:\n"
        "   poet_end poet_conv2d_wide_strip_f32, r9\n"

        /* dW: products of the columns from s0 on and one output channel's gradients, s9-s12. */
        "   .macro poet_taps gradients, loaded, first, second, third, columns:vararg\n"
        "   vldmia  \\gradients!, {\\loaded}\n"
        "   .irp    at, \\columns\n"
        "   multiply_one 13, %2*\\at, %9+\\at\n"
        "   multiply_one 14, %2*\\at+1, %9+\\at\n"
        "   multiply_one 15, %2*\\at+2, %9+\\at\n"
        "   add_one \\first, 13\n"
        "   add_one \\second, 14\n"
        "   add_one \\third, 15\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_all_taps loaded, columns:vararg\n"
        "   poet_taps r2, \\loaded, 16, 17, 18, \\columns\n"
        "   poet_taps r0, \\loaded, 19, 20, 21, \\columns\n"
        "   poet_taps r9, \\loaded, 22, 23, 24, \\columns\n"
        "   poet_taps r8, \\loaded, 25, 26, 27, \\columns\n"
        "   .endm\n"

        /* r1  x    r2, r0, r9, r8  dy    r4, r12  samples, rows left    r5, r6, [sp]  rows, strips, columns left
         * lr  strips, columns still to do    r7, r10, r11  what is next    s28  0 */
        "   poet_begin poet_conv2d_tap_rows_by_2_f32, r11\n"
        "   ldmia   r0, {r4-r8, r10-r12}\n"
        "   push    {r12}\n"
        "   add     r0, r2, r8, lsl #2\n"
        "   add     r9, r0, r8, lsl #2\n"
        "   add     r8, r9, r8, lsl #2\n"
        "1: mov     r12, r5\n"
        "2: poet_clear 28, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"
        "   movs    lr, r6\n"
        "   beq.w   4f\n"
        "3: vldmia  r1!, {s1-s8}\n"
        "   poet_all_taps s9-s12, 0, 1, 2, 3\n"
        "   vmov.f32 s0, s8\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   3b\n"
        "4: ldr     lr, [sp]\n"
        "   cmp     lr, #0\n"
        "   beq.w   6f\n"
        "5: vldmia  r1!, {s1}\n"
        "   subs    lr, lr, #2\n"
        "   ite     pl\n"
        "   vldmiapl r1!, {s2}\n"
        "   vmovmi.f32 s2, s28\n"
        "   poet_all_taps s9, 0\n"
        "   vmov.f32 s0, s2\n"
        "   bgt.w   5b\n"
        "6: vldmia  r3, {s0-s11}\n"
        "   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n"
        "   add_one \\total, %16+\\total\n"
        "   .endr\n"
        "   vstmia  r3, {s0-s11}\n"
        "   add     r1, r1, r7, lsl #2\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        "   add     r1, r1, r10, lsl #2\n"
        "   .irp    next, r2, r0, r9, r8\n"
        "   add     \\next, \\next, r11, lsl #2\n"
        "   .endr\n"
        "   subs    r4, r4, #1\n"
        "   bne.w   1b\n"
        "   add     sp, sp, #4\n"
        "   poet_end poet_conv2d_tap_rows_by_2_f32, r11\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define UNROLLED _Pragma("GCC unroll 4")

static void sum_strip(const struct poet_strips *strips, uint32_t edges, const float *source,
                      const float *weight, float *result)
{
    const int32_t rows = (edges & POET_TWO_ROWS) != 0u ? 2 : 3;
    const bool left = (edges & POET_LEFT_EDGE) != 0u;
    const bool right = (edges & POET_RIGHT_EDGE) != 0u;
    float totals[2][POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strips->channels; channel++) {
        float sums[2][POET_STRIP] = {{0.0f}};
        for (int32_t row = 0; row < rows; row++) {
            const float columns[] = {left ? 0.0f : source[-1], source[0], source[1],
                                     source[2], source[3], source[4],
                                     source[5], source[6], right ? 0.0f : source[7]};
            UNROLLED
            for (int32_t tap = 0; tap < 3; tap++) {
                UNROLLED
                for (int32_t i = 0; i < POET_STRIP; i++) {
                    sums[0][i] += columns[2 * i + tap] * weight[tap];
                    sums[1][i] += columns[2 * i + tap] * weight[strips->weight_other + tap];
                }
            }
            weight += 3;
            source += row + 1 < rows ? strips->row_next : strips->channel_next;
        }
        poet_add_strips(sums, totals);
        weight += strips->weight_next;
    }
    poet_put_strips(strips, totals, result);
}

void poet_conv2d_strips_by_2_f32(const struct poet_strips *strips, const float *source,
                                 const float *weight, float *result)
{
    poet_each_strip(strips, sum_strip, source, weight, result);
}

/* The products of one row of the kernel with five columns of dy. */
static inline __attribute__((always_inline)) void
add_wide_row(const float *dy, bool right, const float *weight, float sums[2 * POET_STRIP])
{
    const float columns[] = {dy[0], dy[1], dy[2], dy[3], right ? 0.0f : dy[4]};
    UNROLLED
    for (int32_t i = 0; i < POET_STRIP; i++) {
        sums[2 * i] += columns[i] * weight[1];
        sums[2 * i + 1] += columns[i + 1] * weight[0];
        sums[2 * i + 1] += columns[i] * weight[2];
    }
}

void poet_conv2d_wide_strip_f32(const struct poet_wide_strip *strip, const float *dy,
                                const float *weight, float *dx)
{
    const bool right = (strip->edges & POET_RIGHT_EDGE) != 0u;
    const int32_t columns = (strip->edges & POET_SEVEN_COLUMNS) != 0u ? 7 : 8;
    const int32_t rows = (strip->edges & POET_UPPER_ROW) != 0u ? 1 : 2;
    float totals[2][2 * POET_STRIP] = {{0.0f}};
    for (int32_t channel = 0; channel < strip->channels; channel++) {
        float sums[2][2 * POET_STRIP] = {{0.0f}};
        add_wide_row(dy, right, weight + 3, sums[0]);
        if ((strip->edges & POET_LAST_ROW) == 0u) {
            add_wide_row(dy + strip->row_next, right, weight, sums[1]);
        }
        add_wide_row(dy, right, weight + 6, sums[1]);
        UNROLLED
        for (int32_t i = 0; i < 2 * POET_STRIP; i++) {
            totals[0][i] += sums[0][i];
            totals[1][i] += sums[1][i];
        }
        dy += strip->channel_next;
        weight += strip->weight_next;
    }
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < columns; i++) {
            dx[row * strip->result_next + i] = totals[row][i];
        }
    }
}

void poet_conv2d_tap_rows_by_2_f32(const struct poet_rows_by_2 *at, const float *x, const float *dy,
                                   float totals[4][3])
{
    const int32_t width = 2 * POET_STRIP * at->strips + at->left;
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[4][3] = {{0.0f}};
            for (int32_t column = 0; column < width; column += 2) {
                const float met[] = {column > 0 ? x[column - 1] : 0.0f, x[column],
                                     column < width - 1 ? x[column + 1] : 0.0f};
                UNROLLED
                for (int32_t o = 0; o < 4; o++) {
                    UNROLLED
                    for (int32_t tap = 0; tap < 3; tap++) {
                        sums[o][tap] += met[tap] * dy[o * at->dy_other + column / 2];
                    }
                }
            }
            UNROLLED
            for (int32_t o = 0; o < 4; o++) {
                UNROLLED
                for (int32_t tap = 0; tap < 3; tap++) {
                    totals[o][tap] += sums[o][tap];
                }
            }
            x += width + at->row_next;
            dy += (width + 1) / 2;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

#endif
