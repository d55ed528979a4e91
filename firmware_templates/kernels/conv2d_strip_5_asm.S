/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

#include "conv2d_strip_asm.h"

/* In assembly, as conv2d_strip.c: lists of registers are loaded at once, and sums stay in theirs.
 *   by 1:  s0-s7 columns of the source, s8-s12 a row of weights, s13-s15 products, s16-s19 and s20-s23 a channel's sums of
 *          the upper and the lower strip, s24-s31 totals
 *   by 2:  s0-s10, s11-s15, s24-s26, s16-s23; totals on the stack
 *   dX of that: s0-s5, s6-s10, s11-s13, s16-s23, s24-s31
 *   dW: s0-s6 columns of x, s7-s8 gradients, s9-s11 products, s12-s31 a row's sums */
/* A weight's products with four columns, `step` apart, for four sums, `apart`. */
   .macro _add to, apart, source, step, weight, product
   multiply_one %\product, %\source, %\weight
   multiply_one %\product+1, %\source+\step, %\weight
   multiply_one %\product+2, %\source+2*\step, %\weight
   add_one %\to, %\product
   multiply_one %\product, %\source+3*\step, %\weight
   add_one %\to+\apart, %\product+1
   add_one %\to+2*\apart, %\product+2
   add_one %\to+3*\apart, %\product
   .endm

/* A row of the source. */
   .macro _load_by_1
   vldmia  r1!, {s2-s5}
   it      pl
   vldrpl  d0, [r1, #-24]
   it      cc
   vldmiacc r1, {s6-s7}
   add     r1, r1, r4, lsl #2
   .endm
   .macro _load_by_2
   vldmia  r1!, {s2-s8}
   it      pl
   vldrpl  d0, [r1, #-36]
   it      cc
   vldrcc  s9, [r1]
   it      vc
   vldrvc  s10, [r1, #4]
   add     r1, r1, r4, lsl #2
   .endm

/* A row of the kernel in one strip: its taps meet these columns. */
   .macro _row_by_1 weights, to, first, second, third, fourth, fifth
   vldmia  \weights!, {s8-s12}
   _add \to, 1, \first, 1, 8, 13
   _add \to, 1, \second, 1, 9, 13
   _add \to, 1, \third, 1, 10, 13
   _add \to, 1, \fourth, 1, 11, 13
   _add \to, 1, \fifth, 1, 12, 13
   .endm
   .macro _row_by_2 weights, to, columns:vararg
   vldmia  \weights!, {s11-s15}
   .irp    at, 0, 1, 2, 3, 4
   _add \to, 1, \at, 2, %11+\at, 24
   .endr
   .endm

/* At the end of a channel. */
   .macro _begin_by_1
   .endm
   .macro _begin_pair_by_1
   .endm
   .macro _end_by_1
   .endm
   .macro _total_by_1
   _add_totals
   .endm
   .macro _begin_by_2
   _clear 9
   sub     sp, sp, #32
   .endm
   .macro _begin_pair_by_2
   vstmia  sp, {s24-s31}
   .endm
   .macro _end_by_2
   add     sp, sp, #32
   .endm
   .macro _total_by_2
   vldmia  sp, {s24-s31}
   _add_totals
   vstmia  sp, {s24-s31}
   .endm

/* Two registers. */
   .macro _clear_two to, too
   vmov    s\to, s\too, lr, lr
   .endm
   .macro _clear first
   _clear_two \first, %1+\first
   .endm
   .macro _next what, field
   ldr     lr, [r0, #\field]
   add     \what, \what, lr, lsl #2
   .endm

/* r1  source    r2, r7  weights of the upper and the lower strip    r3  result    r4  row_next    r5  pairs left
 * r6  bias    r8  channels left    r9, r10, r11  rows of the upper strip, of both, of the lower    r12  edges
 * lr  rows left */
   .macro _strips name, by, columns:vararg
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0!, {r4-r12}
   add     r7, r2, r7, lsl #2
   movs    lr, #0
   _clear 0
   _clear 6
   _begin_\by
0:
   .irp    first, 24, 26, 28, 30
   _clear \first
   .endr
   _begin_pair_\by
1: movs    lr, #0
   .irp    first, 16, 18, 20, 22
   _clear \first
   .endr
   movs    lr, r9
   beq.w   3f
2: msr     APSR_nzcvq, r12
   _load_\by
   _row_\by r2, 16, \columns
   subs    lr, lr, #1
   bne.w   2b
3: mov     lr, r10
4: msr     APSR_nzcvq, r12
   _load_\by
   _row_\by r2, 16, \columns
   _row_\by r7, 20, \columns
   subs    lr, lr, #1
   bne.w   4b
   movs    lr, r11
   beq.w   6f
5: msr     APSR_nzcvq, r12
   _load_\by
   _row_\by r7, 20, \columns
   subs    lr, lr, #1
   bne.w   5b
6: _total_\by
   _next r1, 0
   _next r2, 4
   _next r7, 8
   subs    r8, r8, #1
   bne.w   1b
   vldmia  r6, {s16-s17}
   .irp    total, 24, 25, 26, 27
   add_one \total, 16
   add_one %4+\total, 17
   .endr
   vstmia  r3, {s24-s27}
   _next r3, 12
   vstmia  r3, {s28-s31}
   subs    r5, r5, #1
   beq.n   7f
   ldr     r8, [r0, #-20]
   _next r3, 16
   _next r1, 20
   _next r2, 24
   add     r7, r7, lr, lsl #2
   _next r6, 28
   movs    lr, #0
   b.w     0b
7: _end_\by
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _strips poet_conv2d_strips_5_f32, by_1, 0, 1, 2, 3, 4
   _strips poet_conv2d_strips_5_backwards_f32, by_1, 4, 3, 2, 1, 0
   _strips poet_conv2d_strips_5_by_2_f32, by_2

/* r1  dy    r2  weights    r3  dx    r4, r5, r6  what is next    r7, r8  channels left, rows    r9  edges */
   function poet_conv2d_wide_strip_5_f32
   push    {r4-r9, lr}
   vpush   {s16-s31}
   ldmia   r0, {r4-r9}
   movs    lr, #0
   .irp    first, 0, 4, 24, 26, 28, 30
   _clear \first
   .endr
1: movs    lr, #0
   .irp    first, 16, 18, 20, 22
   _clear \first
   .endr
   mov     lr, r8
2: msr     APSR_nzcvq, r9
   vldmia  r1!, {s1-s4}
   it      pl
   vldrpl  s0, [r1, #-20]
   it      cc
   vldrcc  s5, [r1]
   vldmia  r2!, {s6-s10}
   add     r1, r1, r4, lsl #2
   add     r2, r2, #20
   _add 16, 2, 2, 1, 6, 11
   _add 17, 2, 2, 1, 7, 11
   _add 16, 2, 1, 1, 8, 11
   _add 17, 2, 1, 1, 9, 11
   _add 16, 2, 0, 1, 10, 11
   subs    lr, lr, #1
   bne.w   2b
   _add_totals
   add     r1, r1, r5, lsl #2
   add     r2, r2, r6, lsl #2
   subs    r7, r7, #1
   bne.w   1b
   msr     APSR_nzcvq, r9
   ite     ne
   vstmiane r3, {s24-s31}
   vstmiaeq r3, {s24-s30}
   vpop    {s16-s31}
   pop     {r4-r9, pc}
   end_function poet_conv2d_wide_strip_5_f32

/* dW: a column of dy and its five of x, and all four output channels at one or two columns. */
   .macro _add_taps to, source, gradient
   multiply_one 9, \source, \gradient
   multiply_one 10, %\source+1, \gradient
   multiply_one 11, %\source+2, \gradient
   add_one \to, 9
   multiply_one 9, %\source+3, \gradient
   add_one %\to+1, 10
   multiply_one 10, %\source+4, \gradient
   add_one %\to+2, 11
   add_one %\to+3, 9
   add_one %\to+4, 10
   .endm
   .macro _two gradients, to, step
   vldmia  \gradients!, {s7-s8}
   _add_taps \to, 0, 7
   _add_taps \to, \step, 8
   .endm
   .macro _one gradients, to, source
   vldmia  \gradients!, {s7}
   _add_taps \to, \source, 7
   .endm

/* Two or four output channels: columns, and what has sums and totals. */
   .macro _two_each columns, from
   _\columns r2, 12, \from
   _\columns r0, 17, \from
   .endm
   .macro _four_each columns, from
   _two_each \columns, \from
   _\columns r9, 22, \from
   _\columns r8, 27, \from
   .endm
   .macro _two_clear
   .irp    first, 12, 14, 16, 18, 20
   _clear \first
   .endr
   .endm
   .macro _four_clear
   _two_clear
   .irp    first, 22, 24, 26, 28, 30
   _clear \first
   .endr
   .endm
   .macro _two_begin
   vstmia  r3, {s12-s21}
   .endm
   .macro _four_begin
   vstmia  r3, {s12-s31}
   .endm
   .macro _two_totals
   vldmia  r3, {s0-s9}
   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
   add_one \total, %12+\total
   .endr
   vstmia  r3, {s0-s9}
   .endm
   .macro _four_totals
   _two_totals
   add     lr, r3, #40
   vldmia  lr, {s0-s9}
   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
   add_one \total, %22+\total
   .endr
   vstmia  lr, {s0-s9}
   .endm

/* The columns of x that a row begins with, those of two columns of dy, and those of its end; lr is 0. */
   .macro _move to, from
   vmov.f32 s\to, s\from
   .endm
   .macro _first_by_1
   vldmia  r1!, {s2-s3}
   .endm
   .macro _next_by_1 each
   vldmia  r1!, {s4-s5}
   _\each two, 1
   .irp    at, 0, 1, 2, 3
   _move \at, %2+\at
   .endr
   .endm
   .macro _last_by_1 each
   _clear 4
   it      mi
   vldmiami r1!, {s4}
   _\each two, 1
   bpl.w   6f
   vmov    s6, lr
   _\each one, 2
   .endm
   .macro _first_by_2
   vldmia  r1!, {s2}
   .endm
   .macro _next_by_2 each
   vldmia  r1!, {s3-s6}
   _\each two, 2
   .irp    at, 0, 1, 2
   _move \at, %4+\at
   .endr
   .endm
   .macro _last_by_2 each
   bmi.w   5f
   vldmia  r1!, {s3-s4}
   _clear 5
   it      cc
   vldmiacc r1!, {s5}
   _\each two, 2
   b.n     6f
5: _clear 3
   it      cc
   vldmiacc r1!, {s3}
   _\each one, 0
   .endm

/* r1  x    r2, r0, r9, r8  dy    r3  totals    r4, r12  samples, rows left    r5, r6, [sp]  rows, pairs, edges
 * r7, r10, r11  what is next    lr  pairs left */
   .macro _rows name, many, by
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0, {r4-r8, r10-r12}
   push    {r12}
   add     r0, r2, r8, lsl #2
   add     r9, r0, r8, lsl #2
   add     r8, r9, r8, lsl #2
   movs    lr, #0
   _four_clear
   _\many\()_begin
   cmp     r5, #0
   beq.w   7f
1: mov     r12, r5
2: movs    lr, #0
   _clear 0
   _first_\by
   movs    lr, r6
   beq.w   4f
3: _next_\by \many\()_each
   subs    lr, lr, #1
   bne.w   3b
4: ldr     lr, [sp]
   msr     APSR_nzcvq, lr
   mov     lr, #0
   _last_\by \many\()_each
6: _\many\()_totals
   movs    lr, #0
   _\many\()_clear
   add     r1, r1, r7, lsl #2
   subs    r12, r12, #1
   bne.w   2b
   add     r1, r1, r10, lsl #2
   .irp    next, r2, r0, r9, r8
   add     \next, \next, r11, lsl #2
   .endr
   subs    r4, r4, #1
   bne.w   1b
7: add     sp, sp, #4
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _rows poet_conv2d_four_rows_5_f32, four, by_1
   _rows poet_conv2d_two_rows_5_f32, two, by_1
   _rows poet_conv2d_four_rows_5_by_2_f32, four, by_2
   _rows poet_conv2d_two_rows_5_by_2_f32, two, by_2

#endif
