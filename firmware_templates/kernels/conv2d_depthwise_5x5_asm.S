/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* A row of the source is loaded once, and ends, goes on with and begins rows of results, of which those outside the plane are
 * left out. What is added last to a sum moves it along, too. Registers that a load leaves alone stay 0: padding.
 *   by 1: s0-s7 a row of the source, s8-s12 a row of weights, s13-s15 products, s16-s31 sums of four rows of results
 *   by 2: s0-s10, s11-s15, s24-s26, s16-s23 of two rows, s28 0
 *   dX of that: s0-s5, s6-s10, s11-s13, s16-s31 of two rows, s14 0
 *   dW: s0-s11 columns of x, s12-s19 of dy, s20-s21 products, s22-s26 sums of a row, s27-s31 totals
 *   dW by 2: s0-s10, s16-s19, the same, s15 0 */
   .macro sum_one to, from, what
   vadd.f32 s\to, s\from, s\what
   .endm
   .macro move_one to, from
   vmov.f32 s\to, s\from
   .endm
   .macro load_row after, columns
   vldmia  r1, {\columns}
   \after
   .endm

/* A weight's products with four columns, `step` apart, for four sums, `apart`: alone, and added to others. */
   .macro _begin to, apart, source, step, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\apart*\at, %\source+\step*\at, \weight
   .endr
   .endm
   .macro _add to, from, apart, source, step, weight, product
   multiply_one \product, \source, \weight
   multiply_one %\product+1, %\source+\step, \weight
   multiply_one %\product+2, %\source+2*\step, \weight
   sum_one \to, \from, \product
   multiply_one \product, %\source+3*\step, \weight
   sum_one %\to+\apart, %\from+\apart, %\product+1
   sum_one %\to+2*\apart, %\from+2*\apart, %\product+2
   sum_one %\to+3*\apart, %\from+3*\apart, \product
   .endm

/* A row of results. */
   .macro _put shift
   vldr    s\shift, [r0]
   .irp    sum, 16, 17, 18, 19
   add_one \sum, \shift
   .endr
   cmp     r9, #4
   bne.n   1f
   vstmia  r3, {s16-s19}
   b.n     2f
1: vstr    s16, [r3]
   cmp     r9, #2
   blt.n   2f
   vstr    s17, [r3, #4]
   beq.n   2f
   vstr    s18, [r3, #8]
2: add     r3, r3, r7, lsl #2
   .endm

/* r4, r7  what is next    r5  samples left    r6, r8  rows, rows left    r9  columns    r12  what loads a row */
   .macro _strip_begin
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0!, {r4-r7, r9, r12}
   mov     r8, r6
   movs    r10, #0
   vmov    s0, r10
   .endm
/* from 0 on for the next sample */
   .macro _next_sample
   ldrd    r8, lr, [r0, #4]
   add     r1, r1, r8, lsl #2
   add     r3, r3, lr, lsl #2
   mov     r8, r6
   subs    r5, r5, #1
   bne.w   0b
   .endm
   .macro _strip_end
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   .endm

/* By 1: a row of the kernel, whose taps meet these columns. */
   .macro _row to, from, first, second, third, fourth, fifth
   vldmdb  r2!, {s8-s12}
   _add \from, \from, 1, \first, 1, 8, 13
   _add \from, \from, 1, \second, 1, 9, 13
   _add \from, \from, 1, \third, 1, 10, 13
   _add \from, \from, 1, \fourth, 1, 11, 13
   _add \to, \from, 1, \fifth, 1, 12, 13
   .endm
   .macro _first_row to, first, second, third, fourth, fifth
   vldmdb  r2!, {s8-s12}
   _begin \to, 1, \first, 1, 8
   _add \to, \to, 1, \second, 1, 9, 13
   _add \to, \to, 1, \third, 1, 10, 13
   _add \to, \to, 1, \fourth, 1, 11, 13
   _add \to, \to, 1, \fifth, 1, 12, 13
   .endm

/* A row of the source ends a row of results, s16-s19, goes on with three and begins one.
 * r10  rows, of two, that end none and are left; below 0 behind them    r11  weights */
   .macro _strip name, columns:vararg
   function \name
   _strip_begin
   mov     r11, r2
   .irp    zero, 1, 2, 3, 4, 5, 6, 7
   vmov.f32 s\zero, s0
   .endr
   adr     r10, 3f
   add     r12, r12, r10
0: movs    r10, #0
   vmov    s24, r10
   .irp    zero, 25, 26, 27, 28, 29, 30, 31
   vmov.f32 s\zero, s24
   .endr
   movs    r10, #2
   bx      r12
   .p2align 2
3:
   .irp    loaded, s2, s2-s3, s2-s4, s2-s5, s2-s6, s2-s7, s0-s4, s0-s5, s0-s6
   load_row <b.n 4f>, \loaded
   .endr
   vldmia  r1, {s0-s7}
4: subs    r10, r10, #1
   bpl.w   8f
   add     r2, r11, #100
   _row 16, 16, \columns
   _put 8
5: _row 16, 20, \columns
6: _row 20, 24, \columns
   subs    r8, r8, #1
   beq.w   9f
   _row 24, 28, \columns
   cmp     r8, #1
   beq.n   7f
   _first_row 28, \columns
7: add     r1, r1, r4, lsl #2
   bx      r12
8: add     r2, r11, #60 /* the first row, and the second */
   bne.w   6b
   add     r2, r11, #80
   b.w     5b
9: add     r1, r1, r4, lsl #2
   cmp     r10, #1
   beq.n   3f
   _put 8
3: .irp    at, 0, 1, 2, 3
   move_one %16+\at, %20+\at
   .endr
   _put 8
   _next_sample
   _strip_end
   end_function \name
   .endm

   _strip poet_conv2d_depthwise_5x5_strip_f32, 0, 1, 2, 3, 4
   _strip poet_conv2d_depthwise_5x5_strip_backwards_f32, 4, 3, 2, 1, 0

/* By 2: a row of the kernel. */
   .macro _row_by_2 row, to, from
   add     lr, r2, #20*\row
   vldmia  lr, {s11-s15}
   .irp    at, 0, 1, 2, 3
   _add \from, \from, 1, \at, 2, %11+\at, 24
   .endr
   _add \to, \from, 1, 4, 2, 15, 24
   .endm

/* r10  where the next row of the source is added */
   function poet_conv2d_depthwise_5x5_by_2_strip_f32
   _strip_begin
   .irp    zero, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 28
   vmov.f32 s\zero, s0
   .endr
   adr     r10, 3f
   add     r12, r12, r10
0: .irp    zero, 20, 21, 22, 23
   vmov.f32 s\zero, s28
   .endr
   adr     r10, 7f + 1
   bx      r12
   .p2align 2
3:
   .irp    columns, s2, s2-s3, s2-s4, s2-s5, s2-s6, s2-s7, s2-s8, s2-s9, s2-s10
   load_row <bx r10>, \columns
   .endr
   .irp    columns, s0-s8, s0-s9, s0-s10
   load_row <bx r10>, \columns
   .endr
/* an even row ends a row of results, goes on with one and begins one */
   .p2align 2
4: _row_by_2 4, 16, 16
   _put 11
7: _row_by_2 2, 16, 20
   cmp     r8, #3
   blt.n   8f
   vldmia  r2, {s11-s15}
   _begin 20, 1, 0, 2, 11
   .irp    at, 1, 2, 3, 4
   _add 20, 20, 1, \at, 2, %11+\at, 24
   .endr
8: adr     r10, 5f + 1
   add     r1, r1, r4, lsl #2
   subs    r8, r8, #1
   beq.w   6f
   bx      r12
/* an odd row goes on with two */
   .p2align 2
5: _row_by_2 3, 16, 16
   add     r1, r1, r4, lsl #2
   subs    r8, r8, #1
   beq.n   6f
   _row_by_2 1, 20, 20
   adr     r10, 4b + 1
   bx      r12
6: _put 11
   _next_sample
   _strip_end
   end_function poet_conv2d_depthwise_5x5_by_2_strip_f32

/* dX by 2: every other column has met the kernel's even columns, those between its odd ones. */
   .macro _wide_row row, to, from
   add     lr, r2, #20*\row
   vldmia  lr, {s6-s10}
   _add \from, \from, 2, 2, 1, 6, 11
   _add %1+\from, %1+\from, 2, 2, 1, 7, 11
   _add \from, \from, 2, 1, 1, 8, 11
   _add %1+\to, %1+\from, 2, 1, 1, 9, 11
   _add \to, \from, 2, 0, 1, 10, 11
   .endm
   .macro _first_wide_row row, to
   add     lr, r2, #20*\row
   vldmia  lr, {s6-s10}
   _begin \to, 2, 2, 1, 6
   _begin %1+\to, 2, 2, 1, 7
   _add \to, \to, 2, 1, 1, 8, 11
   _add %1+\to, %1+\to, 2, 1, 1, 9, 11
   _add \to, \to, 2, 0, 1, 10, 11
   .endm
   .macro _put_wide
   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23
   add_one \sum, 14
   .endr
   adr     lr, 1f + 1
   cmp     r9, #8
   it      ne
   bxne    r11
   vstmia  r3, {s16-s23}
1: add     r3, r3, r7, lsl #2
   .endm
   .macro _put_some columns
   vstmia  r3, {\columns}
   bx      lr
   .endm

/* r10  where a row of dy is added    r11  what stores some columns */
   function poet_conv2d_depthwise_5x5_by_2_wide_strip_f32
   _strip_begin
   .irp    zero, 1, 2, 3, 4, 5, 14
   vmov.f32 s\zero, s0
   .endr
   sub     lr, r9, #1
   add     lr, lr, lr, lsl #1
   adr     r11, 4f + 1
   add     r11, r11, lr, lsl #1
   adr     r10, 3f
   add     r12, r12, r10
0: .irp    zero, 24, 25, 26, 27, 28, 29, 30, 31
   vmov.f32 s\zero, s14
   .endr
   adr     r10, 8f + 1
   bx      r12
   .p2align 2
3:
   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s0-s4, s0-s5
   load_row <bx r10>, \columns
   .endr
   .p2align 2
4:
   .irp    columns, s16, s16-s17, s16-s18, s16-s19, s16-s20, s16-s21, s16-s22
   _put_some \columns
   .endr
/* rows of dx whose number is even: as above */
   .p2align 2
5: _wide_row 4, 16, 16
   _put_wide
8: _wide_row 2, 16, 24
   add     r1, r1, r4, lsl #2
   subs    r8, r8, #1
   beq.w   9f
   _first_wide_row 0, 24
   adr     r10, 5b + 1
   bx      r12
9: _put_wide
   ldrd    r8, lr, [r0, #12]
   cmp     lr, #0
   blt.w   9f
   add     r3, r3, r8, lsl #2
   mul     r8, r6, r4
   sub     r1, r1, r8, lsl #2
   mov     r8, r6
   .irp    zero, 16, 17, 18, 19, 20, 21, 22, 23
   vmov.f32 s\zero, s14
   .endr
   adr     r10, 6f + 1
   it      gt
   adrgt   r10, 7f + 1
   bx      r12
/* those whose number is odd: a row of dy ends one and begins one */
   .p2align 2
6: _wide_row 3, 16, 16
   _put_wide
7: add     r1, r1, r4, lsl #2
   subs    r8, r8, #1
   beq.n   9f
   _first_wide_row 1, 16
   adr     r10, 6b + 1
   bx      r12
9: _next_sample
   _strip_end
   end_function poet_conv2d_depthwise_5x5_by_2_wide_strip_f32

/* dW: a column of dy and its five of x. */
   .macro _column at, source, gradient
   multiply_one 20, \source, \gradient
   multiply_one 21, %1+\source, \gradient
   add_one 22, 20
   multiply_one 20, %2+\source, \gradient
   add_one 23, 21
   multiply_one 21, %3+\source, \gradient
   add_one 24, 20
   multiply_one 20, %4+\source, \gradient
   add_one 25, 21
   add_one 26, 20
   .endm
   .macro _load_up_to last, from, first
   .if \first < \last
   vldmia  \from!, {s\first-s\last}
   .else
   vldmia  \from!, {s\first}
   .endif
   .endm
/* the last two columns of x, where they are no padding */
   .macro _load_last one, other
   it      cs
   vldmiacs r1!, {s\one}
   it      hi
   vldmiahi r1!, {s\other}
   .endm
/* where a row begins with some columns of a group: 32 bytes for each number of them */
   .macro _first_columns at, padding, last, zero
   move_one \padding, \zero
   move_one %1+\padding, \zero
   _load_up_to 19, r2, \at
   _load_up_to \last, r1, %2+\padding
   _load_last %1+\last, %2+\last
   b.w     \at\()f
   .endm

/* 0 where a product was */
   .macro _clear_15
   .endm
   .macro _clear_20
   vmov    s20, r11
   .endm

/* r1, r2  x, dy    r3  totals    r4  samples left    r5  groups    r6  row_next    r7  where a row begins
 * r8, r12  rows, rows left    r9, r10  what is next    r11  0    lr  groups left    [sp]  samples, x, dy */
   .macro _taps name, step, zero, first, last, columns:vararg
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0!, {r4-r7}
   push    {r1, r2}
   push    {r4}
   adr     r12, 5f + 1
   add     r7, r12, r7, lsl #5
   mov     r11, #0
   vmov    s\zero, r11
1: ldmia   r0!, {r1, r2, r8-r10}
   ldm     sp, {r4, r12, lr}
   add     r1, r12, r1, lsl #2
   add     r2, lr, r2, lsl #2
   vmov    s27, r11
   .irp    total, 28, 29, 30, 31
   move_one \total, 27
   .endr
   cmp     r8, #0
   blt.w   9f
   beq.w   8f
2: mov     r12, r8
3: _clear_\zero
   .irp    number, 22, 23, 24, 25, 26, %1+\last, %2+\last
   move_one \number, \zero
   .endr
   mov     lr, r5
   cmp     lr, #1
   bx      r7
   .p2align 2
5:
   .irp    at, \columns
   _first_columns \at, %\step*(\at-\first), \last, \zero
   .endr
/* a group */
4: .irp    at, 0, 1, 2, 3
   .if \at < 5-\step
   move_one \at, %\at+\last+\step-2
   .endif
   .endr
   _load_up_to \last, r1, %5-\step
   _load_up_to 19, r2, \first
   _clear_\zero
   move_one %1+\last, \zero
   move_one %2+\last, \zero
   cmp     lr, #1
   _load_last %1+\last, %2+\last
   .irp    at, \columns
\at:
   _column \at, %\step*(\at-\first), \at
   .endr
   subs    lr, lr, #2
   bpl.w   4b
   .irp    sum, 22, 23, 24, 25, 26
   add_one %5+\sum, \sum
   .endr
   add     r1, r1, r6, lsl #2
   subs    r12, r12, #1
   bne.w   3b
   add     r1, r1, r9, lsl #2
   add     r2, r2, r10, lsl #2
   subs    r4, r4, #1
   bne.w   2b
8: vstmia  r3!, {s27-s31}
   b.w     1b
9: add     sp, sp, #12
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _taps poet_conv2d_depthwise_5x5_taps_f32, 1, 20, 12, 9, 12, 13, 14, 15, 16, 17, 18, 19
   _taps poet_conv2d_depthwise_5x5_by_2_taps_f32, 2, 15, 16, 8, 16, 17, 18, 19

#endif
