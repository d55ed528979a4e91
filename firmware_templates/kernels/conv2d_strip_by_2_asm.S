/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

#include "conv2d_strip_asm.h"

/* In assembly, as conv2d_strip.c: lists of registers are loaded at once, and sums stay in theirs.
 * Forward: s0-s8 columns of the source, s9-s11 weights of one channel of results, s12-s15 products, s16-s23 a channel's
 *     sums, s24-s31 totals.
 * dX: s0-s4 columns of dy, s5-s7 weights and products, s8-s15 a channel's sums, s16-s23 and s24-s31 totals of both rows.
 * dW: s0-s8 columns of x, s9-s12 gradients, s13-s15 products, s16-s27 a row's sums. */
/* Four sums, and four columns of the source, two registers or one apart. */
   .macro _multiply to, apart, source, step, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\apart*\at, %\source+\step*\at, \weight
   .endr
   .endm
   .macro _add to, apart, source, step, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %12+\at, %\source+\step*\at, \weight
   .endr
   .irp    at, 0, 1, 2, 3
   add_one %\to+\apart*\at, %12+\at
   .endr
   .endm

   .macro _begin name, registers
   function \name
   push    {r4-\registers, lr}
   vpush   {s16-s31}
   .endm
   .macro _end name, registers
   vpop    {s16-s31}
   pop     {r4-\registers, pc}
   end_function \name
   .endm
   .macro _clear first, others:vararg
   movs    lr, #0
   vmov    s\first, lr
   .irp    other, \others
   vmov.f32 s\other, s\first
   .endr
   .endm

/* Forward: the products of one row of the kernel, and of that in one channel of results. */
   .macro _products begin, weights, to
   vldmia  \weights!, {s9-s11}
   _\begin \to, 1, 0, 2, 9
   _add \to, 1, 1, 2, 10
   _add \to, 1, 2, 2, 11
   .endm
   .macro _row begin
   vldmia  r1, {s1-s7}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s8, [r1, #28]
   _products \begin, r2, 16
   _products \begin, r7, 20
   .endm

   _begin_strip poet_conv2d_strips_by_2_f32, 8
   _row multiply
   add     r1, r1, r4, lsl #2
   _row add
   beq.w   3f
   add     r1, r1, r4, lsl #2
   _row add
3:
   _end_strip
   end_function poet_conv2d_strips_by_2_f32

/* dX: a row of dy, and adding its products with s7 two at a time. */
   .macro _load_dy from
   vldmia  \from, {s0-s3}
   it      cc
   vldrcc  s4, [\from, #16]
   .endm
   .macro _add_pairs to, source
   .irp    at, 0, 2
   multiply_one 5, %\source+\at, 7
   multiply_one 6, %\source+1+\at, 7
   add_one %\to+2*\at, 5
   add_one %\to+2+2*\at, 6
   .endr
   .endm

   _begin poet_conv2d_wide_strip_f32, r9
   ldmia   r0, {r4-r9}
   _clear 4, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
   add     lr, r1, r4, lsl #2
1: msr     APSR_nzcvq, r8
   beq.w   2f
/* the kernel's first row, and its last */
   _load_dy lr
   vldmia  r2, {s5-s7}
   _multiply 8, 2, 0, 1, 6
   _multiply 9, 2, 1, 1, 5
   _add_pairs 9, 0
   _load_dy r1
   vldr    s7, [r2, #28]
   _add_pairs 8, 0
   vldr    s7, [r2, #24]
   _add_pairs 9, 1
   b.n     3f
/* its last row alone */
2: _load_dy r1
   vldr    s6, [r2, #28]
   vldr    s5, [r2, #24]
   _multiply 8, 2, 0, 1, 6
   _multiply 9, 2, 1, 1, 5
3: vldr    s7, [r2, #32]
   _add_pairs 9, 0
   .irp    sum, 8, 9, 10, 11, 12, 13, 14, 15
   add_one %16+\sum, \sum
   .endr
/* its middle row */
   add     r0, r2, #12
   vldmia  r0, {s5-s7}
   _multiply 8, 1, 0, 1, 6
   _multiply 12, 1, 1, 1, 5
   .irp    at, 0, 1, 2, 3
   add_one %16+2*\at, %8+\at
   .endr
   _multiply 8, 1, 0, 1, 7
   .irp    at, 0, 1, 2, 3
   add_one %12+\at, %8+\at
   .endr
   .irp    at, 0, 1, 2, 3
   add_one %17+2*\at, %12+\at
   .endr
   add     r1, r1, r5, lsl #2
   add     lr, lr, r5, lsl #2
   add     r2, r2, r6, lsl #2
   subs    r7, r7, #1
   bne.w   1b
   msr     APSR_nzcvq, r8
   ite     pl
   vstmiapl r3, {s16-s23}
   vstmiami r3, {s16-s22}
   bvs.n   4f
   add     r3, r3, r9, lsl #2
   ite     pl
   vstmiapl r3, {s24-s31}
   vstmiami r3, {s24-s30}
4:
   _end poet_conv2d_wide_strip_f32, r9

/* dW: products of the columns from s0 on and one output channel's gradients, s9-s12. */
   .macro _taps gradients, loaded, first, second, third, columns:vararg
   vldmia  \gradients!, {\loaded}
   .irp    at, \columns
   multiply_one 13, %2*\at, %9+\at
   multiply_one 14, %2*\at+1, %9+\at
   multiply_one 15, %2*\at+2, %9+\at
   add_one \first, 13
   add_one \second, 14
   add_one \third, 15
   .endr
   .endm
   .macro _all_taps loaded, columns:vararg
   _taps r2, \loaded, 16, 17, 18, \columns
   _taps r0, \loaded, 19, 20, 21, \columns
   _taps r9, \loaded, 22, 23, 24, \columns
   _taps r8, \loaded, 25, 26, 27, \columns
   .endm

/* r1  x    r2, r0, r9, r8  dy    r4, r12  samples, rows left    r5, r6, [sp]  rows, strips, columns left
 * lr  strips, columns still to do    r7, r10, r11  what is next    s28  0 */
   _begin poet_conv2d_tap_rows_by_2_f32, r11
   ldmia   r0, {r4-r8, r10-r12}
   push    {r12}
   add     r0, r2, r8, lsl #2
   add     r9, r0, r8, lsl #2
   add     r8, r9, r8, lsl #2
1: mov     r12, r5
2: _clear 28, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
   movs    lr, r6
   beq.w   4f
3: vldmia  r1!, {s1-s8}
   _all_taps s9-s12, 0, 1, 2, 3
   vmov.f32 s0, s8
   subs    lr, lr, #1
   bne.w   3b
4: ldr     lr, [sp]
   cmp     lr, #0
   beq.w   6f
5: vldmia  r1!, {s1}
   subs    lr, lr, #2
   ite     pl
   vldmiapl r1!, {s2}
   vmovmi.f32 s2, s28
   _all_taps s9, 0
   vmov.f32 s0, s2
   bgt.w   5b
6: vldmia  r3, {s0-s11}
   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
   add_one \total, %16+\total
   .endr
   vstmia  r3, {s0-s11}
   add     r1, r1, r7, lsl #2
   subs    r12, r12, #1
   bne.w   2b
   add     r1, r1, r10, lsl #2
   .irp    next, r2, r0, r9, r8
   add     \next, \next, r11, lsl #2
   .endr
   subs    r4, r4, #1
   bne.w   1b
   add     sp, sp, #4
   _end poet_conv2d_tap_rows_by_2_f32, r11

#endif
