/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c. A row's first column begins its sums, which spares zeros and their addition.
 *   r1, r7  the pair    r2-r5  a four    r6, r12, lr  samples, rows, strips to do    r8, r9  four_next, pair_next or x_step
 *   r10  strips in a row    r11  what begins a row
 *   from [sp, #saved] on: blocks to do, the pair, a four and the result where a block begins
 * Of a pair: s0-s3 and s4-s7 its columns, s8-s11 those of one of four, s16-s23 a row's sums, s24-s31 totals.
 * Of one: s0-s3 its columns, s4-s7 and s8-s11 those of two of four, s14-s17 a row's sums, s18-s21 totals.
 * s12, s13  products */
/* Columns that lie beside each other, or every second one, behind which a row goes on: those are loaded where pointers
 * are behind the ones that a row begins with; or those that are r9 bytes apart. */
   .macro _load_1 way, from, to, last, count
   .if     \count-1
   vldmia  \from!, {s\to-s\last}
   .else
   vldmia  \from!, {s\to}
   .endif
   .endm
   .macro _load_column to, from, offset
   vldr    s\to, [\from, #\offset]
   .endm
   .macro _begin_columns from, to, count
   .irp    at, 0, 1, 2, 3
   .ifgt   \count-\at
   _load_column %\to+\at, \from, %8*\at-8*\count
   .endif
   .endr
   .endm
   .macro _add_columns from, to, count
   .irp    at, 0, 1, 2, 3
   _load_column %\to+\at, \from, %8*\at
   .endr
   add     \from, \from, #32
   .endm
   .macro _load_2 way, from, to, last, count
   _\way\()_columns \from, \to, \count
   .endm
   .macro _load_0 way, from, to, last, count
   .irp    at, 0, 1, 2, 3
   .ifgt   \count-\at
   _load_column %\to+\at, \from, 0
   add     \from, \from, r9
   .endif
   .endr
   .endm

/* A column's products, of two channels of the same four with one or of two. */
   .macro _begin_column first, second, a, b, c, d
   multiply_one \first, \a, \b
   multiply_one \second, \c, \d
   .endm
   .macro _add_column first, second, a, b, c, d
   multiply_one 12, \a, \b
   multiply_one 13, \c, \d
   add_one \first, 12
   add_one \second, 13
   .endm
   .macro _pair_sums way, step, count, four, first
   _load_\step \way, \four, 8, %7+\count, \count
   _\way\()_column \first, %1+\first, 0, 8, 4, 8
   .irp    at, 1, 2, 3
   .ifgt   \count-\at
   _add_column \first, %1+\first, \at, %8+\at, %4+\at, %8+\at
   .endif
   .endr
   .endm
   .macro _one_sums way, step, count, four, other, first
   _load_\step \way, \four, 4, %3+\count, \count
   _load_\step \way, \other, 8, %7+\count, \count
   _\way\()_column \first, %1+\first, 0, 4, 0, 8
   .irp    at, 1, 2, 3
   .ifgt   \count-\at
   _add_column \first, %1+\first, \at, %4+\at, \at, %8+\at
   .endif
   .endr
   .endm
   .macro _pair_columns way, pair_step, four_step, count
   _load_\pair_step \way, r1, 0, %\count-1, \count
   _load_\pair_step \way, r7, 4, %3+\count, \count
   _pair_sums \way, \four_step, \count, r2, 16
   _pair_sums \way, \four_step, \count, r3, 18
   _pair_sums \way, \four_step, \count, r4, 20
   _pair_sums \way, \four_step, \count, r5, 22
   .endm
   .macro _one_columns way, pair_step, four_step, count
   _load_\pair_step \way, r1, 0, %\count-1, \count
   _one_sums \way, \four_step, \count, r2, r3, 14
   _one_sums \way, \four_step, \count, r4, r5, 16
   .endm

/* A row's sums go to the totals, which begin as zeros. */
   .macro _pair_add
   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23
   add_one %8+\sum, \sum
   .endr
   .endm
   .macro _one_add
   .irp    sum, 14, 15, 16, 17
   add_one %4+\sum, \sum
   .endr
   .endm
   .macro clear_two first, second
   vmov    s\first, s\second, lr, lr
   .endm
   .macro _pair_clear
   .irp    total, 24, 26, 28, 30
   clear_two \total, %1+\total
   .endr
   .endm
   .macro _one_clear
   clear_two 18, 19
   clear_two 20, 21
   .endm
   .macro _pair_put
   .irp    total, 24, 26, 28, 30
   _put_two \total, %1+\total
   .endr
   .endm
   .macro _put_two first, second
   add     r12, r7, r2, lsl #2
   vstr    s\first, [r7]
   vstr    s\second, [r12]
   add     r7, r7, r1, lsl #2
   .endm
   .macro _one_put
   .irp    total, 18, 19, 20, 21
   vstr    s\total, [r7]
   add     r7, r7, r1, lsl #2
   .endr
   .endm

/* On to the next row; with stride > 1 some are left out. r7 says how many where it is no channel's. */
   .macro _add_row by, pointers:vararg
   .irp    next, \pointers
   add     \next, \next, \by, lsl #2
   .endr
   .endm
   .macro _pair_next first, others:vararg
   ldr     lr, [r0, #40]
   .ifb    \others
   _add_row lr, r1, r7
   .else
   _add_row lr, \first, \others
   .endif
   .endm
   .macro _one_next pointers:vararg
   _add_row r7, \pointers
   .endm
   .macro _pair_begin
   add     r7, r1, r7, lsl #2
   .endm
   .macro _one_begin
   ldr     r7, [r0, #40]
   .endm
   .macro _pair_sample by
   _add_row \by, r1, r7
   .endm
   .macro _one_sample by
   _add_row \by, r1
   .endm
   .macro _end_row channels, pair_step, four_step
   _\channels\()_add
   .if     \pair_step+\four_step-2
   .if     \pair_step-1
   _\channels\()_next r1
   .else
   _\channels\()_next r2, r3, r4, r5
   .endif
   .endif
   subs    r12, r12, #1
   .endm
   .macro _begin_row channels, pair_step, four_step, count
1\count: _\channels\()_columns begin, \pair_step, \four_step, \count
   movs    lr, r10
   bne.w   20f
   _end_row \channels, \pair_step, \four_step
   bne.w   1\count\()b
   b.w     21f
   .endm

/* One of the steps is 1; the other is 1, 2, or 0 for x_step. */
   .macro _fours name, channels, pair_step, four_step, saved, last
   function \name
   .ifeq   \pair_step+\four_step-3
   ldr     r12, [r0, #36]
   add     r12, r12, #1
   .if     \pair_step-1
   add     r1, r1, r12, lsl #3
   .else
   add     r2, r2, r12, lsl #3
   .endif
   .endif
   push    {r0-r11, lr}
   vpush   {s16-s\last}
   ldr     r4, [r0, #52]
   str     r4, [sp, #\saved]
   add     lr, r0, #24
   ldmia   lr, {r8-r11}
   .ifeq   \pair_step*\four_step
   ldr     r9, [r0, #56]
   .endif
   adr     lr, 24f
   ldrsh   r11, [lr, r11, lsl #1]
   add     r11, lr, r11
10: ldmia  r0, {r3-r7, r12}
   movs    lr, #0
   _\channels\()_clear
   _\channels\()_begin
   add     r3, r2, r3, lsl #2
   add     r4, r3, r4, lsl #2
   add     r5, r4, r5, lsl #2
   bx      r11
   .irp    count, 1, 2, 3, 4
   _begin_row \channels, \pair_step, \four_step, \count
   .endr
20: _\channels\()_columns add, \pair_step, \four_step, 4
   subs    lr, lr, #1
   bne.w   20b
   _end_row \channels, \pair_step, \four_step
   it      ne
   bxne    r11
21: subs   r6, r6, #1
   beq.n   22f
   .if     \pair_step*\four_step
   _\channels\()_sample r9
   .else
   ldr     r12, [r0, #28]
   _\channels\()_sample r12
   .endif
   ldr     r12, [r0, #20]
   _add_row r8, r2, r3, r4, r5
   bx      r11
22: ldr    r3, [r0]
   ldrd    r1, r2, [r0, #44]
   add     lr, sp, #\saved
   ldmia   lr, {r4-r7}
   _\channels\()_put
   add     r6, r6, r3, lsl #4
   mov     r1, r5
   mov     r2, r6
   subs    r4, r4, #1
   stmia   lr, {r4-r7}
   bne.w   10b
   vpop    {s16-s\last}
   add     sp, sp, #16
   pop     {r4-r11, pc}
   .p2align 2
24: .short 11b - 24b + 1, 12b - 24b + 1, 13b - 24b + 1, 14b - 24b + 1
   end_function \name
   .endm

   _fours poet_conv2d_pair_fours_f32, pair, 1, 1, 64, 31
   _fours poet_conv2d_one_fours_f32, one, 1, 1, 24, 21
   _fours poet_conv2d_pair_by_2_fours_f32, pair, 2, 1, 64, 31
   _fours poet_conv2d_one_by_2_fours_f32, one, 2, 1, 24, 21
   _fours poet_conv2d_pair_fours_by_2_f32, pair, 1, 2, 64, 31
   _fours poet_conv2d_one_fours_by_2_f32, one, 1, 2, 24, 21
   _fours poet_conv2d_pair_by_any_fours_f32, pair, 0, 1, 64, 31
   _fours poet_conv2d_one_by_any_fours_f32, one, 0, 1, 24, 21
   _fours poet_conv2d_pair_fours_by_any_f32, pair, 1, 0, 64, 31
   _fours poet_conv2d_one_fours_by_any_f32, one, 1, 0, 24, 21

#endif
