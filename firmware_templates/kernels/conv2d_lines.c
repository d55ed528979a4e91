/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_lines.h"

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c.
 *   r1, r7  x    r2, r0, r9, r8  dy    r3  totals    r4, r5  x_row, dy_row    r10  bytes to the next column of x
 *   r6, r11  strips of a row, columns left    r12, lr  rows, strips or columns to do
 *   [sp]  x, dy, bytes to the next channel of each, samples, taps to do, the next one; then of a tap rows, samples to do, x_next, dy_next
 * Of one channel: s0-s3 columns of x, s4-s15 and s20-s23 of dy, s24-s27 products, s16-s19 a row's sums, s28-s31 totals.
 * Of two: s0-s3 and s4-s7 columns of x, s8-s11 of dy, s12-s13 products, s16-s23 a row's sums, s24-s31 totals. */
__asm__(POET_ASSEMBLY
        "   .macro poet_copy to, from\n"
        "   vmov.f32 s\\to, s\\from\n"
        "   .endm\n"
        "   .macro poet_clear first, sums:vararg\n"
        "   movs    lr, #0\n"
        "   vmov    s\\first, lr\n"
        "   .irp    sum, \\sums\n"
        "   .ifnc   \\sum, 16\n"
        "   poet_copy %\\first+\\sum-16, \\first\n"
        "   .endif\n"
        "   .endr\n"
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
        "   .macro poet_two_load\n"
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
        "8:\n"
        "   .endm\n"
        "   .macro poet_two_strip\n"
        "   poet_two_load\n"
        "   poet_two_products s8-s11, 0, 1, 2, 3\n"
        "   .endm\n"
        "   .macro poet_two_left\n"
        "   poet_load_x 0, r1\n"
        "   poet_load_x 4, r7\n"
        "   poet_two_products s8, 0\n"
        "   .endm\n"

        /* The same of a single channel of dy, and two of x or one. */
        "   .macro poet_single_strip\n"
        "   poet_two_load\n"
        "   poet_two_dy r2, s8-s11, 16, 17, 0, 1, 2, 3\n"
        "   .endm\n"
        "   .macro poet_single_left\n"
        "   poet_load_x 0, r1\n"
        "   poet_load_x 4, r7\n"
        "   poet_two_dy r2, s8, 16, 17, 0\n"
        "   .endm\n"
        "   .macro poet_alone_strip\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_load_x \\at, r1\n"
        "   .endr\n"
        "   vldmia  r2!, {s8-s11}\n"
        "   multiply_one 12, 0, 8\n"
        "   .irp    at, 1, 2, 3\n"
        "   multiply_one %12+\\at, \\at, %8+\\at\n"
        "   add_one 16, %11+\\at\n"
        "   .endr\n"
        "   add_one 16, 15\n"
        "   .endm\n"
        "   .macro poet_alone_left\n"
        "   vldmia  r2!, {s8}\n"
        "   vldr    s0, [r1]\n"
        "   multiply_one 12, 0, 8\n"
        "   add     r1, r1, r10\n"
        "   add_one 16, 12\n"
        "   .endm\n"

        "   .macro poet_lines name, channels, gradients, totals, sums:vararg\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   mov     r3, r1\n"
        "   ldmia   r0, {r4-r11}\n"
        "   lsl     r6, r6, #2\n"
        "   lsl     r7, r7, #2\n"
        "   lsl     r0, r9, #2\n"
        "   mov     r9, r10\n"
        "   mov     r10, r0\n"
        "   sub     sp, sp, #16\n"
        "   push    {r4-r9, r11}\n"
        "1: ldr     lr, [sp, #24]\n"
        "   ldmia   lr!, {r0-r2, r4-r6, r9, r12}\n"
        "   str     lr, [sp, #24]\n"
        "   poet_clear \\totals, \\sums\n"
        "   cmp     r12, #0\n"
        "   beq.w   9f\n"
        "   ldr     lr, [sp, #16]\n"
        "   strd    r12, lr, [sp, #28]\n"
        "   strd    r0, r9, [sp, #36]\n"
        "   ldrd    r7, r8, [sp]\n"
        "   add     r1, r7, r1, lsl #2\n"
        "   add     r2, r8, r2, lsl #2\n"
        "   ldrd    r7, r8, [sp, #8]\n"
        "   add     r7, r1, r7\n"
        "   add     r0, r2, r8\n"
        "   add     r9, r0, r8\n"
        "   add     r8, r9, r8\n"
        "   and     r11, r6, #3\n"
        "   lsrs    r6, r6, #2\n"
        "2: poet_clear 16, \\sums\n"
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
        "   .irp    next, \\gradients\n"
        "   add     \\next, \\next, r5, lsl #2\n"
        "   .endr\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        "   ldr     lr, [sp, #32]\n"
        "   subs    lr, lr, #1\n"
        "   beq.n   9f\n"
        "   str     lr, [sp, #32]\n"
        "   ldrd    r12, lr, [sp, #36]\n"
        "   .irp    next, r1, r7\n"
        "   add     \\next, \\next, r12, lsl #2\n"
        "   .endr\n"
        "   .irp    next, \\gradients\n"
        "   add     \\next, \\next, lr, lsl #2\n"
        "   .endr\n"
        "   ldr     r12, [sp, #28]\n"
        "   b.w     2b\n"
        "9:\n"
        "   .irp    sum, \\sums\n"
        "   poet_store_total %\\totals+\\sum-16, %36*(\\sum-16)\n"
        "   .endr\n"
        "   add     r3, r3, #4\n"
        "   ldr     lr, [sp, #20]\n"
        "   subs    lr, lr, #1\n"
        "   str     lr, [sp, #20]\n"
        "   bne.w   1b\n"
        "   add     sp, sp, #44\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"
        "   .macro poet_store_total total, to\n"
        "   vstr    s\\total, [r3, #\\to]\n"
        "   .endm\n"

        "   poet_lines poet_conv2d_lines_f32, one, <r2, r0, r9, r8>, 28, 16, 17, 18, 19\n"
        "   poet_lines poet_conv2d_pair_lines_f32, two, <r2, r0, r9, r8>, 24, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   poet_lines poet_conv2d_single_lines_f32, alone, <r2>, 24, 16\n"
        "   poet_lines poet_conv2d_single_pair_lines_f32, single, <r2>, 24, 16, 17\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define UNROLLED _Pragma("GCC unroll 4")

static inline __attribute__((always_inline)) void
sum_tap_lines(const struct poet_lines *at, const struct poet_tap *tap, int32_t outputs,
              int32_t inputs, float totals[8])
{
    const int32_t columns = tap->columns;
    const float *x = at->x + tap->x_first;
    const float *dy = at->dy + tap->dy_first;
    for (int32_t i = 0; i < outputs * inputs; i++) {
        totals[i] = 0.0f;
    }
    for (int32_t n = 0; n < at->samples; n++) {
        for (int32_t row = 0; row < tap->rows; row++) {
            float sums[8] = {0.0f};
            for (int32_t column = 0; column < columns; column++) {
                UNROLLED
                for (int32_t o = 0; o < outputs; o++) {
                    const float gradient = dy[o * at->dy_other + column];
                    UNROLLED
                    for (int32_t c = 0; c < inputs; c++) {
                        sums[inputs * o + c] += x[c * at->x_other + column * at->stride] * gradient;
                    }
                }
            }
            UNROLLED
            for (int32_t i = 0; i < outputs * inputs; i++) {
                totals[i] += sums[i];
            }
            x += columns * at->stride + tap->x_row;
            dy += columns + tap->dy_row;
        }
        x += tap->x_next;
        dy += tap->dy_next;
    }
}

static inline __attribute__((always_inline)) void
sum_lines(const struct poet_lines *at, int32_t outputs, int32_t inputs, float totals[][POET_TAPS])
{
    for (int32_t tap = 0; tap < at->count; tap++) {
        float sums[8];
        sum_tap_lines(at, &at->taps[tap], outputs, inputs, sums);
        for (int32_t i = 0; i < outputs * inputs; i++) {
            totals[i][tap] = sums[i];
        }
    }
}

void poet_conv2d_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 4, 1, totals);
}

void poet_conv2d_pair_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 4, 2, totals);
}

void poet_conv2d_single_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 1, 1, totals);
}

void poet_conv2d_single_pair_lines_f32(const struct poet_lines *at, float totals[][POET_TAPS])
{
    sum_lines(at, 1, 2, totals);
}

#endif
