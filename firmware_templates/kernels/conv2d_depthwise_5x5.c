/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_5x5.h"

#include <stdbool.h>
#include <stddef.h>

#include "assembly.h"
#include "conv2d_positions.h"
#include "conv2d_taps.h"

/* Padding is computed as zeros, which leave the bits of every sum of finite numbers as they are; where weights are not
 * finite, conv2d.c's loops compute the pass. They are what other cores take, too. */

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Rows and columns of a kernel, and columns of results that go down a plane together; for dX by 2 more. */
enum { KERNEL = 5, TAPS = KERNEL * KERNEL, STRIP = 4, WIDE = 2 * STRIP };

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))
#define EACH_ROW _Pragma("GCC unroll 5")

/* In this order in assembly. What is next counts elements. */
struct strip {
    int32_t source_next; /* to the next row */
    int32_t samples;
    int32_t sources; /* rows */
    int32_t result_next;
    int32_t columns;       /* of results that are stored */
    uint32_t load;         /* where in a table the instruction is that loads a row */
    float shift;           /* for each result; not -0 */
    int32_t source_sample; /* from where a sample's next row would be to the next sample's first */
    int32_t result_sample;
    /* For dX by 2, which goes up dy for dx's even rows, and again for its odd ones: */
    int32_t again_result; /* from where an even row before the first would be to the last odd one */
    int32_t again;        /* 0 where the last row is odd, 1 where it is even, -1 where it is the only one */
};

/* `source` is the first column of the first row that the strip meets and that is no padding. */
typedef void sum_strip_f32(const struct strip *strip, const float *source, const float *weight,
                           float *result);

sum_strip_f32 poet_conv2d_depthwise_5x5_strip_f32;
sum_strip_f32 poet_conv2d_depthwise_5x5_strip_backwards_f32; /* along columns, for dX */
sum_strip_f32 poet_conv2d_depthwise_5x5_by_2_strip_f32;
sum_strip_f32 poet_conv2d_depthwise_5x5_by_2_wide_strip_f32; /* dX, from the last row of dy up */

/* Rows that a row of the kernel meets in each sample. In this order in assembly. */
struct tap_row {
    int32_t x; /* elements before the first one */
    int32_t dy;
    int32_t rows;   /* below 0 behind the last */
    int32_t x_next; /* from behind a sample's last row to the next one's first */
    int32_t dy_next;
};

/* Columns of dy in a group: a row begins with 1 to as many, so that what is left are groups. */
enum { COLUMNS = 8, COLUMNS_BY_2 = 4 };

/* In this order in assembly. */
struct taps {
    int32_t samples;
    int32_t groups;   /* behind the first columns, times 2, and 1 where of the last two columns of x but one is padding */
    int32_t row_next; /* from behind a row of x to the next that is met */
    int32_t first;    /* columns that the first ones are short of a group */
    struct tap_row rows[KERNEL + 1];
};

/* Totals of the sums of each row. */
typedef void sum_taps_f32(const struct taps *taps, const float *x, const float *dy,
                          float totals[TAPS]);

sum_taps_f32 poet_conv2d_depthwise_5x5_taps_f32;
sum_taps_f32 poet_conv2d_depthwise_5x5_by_2_taps_f32;

/* Columns that a strip loads, and instructions in its table. */
enum {
    LOADED = STRIP + 4,
    LOADS = 10,
    LOADED_BY_2 = 2 * STRIP + 3,
    LOADS_BY_2 = 12,
    LOADED_WIDE = STRIP + 2,
    LOADS_WIDE = 7
};

/* A row of the source is loaded once, and ends, goes on with and begins rows of results, of which those outside the plane are
 * left out. What is added last to a sum moves it along, too. Registers that a load leaves alone stay 0: padding.
 *   by 1: s0-s7 a row of the source, s8-s12 a row of weights, s13-s15 products, s16-s31 sums of four rows of results
 *   by 2: s0-s10, s11-s15, s24-s26, s16-s23 of two rows, s28 0
 *   dX of that: s0-s5, s6-s10, s11-s13, s16-s31 of two rows, s14 0
 *   dW: s0-s11 columns of x, s12-s19 of dy, s20-s21 products, s22-s26 sums of a row, s27-s31 totals
 *   dW by 2: s0-s10, s16-s19, the same, s15 0 */
__asm__(POET_ASSEMBLY
        "   .macro sum_one to, from, what\n"
        "   vadd.f32 s\\to, s\\from, s\\what\n"
        "   .endm\n"
        "   .macro move_one to, from\n"
        "   vmov.f32 s\\to, s\\from\n"
        "   .endm\n"
        "   .macro load_row after, columns\n"
        "   vldmia  r1, {\\columns}\n"
        "   \\after\n"
        "   .endm\n"

        /* A weight's products with four columns, `step` apart, for four sums, `apart`: alone, and added to others. */
        "   .macro poet_begin to, apart, source, step, weight\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\to+\\apart*\\at, %\\source+\\step*\\at, \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_add to, from, apart, source, step, weight, product\n"
        "   multiply_one \\product, \\source, \\weight\n"
        "   multiply_one %\\product+1, %\\source+\\step, \\weight\n"
        "   multiply_one %\\product+2, %\\source+2*\\step, \\weight\n"
        "   sum_one \\to, \\from, \\product\n"
        "   multiply_one \\product, %\\source+3*\\step, \\weight\n"
        "   sum_one %\\to+\\apart, %\\from+\\apart, %\\product+1\n"
        "   sum_one %\\to+2*\\apart, %\\from+2*\\apart, %\\product+2\n"
        "   sum_one %\\to+3*\\apart, %\\from+3*\\apart, \\product\n"
        "   .endm\n"

        /* A row of results. */
        "   .macro poet_put shift\n"
        "   vldr    s\\shift, [r0]\n"
        "   .irp    sum, 16, 17, 18, 19\n"
        "   add_one \\sum, \\shift\n"
        "   .endr\n"
        "   cmp     r9, #4\n"
        "   bne.n   1f\n"
        "   vstmia  r3, {s16-s19}\n"
        "   b.n     2f\n"
        "1: vstr    s16, [r3]\n"
        "   cmp     r9, #2\n"
        "   blt.n   2f\n"
        "   vstr    s17, [r3, #4]\n"
        "   beq.n   2f\n"
        "   vstr    s18, [r3, #8]\n"
        "2: add     r3, r3, r7, lsl #2\n"
        "   .endm\n"

        /* r4, r7  what is next    r5  samples left    r6, r8  rows, rows left    r9  columns    r12  what loads a row */
        "   .macro poet_strip_begin\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0!, {r4-r7, r9, r12}\n"
        "   mov     r8, r6\n"
        "   movs    r10, #0\n"
        "   vmov    s0, r10\n"
        "   .endm\n"
        /* from 0 on for the next sample */
        "   .macro poet_next_sample\n"
        "   ldrd    r8, lr, [r0, #4]\n"
        "   add     r1, r1, r8, lsl #2\n"
        "   add     r3, r3, lr, lsl #2\n"
        "   mov     r8, r6\n"
        "   subs    r5, r5, #1\n"
        "   bne.w   0b\n"
        "   .endm\n"
        "   .macro poet_strip_end\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   .endm\n"

        /* By 1: a row of the kernel, whose taps meet these columns. */
        "   .macro poet_row to, from, first, second, third, fourth, fifth\n"
        "   vldmdb  r2!, {s8-s12}\n"
        "   poet_add \\from, \\from, 1, \\first, 1, 8, 13\n"
        "   poet_add \\from, \\from, 1, \\second, 1, 9, 13\n"
        "   poet_add \\from, \\from, 1, \\third, 1, 10, 13\n"
        "   poet_add \\from, \\from, 1, \\fourth, 1, 11, 13\n"
        "   poet_add \\to, \\from, 1, \\fifth, 1, 12, 13\n"
        "   .endm\n"
        "   .macro poet_first_row to, first, second, third, fourth, fifth\n"
        "   vldmdb  r2!, {s8-s12}\n"
        "   poet_begin \\to, 1, \\first, 1, 8\n"
        "   poet_add \\to, \\to, 1, \\second, 1, 9, 13\n"
        "   poet_add \\to, \\to, 1, \\third, 1, 10, 13\n"
        "   poet_add \\to, \\to, 1, \\fourth, 1, 11, 13\n"
        "   poet_add \\to, \\to, 1, \\fifth, 1, 12, 13\n"
        "   .endm\n"

        /* A row of the source ends a row of results, s16-s19, goes on with three and begins one.
         * r10  rows, of two, that end none and are left; below 0 behind them    r11  weights */
        "   .macro poet_strip name, columns:vararg\n"
        "   poet_function \\name\n"
        "   poet_strip_begin\n"
        "   mov     r11, r2\n"
        "   .irp    zero, 1, 2, 3, 4, 5, 6, 7\n"
        "   vmov.f32 s\\zero, s0\n"
        "   .endr\n"
        "   adr     r10, 3f\n"
        "   add     r12, r12, r10\n"
        "0: movs    r10, #0\n"
        "   vmov    s24, r10\n"
        "   .irp    zero, 25, 26, 27, 28, 29, 30, 31\n"
        "   vmov.f32 s\\zero, s24\n"
        "   .endr\n"
        "   movs    r10, #2\n"
        "   bx      r12\n"
        "   .p2align 2\n"
        "3:\n"
        "   .irp    loaded, s2, s2-s3, s2-s4, s2-s5, s2-s6, s2-s7, s0-s4, s0-s5, s0-s6\n"
        "   load_row <b.n 4f>, \\loaded\n"
        "   .endr\n"
        "   vldmia  r1, {s0-s7}\n"
        "4: subs    r10, r10, #1\n"
        "   bpl.w   8f\n"
        "   add     r2, r11, #100\n"
        "   poet_row 16, 16, \\columns\n"
        "   poet_put 8\n"
        "5: poet_row 16, 20, \\columns\n"
        "6: poet_row 20, 24, \\columns\n"
        "   subs    r8, r8, #1\n"
        "   beq.w   9f\n"
        "   poet_row 24, 28, \\columns\n"
        "   cmp     r8, #1\n"
        "   beq.n   7f\n"
        "   poet_first_row 28, \\columns\n"
        "7: add     r1, r1, r4, lsl #2\n"
        "   bx      r12\n"
        "8: add     r2, r11, #60\n" /* the first row, and the second */
        "   bne.w   6b\n"
        "   add     r2, r11, #80\n"
        "   b.w     5b\n"
        "9: add     r1, r1, r4, lsl #2\n"
        "   cmp     r10, #1\n"
        "   beq.n   3f\n"
        "   poet_put 8\n"
        "3: .irp    at, 0, 1, 2, 3\n"
        "   move_one %16+\\at, %20+\\at\n"
        "   .endr\n"
        "   poet_put 8\n"
        "   poet_next_sample\n"
        "   poet_strip_end\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_strip poet_conv2d_depthwise_5x5_strip_f32, 0, 1, 2, 3, 4\n"
        "   poet_strip poet_conv2d_depthwise_5x5_strip_backwards_f32, 4, 3, 2, 1, 0\n"

        /* By 2: a row of the kernel. */
        "   .macro poet_row_by_2 row, to, from\n"
        "   add     lr, r2, #20*\\row\n"
        "   vldmia  lr, {s11-s15}\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_add \\from, \\from, 1, \\at, 2, %11+\\at, 24\n"
        "   .endr\n"
        "   poet_add \\to, \\from, 1, 4, 2, 15, 24\n"
        "   .endm\n"

        /* r10  where the next row of the source is added */
        "   poet_function poet_conv2d_depthwise_5x5_by_2_strip_f32\n"
        "   poet_strip_begin\n"
        "   .irp    zero, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 28\n"
        "   vmov.f32 s\\zero, s0\n"
        "   .endr\n"
        "   adr     r10, 3f\n"
        "   add     r12, r12, r10\n"
        "0: .irp    zero, 20, 21, 22, 23\n"
        "   vmov.f32 s\\zero, s28\n"
        "   .endr\n"
        "   adr     r10, 7f + 1\n"
        "   bx      r12\n"
        "   .p2align 2\n"
        "3:\n"
        "   .irp    columns, s2, s2-s3, s2-s4, s2-s5, s2-s6, s2-s7, s2-s8, s2-s9, s2-s10\n"
        "   load_row <bx r10>, \\columns\n"
        "   .endr\n"
        "   .irp    columns, s0-s8, s0-s9, s0-s10\n"
        "   load_row <bx r10>, \\columns\n"
        "   .endr\n"
        /* an even row ends a row of results, goes on with one and begins one */
        "   .p2align 2\n"
        "4: poet_row_by_2 4, 16, 16\n"
        "   poet_put 11\n"
        "7: poet_row_by_2 2, 16, 20\n"
        "   cmp     r8, #3\n"
        "   blt.n   8f\n"
        "   vldmia  r2, {s11-s15}\n"
        "   poet_begin 20, 1, 0, 2, 11\n"
        "   .irp    at, 1, 2, 3, 4\n"
        "   poet_add 20, 20, 1, \\at, 2, %11+\\at, 24\n"
        "   .endr\n"
        "8: adr     r10, 5f + 1\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   subs    r8, r8, #1\n"
        "   beq.w   6f\n"
        "   bx      r12\n"
        /* an odd row goes on with two */
        "   .p2align 2\n"
        "5: poet_row_by_2 3, 16, 16\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   subs    r8, r8, #1\n"
        "   beq.n   6f\n"
        "   poet_row_by_2 1, 20, 20\n"
        "   adr     r10, 4b + 1\n"
        "   bx      r12\n"
        "6: poet_put 11\n"
        "   poet_next_sample\n"
        "   poet_strip_end\n"
        "   poet_function_end poet_conv2d_depthwise_5x5_by_2_strip_f32\n"

        /* dX by 2: every other column has met the kernel's even columns, those between its odd ones. */
        "   .macro poet_wide_row row, to, from\n"
        "   add     lr, r2, #20*\\row\n"
        "   vldmia  lr, {s6-s10}\n"
        "   poet_add \\from, \\from, 2, 2, 1, 6, 11\n"
        "   poet_add %1+\\from, %1+\\from, 2, 2, 1, 7, 11\n"
        "   poet_add \\from, \\from, 2, 1, 1, 8, 11\n"
        "   poet_add %1+\\to, %1+\\from, 2, 1, 1, 9, 11\n"
        "   poet_add \\to, \\from, 2, 0, 1, 10, 11\n"
        "   .endm\n"
        "   .macro poet_first_wide_row row, to\n"
        "   add     lr, r2, #20*\\row\n"
        "   vldmia  lr, {s6-s10}\n"
        "   poet_begin \\to, 2, 2, 1, 6\n"
        "   poet_begin %1+\\to, 2, 2, 1, 7\n"
        "   poet_add \\to, \\to, 2, 1, 1, 8, 11\n"
        "   poet_add %1+\\to, %1+\\to, 2, 1, 1, 9, 11\n"
        "   poet_add \\to, \\to, 2, 0, 1, 10, 11\n"
        "   .endm\n"
        "   .macro poet_put_wide\n"
        "   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   add_one \\sum, 14\n"
        "   .endr\n"
        "   adr     lr, 1f + 1\n"
        "   cmp     r9, #8\n"
        "   it      ne\n"
        "   bxne    r11\n"
        "   vstmia  r3, {s16-s23}\n"
        "1: add     r3, r3, r7, lsl #2\n"
        "   .endm\n"
        "   .macro poet_put_some columns\n"
        "   vstmia  r3, {\\columns}\n"
        "   bx      lr\n"
        "   .endm\n"

        /* r10  where a row of dy is added    r11  what stores some columns */
        "   poet_function poet_conv2d_depthwise_5x5_by_2_wide_strip_f32\n"
        "   poet_strip_begin\n"
        "   .irp    zero, 1, 2, 3, 4, 5, 14\n"
        "   vmov.f32 s\\zero, s0\n"
        "   .endr\n"
        "   sub     lr, r9, #1\n"
        "   add     lr, lr, lr, lsl #1\n"
        "   adr     r11, 4f + 1\n"
        "   add     r11, r11, lr, lsl #1\n"
        "   adr     r10, 3f\n"
        "   add     r12, r12, r10\n"
        "0: .irp    zero, 24, 25, 26, 27, 28, 29, 30, 31\n"
        "   vmov.f32 s\\zero, s14\n"
        "   .endr\n"
        "   adr     r10, 8f + 1\n"
        "   bx      r12\n"
        "   .p2align 2\n"
        "3:\n"
        "   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s0-s4, s0-s5\n"
        "   load_row <bx r10>, \\columns\n"
        "   .endr\n"
        "   .p2align 2\n"
        "4:\n"
        "   .irp    columns, s16, s16-s17, s16-s18, s16-s19, s16-s20, s16-s21, s16-s22\n"
        "   poet_put_some \\columns\n"
        "   .endr\n"
        /* rows of dx whose number is even: as above */
        "   .p2align 2\n"
        "5: poet_wide_row 4, 16, 16\n"
        "   poet_put_wide\n"
        "8: poet_wide_row 2, 16, 24\n"
        "   add     r1, r1, r4, lsl #2\n"
        "   subs    r8, r8, #1\n"
        "   beq.w   9f\n"
        "   poet_first_wide_row 0, 24\n"
        "   adr     r10, 5b + 1\n"
        "   bx      r12\n"
        "9: poet_put_wide\n"
        "   ldrd    r8, lr, [r0, #12]\n"
        "   cmp     lr, #0\n"
        "   blt.w   9f\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   mul     r8, r6, r4\n"
        "   sub     r1, r1, r8, lsl #2\n"
        "   mov     r8, r6\n"
        "   .irp    zero, 16, 17, 18, 19, 20, 21, 22, 23\n"
        "   vmov.f32 s\\zero, s14\n"
        "   .endr\n"
        "   adr     r10, 6f + 1\n"
        "   it      gt\n"
        "   adrgt   r10, 7f + 1\n"
        "   bx      r12\n"
        /* those whose number is odd: a row of dy ends one and begins one */
        "   .p2align 2\n"
        "6: poet_wide_row 3, 16, 16\n"
        "   poet_put_wide\n"
        "7: add     r1, r1, r4, lsl #2\n"
        "   subs    r8, r8, #1\n"
        "   beq.n   9f\n"
        "   poet_first_wide_row 1, 16\n"
        "   adr     r10, 6b + 1\n"
        "   bx      r12\n"
        "9: poet_next_sample\n"
        "   poet_strip_end\n"
        "   poet_function_end poet_conv2d_depthwise_5x5_by_2_wide_strip_f32\n"

        /* dW: a column of dy and its five of x. */
        "   .macro poet_column at, source, gradient\n"
        "   multiply_one 20, \\source, \\gradient\n"
        "   multiply_one 21, %1+\\source, \\gradient\n"
        "   add_one 22, 20\n"
        "   multiply_one 20, %2+\\source, \\gradient\n"
        "   add_one 23, 21\n"
        "   multiply_one 21, %3+\\source, \\gradient\n"
        "   add_one 24, 20\n"
        "   multiply_one 20, %4+\\source, \\gradient\n"
        "   add_one 25, 21\n"
        "   add_one 26, 20\n"
        "   .endm\n"
        "   .macro poet_load_up_to last, from, first\n"
        "   .if \\first < \\last\n"
        "   vldmia  \\from!, {s\\first-s\\last}\n"
        "   .else\n"
        "   vldmia  \\from!, {s\\first}\n"
        "   .endif\n"
        "   .endm\n"
        /* the last two columns of x, where they are no padding */
        "   .macro poet_load_last one, other\n"
        "   it      cs\n"
        "   vldmiacs r1!, {s\\one}\n"
        "   it      hi\n"
        "   vldmiahi r1!, {s\\other}\n"
        "   .endm\n"
        /* where a row begins with some columns of a group: 32 bytes for each number of them */
        "   .macro poet_first_columns at, padding, last, zero\n"
        "   move_one \\padding, \\zero\n"
        "   move_one %1+\\padding, \\zero\n"
        "   poet_load_up_to 19, r2, \\at\n"
        "   poet_load_up_to \\last, r1, %2+\\padding\n"
        "   poet_load_last %1+\\last, %2+\\last\n"
        "   b.w     \\at\\()f\n"
        "   .endm\n"

        /* 0 where a product was */
        "   .macro poet_clear_15\n"
        "   .endm\n"
        "   .macro poet_clear_20\n"
        "   vmov    s20, r11\n"
        "   .endm\n"

        /* r1, r2  x, dy    r3  totals    r4  samples left    r5  groups    r6  row_next    r7  where a row begins
         * r8, r12  rows, rows left    r9, r10  what is next    r11  0    lr  groups left    [sp]  samples, x, dy */
        "   .macro poet_taps name, step, zero, first, last, columns:vararg\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   ldmia   r0!, {r4-r7}\n"
        "   push    {r1, r2}\n"
        "   push    {r4}\n"
        "   adr     r12, 5f + 1\n"
        "   add     r7, r12, r7, lsl #5\n"
        "   mov     r11, #0\n"
        "   vmov    s\\zero, r11\n"
        "1: ldmia   r0!, {r1, r2, r8-r10}\n"
        "   ldm     sp, {r4, r12, lr}\n"
        "   add     r1, r12, r1, lsl #2\n"
        "   add     r2, lr, r2, lsl #2\n"
        "   vmov    s27, r11\n"
        "   .irp    total, 28, 29, 30, 31\n"
        "   move_one \\total, 27\n"
        "   .endr\n"
        "   cmp     r8, #0\n"
        "   blt.w   9f\n"
        "   beq.w   8f\n"
        "2: mov     r12, r8\n"
        "3: poet_clear_\\zero\n"
        "   .irp    number, 22, 23, 24, 25, 26, %1+\\last, %2+\\last\n"
        "   move_one \\number, \\zero\n"
        "   .endr\n"
        "   mov     lr, r5\n"
        "   cmp     lr, #1\n"
        "   bx      r7\n"
        "   .p2align 2\n"
        "5:\n"
        "   .irp    at, \\columns\n"
        "   poet_first_columns \\at, %\\step*(\\at-\\first), \\last, \\zero\n"
        "   .endr\n"
        /* a group */
        "4: .irp    at, 0, 1, 2, 3\n"
        "   .if \\at < 5-\\step\n"
        "   move_one \\at, %\\at+\\last+\\step-2\n"
        "   .endif\n"
        "   .endr\n"
        "   poet_load_up_to \\last, r1, %5-\\step\n"
        "   poet_load_up_to 19, r2, \\first\n"
        "   poet_clear_\\zero\n"
        "   move_one %1+\\last, \\zero\n"
        "   move_one %2+\\last, \\zero\n"
        "   cmp     lr, #1\n"
        "   poet_load_last %1+\\last, %2+\\last\n"
        "   .irp    at, \\columns\n"
        "\\at:\n"
        "   poet_column \\at, %\\step*(\\at-\\first), \\at\n"
        "   .endr\n"
        "   subs    lr, lr, #2\n"
        "   bpl.w   4b\n"
        "   .irp    sum, 22, 23, 24, 25, 26\n"
        "   add_one %5+\\sum, \\sum\n"
        "   .endr\n"
        "   add     r1, r1, r6, lsl #2\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   3b\n"
        "   add     r1, r1, r9, lsl #2\n"
        "   add     r2, r2, r10, lsl #2\n"
        "   subs    r4, r4, #1\n"
        "   bne.w   2b\n"
        "8: vstmia  r3!, {s27-s31}\n"
        "   b.w     1b\n"
        "9: add     sp, sp, #12\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_taps poet_conv2d_depthwise_5x5_taps_f32, 1, 20, 12, 9, 12, 13, 14, 15, 16, 17, 18, 19\n"
        "   poet_taps poet_conv2d_depthwise_5x5_by_2_taps_f32, 2, 15, 16, 8, 16, 17, 18, 19\n"
        "   .noaltmacro\n");

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

/* The instruction that loads so many columns from `first` on, of which those before 0 and behind the last are padding. */
static uint32_t load_of(int32_t first, int32_t columns, int32_t loads, int32_t sources)
{
    const int32_t missing = columns - least(columns, sources - first);
    const int32_t load = (first < 0 ? columns + first : loads) - 1 - missing;
    return (uint32_t)(6 * load) + 1u;
}

/* As poet_are_finite, which takes more than twice as long. */
static bool are_finite(const struct poet_conv2d *op, const float *weight)
{
    float sum = 0.0f;
    for (int32_t row = 0; row < KERNEL * op->groups; row++) {
        EACH_ROW
        for (int32_t tap = 0; tap < KERNEL; tap++) {
            sum += *weight++;
        }
    }
    return 0.0f * sum == 0.0f;
}

/* A plane whose source has these extents: strips of which the last may make results again. One that would begin with a single
 * column of padding begins with none. */
static void sum_strips(struct strip *strip, sum_strip_f32 *sum, int32_t stride, int32_t width,
                       int32_t results, const float *source, const float *weight, float *result)
{
    for (int32_t at = 0; at < results; at += STRIP) {
        if (at > results - STRIP && results >= STRIP) {
            at = results - STRIP;
        }
        if (stride * at == 1) {
            at++;
        }
        const int32_t first = stride * at - 2;
        strip->columns = least(STRIP, results - at);
        strip->load = stride > 1 ? load_of(first, LOADED_BY_2, LOADS_BY_2, width)
                                : load_of(first, LOADED, LOADS, width);
        sum(strip, first < 0 ? source : source + first, weight, result + at);
    }
}

static void sum_forward(const struct poet_conv2d *op, sum_strip_f32 *sum, int32_t stride,
                        const float *x, const float *w, const float *b, float *y)
{
    if (!are_finite(op, w)) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t y_plane = op->out_height * op->out_width;
    struct strip strip = {
        .source_next = op->in_width,
        .result_next = op->out_width,
        .sources = op->in_height,
        .samples = op->batch,
        .source_sample = (op->groups - 1) * x_plane,
        .result_sample = (op->groups - 1) * y_plane,
    };
    for (int32_t channel = 0; channel < op->groups; channel++) {
        strip.shift = b != NULL ? 0.0f + b[channel] : 0.0f;
        sum_strips(&strip, sum, stride, op->in_width, op->out_width, x, w, y);
        x += x_plane;
        w += TAPS;
        y += y_plane;
    }
}

void poet_conv2d_depthwise_5x5_forward_f32(const struct poet_conv2d *op, const float *x,
                                           const float *w, const float *b, float *y)
{
    sum_forward(op, poet_conv2d_depthwise_5x5_strip_f32, 1, x, w, b, y);
}

void poet_conv2d_depthwise_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                                const float *w, const float *b, float *y)
{
    sum_forward(op, poet_conv2d_depthwise_5x5_by_2_strip_f32, 2, x, w, b, y);
}

/* From the last row of a plane up. */
void poet_conv2d_depthwise_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                  const float *dy, float *dx)
{
    if (!are_finite(op, w)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t width = op->in_width;
    const int32_t plane = op->in_height * width;
    struct strip strip = {
        .source_next = -width,
        .result_next = -width,
        .sources = op->in_height,
        .samples = op->batch,
        .source_sample = (op->groups + 1) * plane,
        .result_sample = (op->groups + 1) * plane,
    };
    for (int32_t channel = 0; channel < op->groups; channel++) {
        dy += plane;
        dx += plane;
        sum_strips(&strip, poet_conv2d_depthwise_5x5_strip_backwards_f32, 1, width, width,
                   dy - width, w, dx - width);
        w += TAPS;
    }
}

/* The same; strips begin with an even column. */
static void sum_wide_strips(const struct poet_conv2d *op, struct strip *strip, const float *dy,
                            const float *weight, float *dx)
{
    const int32_t width = op->in_width;
    for (int32_t at = 0; at < width; at += WIDE) {
        if (at > width - WIDE && width >= WIDE) {
            at = width - WIDE + width % 2;
        }
        const int32_t first = at / 2 - 1;
        strip->columns = least(WIDE, width - at);
        strip->load = load_of(first, LOADED_WIDE, LOADS_WIDE, op->out_width);
        poet_conv2d_depthwise_5x5_by_2_wide_strip_f32(strip, first < 0 ? dy : dy + first, weight,
                                                      dx + at);
    }
}

void poet_conv2d_depthwise_5x5_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                       const float *dy, float *dx)
{
    if (!are_finite(op, w)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const bool odd = op->in_height % 2 != 0;
    const int32_t rows = op->out_height;
    const int32_t width = op->in_width;
    const int32_t last_even_row = 2 * (rows - 1) * width;
    const int32_t dx_plane = op->in_height * width;
    const int32_t dy_plane = rows * op->out_width;
    struct strip strip = {
        .source_next = -op->out_width,
        .result_next = -2 * width,
        .sources = rows,
        .samples = op->batch,
        .source_sample = (op->groups + 1) * dy_plane,
        .result_sample =
            op->groups * dx_plane + last_even_row + (op->in_height > 1 ? width : 2 * width),
        .again_result = 2 * rows * width + (odd ? -width : width),
        .again = op->in_height == 1 ? -1 : odd ? 1 : 0,
    };
    for (int32_t channel = 0; channel < op->groups; channel++) {
        dy += dy_plane;
        sum_wide_strips(op, &strip, dy - op->out_width, w, dx + last_even_row);
        w += TAPS;
        dx += dx_plane;
    }
}

/* Gradients that a zero may have made NaN are taken again without it. */
static void sum_again(const struct poet_conv2d *op, const float *x, const float *dy,
                      float totals[TAPS])
{
    for (int32_t tap = 0; tap < KERNEL; tap++) {
        const struct poet_positions rows = poet_positions_of_tap(
            tap, op->stride_height, 2, op->in_height, op->out_height);
        poet_conv2d_sum_taps_again_f32(op, &rows, x, dy, totals + KERNEL * tap);
    }
}

INLINE void sum_weights(const struct poet_conv2d *op, sum_taps_f32 *sum, int32_t stride,
                        const float *x, const float *dy, const struct poet_gradient_sink *dw)
{
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    const int32_t columns = stride > 1 ? COLUMNS_BY_2 : COLUMNS;
    const int32_t groups = (op->out_width - 1) / columns;
    struct taps taps = {
        .samples = op->batch,
        .groups = 2 * groups + (stride > 1 && op->in_width % 2 == 0 ? 1 : 0),
        .row_next = (stride - 1) * op->in_width,
        .first = columns * (groups + 1) - op->out_width,
    };
    EACH_ROW
    for (int32_t row = 0; row < KERNEL; row++) {
        const int32_t above = 2 - row; /* rows of padding that it meets */
        const int32_t first = above > 0 ? (above + stride - 1) / stride : 0;
        const int32_t end = least((above + op->in_height + stride - 1) / stride, op->out_height);
        const int32_t rows = end > first ? end - first : 0;
        taps.rows[row] = (struct tap_row){
            .x = (stride * first - above) * op->in_width,
            .dy = first * op->out_width,
            .rows = rows,
            .x_next = op->groups * x_plane - stride * rows * op->in_width,
            .dy_next = op->groups * dy_plane - rows * op->out_width,
        };
    }
    taps.rows[KERNEL].rows = -1;
    for (int32_t channel = 0; channel < op->groups; channel++) {
        float totals[TAPS];
        float *to = dw->gradient != NULL ? dw->gradient + TAPS * channel : totals;
        sum(&taps, x + channel * x_plane, dy + channel * dy_plane, to);
        if (0.0f * to[TAPS / 2] != 0.0f) { /* the middle has met all of dy: it is not finite where dy is not */
            sum_again(op, x + channel * x_plane, dy + channel * dy_plane, to);
        }
        if (dw->gradient == NULL) {
            poet_gradient_sink_put_run_f32(dw, TAPS * channel, TAPS, totals);
        }
    }
}

void poet_conv2d_depthwise_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                   const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_weights(op, poet_conv2d_depthwise_5x5_taps_f32, 1, x, dy, &sink);
}

void poet_conv2d_depthwise_5x5_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_weights(op, poet_conv2d_depthwise_5x5_taps_f32, 1, x, dy, &sink);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op,
                                                        const float *x, const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_weights(op, poet_conv2d_depthwise_5x5_by_2_taps_f32, 2, x, dy, &sink);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_weights(op, poet_conv2d_depthwise_5x5_by_2_taps_f32, 2, x, dy, &sink);
}

#else

void poet_conv2d_depthwise_5x5_forward_f32(const struct poet_conv2d *op, const float *x,
                                           const float *w, const float *b, float *y)
{
    poet_conv2d_forward_f32(op, x, w, b, y);
}

void poet_conv2d_depthwise_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                  const float *dy, float *dx)
{
    poet_conv2d_backward_input_f32(op, w, dy, dx);
}

void poet_conv2d_depthwise_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                   const float *dy, float *dw)
{
    poet_conv2d_backward_weight_f32(op, x, dy, dw);
}

void poet_conv2d_depthwise_5x5_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
}

void poet_conv2d_depthwise_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                                const float *w, const float *b, float *y)
{
    poet_conv2d_forward_f32(op, x, w, b, y);
}

void poet_conv2d_depthwise_5x5_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                       const float *dy, float *dx)
{
    poet_conv2d_backward_input_f32(op, w, dy, dx);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op,
                                                        const float *x, const float *dy, float *dw)
{
    poet_conv2d_backward_weight_f32(op, x, dy, dw);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
}

#endif
