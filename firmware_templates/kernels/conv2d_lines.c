/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_lines.h"

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c.
 *   r1, r7  x    r2, r0, r9, r8  dy    r3  totals    r4, r5  x_row, dy_row    r10  bytes to the next column of x
 *   r6, r11  strips, columns left in a row    r12, lr  rows, strips or columns to do    [sp]  what struct poet_lines ends with
 * Of one channel: s0-s3 columns of x, s4-s15 and s20-s23 of dy, s24-s27 products, s16-s19 a row's sums, s28-s31 totals.
 * Of two: s0-s3 and s4-s7 columns of x, s8-s11 of dy, s12-s13 products, s16-s23 a row's sums, s24-s31 totals. */
__asm__(POET_ASSEMBLY
        "   .macro clear_one to, from\n"
        "   vmov    s\\to, \\from\n"
        "   .endm\n"
        "   .macro poet_load_x to, from\n"
        "   vldr    s\\to, [\\from]\n"
        "   add     \\from, \\from, r10\n"
        "   .endm\n"

        /* Columns of a single channel. */
        "   .macro poet_one_dy gradients, first, last\n"
        "   vldmia  \\gradients!, {s\\first-s\\last}\n"
        "   .endm\n"
        "   .macro poet_one_column x, first, second, third, fourth\n"
        "   multiply_one 24, \\x, \\first\n"
        "   multiply_one 25, \\x, \\second\n"
        "   multiply_one 26, \\x, \\third\n"
        "   multiply_one 27, \\x, \\fourth\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %16+\\at, %24+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_one_strip\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_load_x \\at, r1\n"
        "   .endr\n"
        "   poet_one_dy r2, 4, 7\n"
        "   poet_one_dy r0, 8, 11\n"
        "   poet_one_dy r9, 12, 15\n"
        "   poet_one_dy r8, 20, 23\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_one_column \\at, %4+\\at, %8+\\at, %12+\\at, %20+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_one_left\n"
        "   poet_load_x 0, r1\n"
        "   vldmia  r2!, {s4}\n"
        "   vldmia  r0!, {s8}\n"
        "   vldmia  r9!, {s12}\n"
        "   vldmia  r8!, {s20}\n"
        "   poet_one_column 0, 4, 8, 12, 20\n"
        "   .endm\n"

        /* The same of two. */
        "   .macro poet_two_dy gradients, loaded, first, second, columns:vararg\n"
        "   vldmia  \\gradients!, {\\loaded}\n"
        "   .irp    at, \\columns\n"
        "   multiply_one 12, \\at, %8+\\at\n"
        "   multiply_one 13, %4+\\at, %8+\\at\n"
        "   add_one \\first, 12\n"
        "   add_one \\second, 13\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_two_products loaded, columns:vararg\n"
        "   poet_two_dy r2, \\loaded, 16, 17, \\columns\n"
        "   poet_two_dy r0, \\loaded, 18, 19, \\columns\n"
        "   poet_two_dy r9, \\loaded, 20, 21, \\columns\n"
        "   poet_two_dy r8, \\loaded, 22, 23, \\columns\n"
        "   .endm\n"
        "   .macro poet_two_strip\n"
        "   cmp     r10, #4\n"
        "   bne.n   7f\n"
        "   vldmia  r1!, {s0-s3}\n"
        "   vldmia  r7!, {s4-s7}\n"
        "   b.n     8f\n"
        "7:\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_load_x \\at, r1\n"
        "   poet_load_x %4+\\at, r7\n"
        "   .endr\n"
        "8: poet_two_products s8-s11, 0, 1, 2, 3\n"
        "   .endm\n"
        "   .macro poet_two_left\n"
        "   poet_load_x 0, r1\n"
        "   poet_load_x 4, r7\n"
        "   poet_two_products s8, 0\n"
        "   .endm\n"

        "   .macro poet_lines name, channels, totals, sums:vararg\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0!, {r4-r8, r10-r11}\n"
        "   ldmia   r0, {r0, r9, r12, lr}\n"
        "   push    {r0, r9, r12, lr}\n"
        "   add     r7, r1, r7, lsl #2\n"
        "   add     r0, r2, r8, lsl #2\n"
        "   add     r9, r0, r8, lsl #2\n"
        "   add     r8, r9, r8, lsl #2\n"
        "   lsl     r10, r10, #2\n"
        "   movs    lr, #0\n"
        "   .irp    sum, \\sums\n"
        "   clear_one %\\totals+\\sum-16, lr\n"
        "   .endr\n"
        "1: ldr     r12, [sp]\n"
        "2: movs    lr, #0\n"
        "   .irp    sum, \\sums\n"
        "   clear_one \\sum, lr\n"
        "   .endr\n"
        "   movs    lr, r6\n"
        "   beq.w   4f\n"
        "3: poet_\\channels\\()_strip\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   3b\n"
        "4: movs    lr, r11\n"
        "   beq.w   6f\n"
        "5: poet_\\channels\\()_left\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   5b\n"
        "6:\n"
        "   .irp    sum, \\sums\n"
        "   add_one %\\totals+\\sum-16, \\sum\n"
        "   .endr\n"
        "   .irp    next, r1, r7\n"
        "   add     \\next, \\next, r4, lsl #2\n"
        "   .endr\n"
        "   .irp    next, r2, r0, r9, r8\n"
        "   add     \\next, \\next, r5, lsl #2\n"
        "   .endr\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        "   ldr     lr, [sp, #8]\n"
        "   .irp    next, r1, r7\n"
        "   add     \\next, \\next, lr, lsl #2\n"
        "   .endr\n"
        "   ldr     lr, [sp, #12]\n"
        "   .irp    next, r2, r0, r9, r8\n"
        "   add     \\next, \\next, lr, lsl #2\n"
        "   .endr\n"
        "   ldr     lr, [sp, #4]\n"
        "   subs    lr, lr, #1\n"
        "   str     lr, [sp, #4]\n"
        "   bne.w   1b\n"
        "   vstmia  r3, {s\\totals-s31}\n"
        "   add     sp, sp, #16\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_lines poet_conv2d_lines_f32, one, 28, 16, 17, 18, 19\n"
        "   poet_lines poet_conv2d_pair_lines_f32, two, 24, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define UNROLLED _Pragma("GCC unroll 4")

static inline __attribute__((always_inline)) void
sum_lines(const struct poet_lines *at, const float *x, const float *dy, int32_t inputs,
          float *totals)
{
    const int32_t columns = POET_STRIP * at->strips + at->left;
    for (int32_t i = 0; i < 4 * inputs; i++) {
        totals[i] = 0.0f;
    }
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < at->rows; row++) {
            float sums[8] = {0.0f};
            for (int32_t column = 0; column < columns; column++) {
                UNROLLED
                for (int32_t o = 0; o < 4; o++) {
                    const float gradient = dy[o * at->dy_other + column];
                    UNROLLED
                    for (int32_t c = 0; c < inputs; c++) {
                        sums[inputs * o + c] += x[c * at->x_other + column * at->stride] * gradient;
                    }
                }
            }
            UNROLLED
            for (int32_t i = 0; i < 4 * inputs; i++) {
                totals[i] += sums[i];
            }
            x += columns * at->stride + at->x_row;
            dy += columns + at->dy_row;
        }
        x += at->x_next;
        dy += at->dy_next;
    }
}

void poet_conv2d_lines_f32(const struct poet_lines *at, const float *x, const float *dy,
                           float totals[4])
{
    sum_lines(at, x, dy, 1, totals);
}

void poet_conv2d_pair_lines_f32(const struct poet_lines *at, const float *x, const float *dy,
                                float totals[4][2])
{
    sum_lines(at, x, dy, 2, totals[0]);
}

#endif
