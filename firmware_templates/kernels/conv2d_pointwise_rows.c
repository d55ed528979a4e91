/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise_rows.h"

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c. A row's first column begins its sums, which spares zeros and their addition.
 *   r1, r7  the pair    r2-r5  a four    r6, r12, lr  samples, rows, strips to do    r8, r9  four_next, pair_next or x_step
 *   r10  strips in a row    r11  what begins a row
 *   from [sp, #saved] on: blocks to do, the pair, a four and the result where a block begins
 * Of a pair: s0-s3 and s4-s7 its columns, s8-s11 those of one of four, s16-s23 a row's sums, s24-s31 totals.
 * Of one: s0-s3 its columns, s4-s7 and s8-s11 those of two of four, s14-s17 a row's sums, s18-s21 totals.
 * s12, s13  products */
__asm__(POET_ASSEMBLY
        /* Columns that lie beside each other, or every second one, behind which a row goes on: those are loaded where pointers
         * are behind the ones that a row begins with; or those that are r9 bytes apart. */
        "   .macro poet_load_1 way, from, to, last, count\n"
        "   .if     \\count-1\n"
        "   vldmia  \\from!, {s\\to-s\\last}\n"
        "   .else\n"
        "   vldmia  \\from!, {s\\to}\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_load_column to, from, offset\n"
        "   vldr    s\\to, [\\from, #\\offset]\n"
        "   .endm\n"
        "   .macro poet_begin_columns from, to, count\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   .ifgt   \\count-\\at\n"
        "   poet_load_column %\\to+\\at, \\from, %8*\\at-8*\\count\n"
        "   .endif\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add_columns from, to, count\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_load_column %\\to+\\at, \\from, %8*\\at\n"
        "   .endr\n"
        "   add     \\from, \\from, #32\n"
        "   .endm\n"
        "   .macro poet_load_2 way, from, to, last, count\n"
        "   poet_\\way\\()_columns \\from, \\to, \\count\n"
        "   .endm\n"
        "   .macro poet_load_0 way, from, to, last, count\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   .ifgt   \\count-\\at\n"
        "   poet_load_column %\\to+\\at, \\from, 0\n"
        "   add     \\from, \\from, r9\n"
        "   .endif\n"
        "   .endr\n"
        "   .endm\n"

        /* A column's products, of two channels of the same four with one or of two. */
        "   .macro poet_begin_column first, second, a, b, c, d\n"
        "   multiply_one \\first, \\a, \\b\n"
        "   multiply_one \\second, \\c, \\d\n"
        "   .endm\n"
        "   .macro poet_add_column first, second, a, b, c, d\n"
        "   multiply_one 12, \\a, \\b\n"
        "   multiply_one 13, \\c, \\d\n"
        "   add_one \\first, 12\n"
        "   add_one \\second, 13\n"
        "   .endm\n"
        "   .macro poet_pair_sums way, step, count, four, first\n"
        "   poet_load_\\step \\way, \\four, 8, %7+\\count, \\count\n"
        "   poet_\\way\\()_column \\first, %1+\\first, 0, 8, 4, 8\n"
        "   .irp    at, 1, 2, 3\n"
        "   .ifgt   \\count-\\at\n"
        "   poet_add_column \\first, %1+\\first, \\at, %8+\\at, %4+\\at, %8+\\at\n"
        "   .endif\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_one_sums way, step, count, four, other, first\n"
        "   poet_load_\\step \\way, \\four, 4, %3+\\count, \\count\n"
        "   poet_load_\\step \\way, \\other, 8, %7+\\count, \\count\n"
        "   poet_\\way\\()_column \\first, %1+\\first, 0, 4, 0, 8\n"
        "   .irp    at, 1, 2, 3\n"
        "   .ifgt   \\count-\\at\n"
        "   poet_add_column \\first, %1+\\first, \\at, %4+\\at, \\at, %8+\\at\n"
        "   .endif\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_pair_columns way, pair_step, four_step, count\n"
        "   poet_load_\\pair_step \\way, r1, 0, %\\count-1, \\count\n"
        "   poet_load_\\pair_step \\way, r7, 4, %3+\\count, \\count\n"
        "   poet_pair_sums \\way, \\four_step, \\count, r2, 16\n"
        "   poet_pair_sums \\way, \\four_step, \\count, r3, 18\n"
        "   poet_pair_sums \\way, \\four_step, \\count, r4, 20\n"
        "   poet_pair_sums \\way, \\four_step, \\count, r5, 22\n"
        "   .endm\n"
        "   .macro poet_one_columns way, pair_step, four_step, count\n"
        "   poet_load_\\pair_step \\way, r1, 0, %\\count-1, \\count\n"
        "   poet_one_sums \\way, \\four_step, \\count, r2, r3, 14\n"
        "   poet_one_sums \\way, \\four_step, \\count, r4, r5, 16\n"
        "   .endm\n"

        /* A row's sums go to the totals, which begin as zeros. */
        "   .macro poet_pair_add\n"
        "   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   add_one %8+\\sum, \\sum\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_one_add\n"
        "   .irp    sum, 14, 15, 16, 17\n"
        "   add_one %4+\\sum, \\sum\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro clear_two first, second\n"
        "   vmov    s\\first, s\\second, lr, lr\n"
        "   .endm\n"
        "   .macro poet_pair_clear\n"
        "   .irp    total, 24, 26, 28, 30\n"
        "   clear_two \\total, %1+\\total\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_one_clear\n"
        "   clear_two 18, 19\n"
        "   clear_two 20, 21\n"
        "   .endm\n"
        "   .macro poet_pair_put\n"
        "   .irp    total, 24, 26, 28, 30\n"
        "   poet_put_two \\total, %1+\\total\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_put_two first, second\n"
        "   add     r12, r7, r2, lsl #2\n"
        "   vstr    s\\first, [r7]\n"
        "   vstr    s\\second, [r12]\n"
        "   add     r7, r7, r1, lsl #2\n"
        "   .endm\n"
        "   .macro poet_one_put\n"
        "   .irp    total, 18, 19, 20, 21\n"
        "   vstr    s\\total, [r7]\n"
        "   add     r7, r7, r1, lsl #2\n"
        "   .endr\n"
        "   .endm\n"

        /* On to the next row; what moves by more than 1 leaves some out. r7 says how many where it is no channel's. */
        "   .macro poet_add_row by, pointers:vararg\n"
        "   .irp    next, \\pointers\n"
        "   add     \\next, \\next, \\by, lsl #2\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_pair_next first, others:vararg\n"
        "   ldr     lr, [r0, #40]\n"
        "   .ifb    \\others\n"
        "   poet_add_row lr, r1, r7\n"
        "   .else\n"
        "   poet_add_row lr, \\first, \\others\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_one_next pointers:vararg\n"
        "   poet_add_row r7, \\pointers\n"
        "   .endm\n"
        "   .macro poet_pair_begin\n"
        "   add     r7, r1, r7, lsl #2\n"
        "   .endm\n"
        "   .macro poet_one_begin\n"
        "   ldr     r7, [r0, #40]\n"
        "   .endm\n"
        "   .macro poet_pair_sample by\n"
        "   poet_add_row \\by, r1, r7\n"
        "   .endm\n"
        "   .macro poet_one_sample by\n"
        "   poet_add_row \\by, r1\n"
        "   .endm\n"
        "   .macro poet_end_row channels, pair_step, four_step\n"
        "   poet_\\channels\\()_add\n"
        "   .if     \\pair_step+\\four_step-2\n"
        "   .if     \\pair_step-1\n"
        "   poet_\\channels\\()_next r1\n"
        "   .else\n"
        "   poet_\\channels\\()_next r2, r3, r4, r5\n"
        "   .endif\n"
        "   .endif\n"
        "   subs    r12, r12, #1\n"
        "   .endm\n"
        "   .macro poet_begin_row channels, pair_step, four_step, count\n"
        "1\\count: poet_\\channels\\()_columns begin, \\pair_step, \\four_step, \\count\n"
        "   movs    lr, r10\n"
        "   bne.w   20f\n"
        "   poet_end_row \\channels, \\pair_step, \\four_step\n"
        "   bne.w   1\\count\\()b\n"
        "   b.w     21f\n"
        "   .endm\n"

        /* One of the steps is 1; the other is 1, 2, or 0 for x_step. */
        "   .macro poet_fours name, channels, pair_step, four_step, saved, last\n"
        "   poet_function \\name\n"
        "   .ifeq   \\pair_step+\\four_step-3\n"
        "   ldr     r12, [r0, #36]\n"
        "   add     r12, r12, #1\n"
        "   .if     \\pair_step-1\n"
        "   add     r1, r1, r12, lsl #3\n"
        "   .else\n"
        "   add     r2, r2, r12, lsl #3\n"
        "   .endif\n"
        "   .endif\n"
        "   push    {r0-r11, lr}\n"
        "   vpush   {s16-s\\last}\n"
        "   ldr     r4, [r0, #52]\n"
        "   str     r4, [sp, #\\saved]\n"
        "   add     lr, r0, #24\n"
        "   ldmia   lr, {r8-r11}\n"
        "   .ifeq   \\pair_step*\\four_step\n"
        "   ldr     r9, [r0, #56]\n"
        "   .endif\n"
        "   adr     lr, 24f\n"
        "   ldrsh   r11, [lr, r11, lsl #1]\n"
        "   add     r11, lr, r11\n"
        "10: ldmia  r0, {r3-r7, r12}\n"
        "   movs    lr, #0\n"
        "   poet_\\channels\\()_clear\n"
        "   poet_\\channels\\()_begin\n"
        "   add     r3, r2, r3, lsl #2\n"
        "   add     r4, r3, r4, lsl #2\n"
        "   add     r5, r4, r5, lsl #2\n"
        "   bx      r11\n"
        "   .irp    count, 1, 2, 3, 4\n"
        "   poet_begin_row \\channels, \\pair_step, \\four_step, \\count\n"
        "   .endr\n"
        "20: poet_\\channels\\()_columns add, \\pair_step, \\four_step, 4\n"
        "   subs    lr, lr, #1\n"
        "   bne.w   20b\n"
        "   poet_end_row \\channels, \\pair_step, \\four_step\n"
        "   it      ne\n"
        "   bxne    r11\n"
        "21: subs   r6, r6, #1\n"
        "   beq.n   22f\n"
        "   .if     \\pair_step*\\four_step\n"
        "   poet_\\channels\\()_sample r9\n"
        "   .else\n"
        "   ldr     r12, [r0, #28]\n"
        "   poet_\\channels\\()_sample r12\n"
        "   .endif\n"
        "   ldr     r12, [r0, #20]\n"
        "   poet_add_row r8, r2, r3, r4, r5\n"
        "   bx      r11\n"
        "22: ldr    r3, [r0]\n"
        "   ldrd    r1, r2, [r0, #44]\n"
        "   add     lr, sp, #\\saved\n"
        "   ldmia   lr, {r4-r7}\n"
        "   poet_\\channels\\()_put\n"
        "   add     r6, r6, r3, lsl #4\n"
        "   mov     r1, r5\n"
        "   mov     r2, r6\n"
        "   subs    r4, r4, #1\n"
        "   stmia   lr, {r4-r7}\n"
        "   bne.w   10b\n"
        "   vpop    {s16-s\\last}\n"
        "   add     sp, sp, #16\n"
        "   pop     {r4-r11, pc}\n"
        "   .p2align 2\n"
        "24: .short 11b - 24b + 1, 12b - 24b + 1, 13b - 24b + 1, 14b - 24b + 1\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_fours poet_conv2d_pair_fours_f32, pair, 1, 1, 64, 31\n"
        "   poet_fours poet_conv2d_one_fours_f32, one, 1, 1, 24, 21\n"
        "   poet_fours poet_conv2d_pair_by_2_fours_f32, pair, 2, 1, 64, 31\n"
        "   poet_fours poet_conv2d_one_by_2_fours_f32, one, 2, 1, 24, 21\n"
        "   poet_fours poet_conv2d_pair_fours_by_2_f32, pair, 1, 2, 64, 31\n"
        "   poet_fours poet_conv2d_one_fours_by_2_f32, one, 1, 2, 24, 21\n"
        "   poet_fours poet_conv2d_pair_by_any_fours_f32, pair, 0, 1, 64, 31\n"
        "   poet_fours poet_conv2d_one_by_any_fours_f32, one, 0, 1, 24, 21\n"
        "   poet_fours poet_conv2d_pair_fours_by_any_f32, pair, 1, 0, 64, 31\n"
        "   poet_fours poet_conv2d_one_fours_by_any_f32, one, 1, 0, 24, 21\n"
        "   .noaltmacro\n");

#else

/* The same sums in C. */
#define UNROLLED _Pragma("GCC unroll 4")

/* Of a row, and to the next one in x. */
#define COLUMNS (at->first + 1 + POET_STRIP * at->strips)
#define ROW_BY_2 (at->x_row + 2 * POET_STRIP * at->strips)
#define ROW_BY_ANY (at->x_row + ANY * COLUMNS)
#define ANY (at->x_step / (int32_t)sizeof(float))

static inline __attribute__((always_inline)) void
sum_fours(const struct poet_fours *at, const float *pair, const float *four, float *result,
          int32_t channels, int32_t pair_step, int32_t pair_row, int32_t four_step, int32_t four_row)
{
    const int32_t columns = COLUMNS;
    for (int32_t block = 0; block < at->blocks; block++) {
        const float *p = pair;
        const float *f = four;
        float totals[4][2] = {{0.0f}};
        for (int32_t n = 0; n < at->samples; n++) {
            for (int32_t row = 0; row < at->rows; row++) {
                float sums[4][2] = {{0.0f}};
                for (int32_t column = 0; column < columns; column++) {
                    const float *factors = f + column * four_step;
                    UNROLLED
                    for (int32_t i = 0; i < 4; i++) {
                        factors += i > 0 ? at->four_other[i - 1] : 0;
                        const float factor = *factors;
                        UNROLLED
                        for (int32_t c = 0; c < channels; c++) {
                            sums[i][c] += p[c * at->pair_other + column * pair_step] * factor;
                        }
                    }
                }
                UNROLLED
                for (int32_t i = 0; i < 4; i++) {
                    UNROLLED
                    for (int32_t c = 0; c < channels; c++) {
                        totals[i][c] += sums[i][c];
                    }
                }
                p += pair_row;
                f += four_row;
            }
            p += at->pair_next;
            f += at->four_next;
        }
        for (int32_t i = 0; i < 4; i++) {
            for (int32_t c = 0; c < channels; c++) {
                result[c * at->result_pair] = totals[i][c];
            }
            result += at->result_four;
        }
        four += 4 * at->four_other[0];
    }
}

#define FOURS(name, ...)                                                                       \
    void poet_conv2d_##name##_f32(const struct poet_fours *at, const float *pair,              \
                                  const float *four, float *result)                            \
    {                                                                                          \
        sum_fours(at, pair, four, result, __VA_ARGS__);                                        \
    }

FOURS(pair_fours, 2, 1, COLUMNS, 1, COLUMNS)
FOURS(one_fours, 1, 1, COLUMNS, 1, COLUMNS)
FOURS(pair_by_2_fours, 2, 2, ROW_BY_2, 1, COLUMNS)
FOURS(one_by_2_fours, 1, 2, ROW_BY_2, 1, COLUMNS)
FOURS(pair_fours_by_2, 2, 1, COLUMNS, 2, ROW_BY_2)
FOURS(one_fours_by_2, 1, 1, COLUMNS, 2, ROW_BY_2)
FOURS(pair_by_any_fours, 2, ANY, ROW_BY_ANY, 1, COLUMNS)
FOURS(one_by_any_fours, 1, ANY, ROW_BY_ANY, 1, COLUMNS)
FOURS(pair_fours_by_any, 2, 1, COLUMNS, ANY, ROW_BY_ANY)
FOURS(one_fours_by_any, 1, 1, COLUMNS, ANY, ROW_BY_ANY)

#endif
