/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c.
 *   r1, r7  x    r2, r0, r9, r8  dy    r3  totals    r4, r5  x_row, dy_row    r10  bytes to the next column of x
 *   r6, r11  strips of a row, columns left    r12, lr  rows, strips or columns to do
 *   [sp]  x, dy, bytes to the next channel of each, samples, taps to do, the next one; then of a tap rows, samples to do, x_next, dy_next
 * Of one channel: s0-s3 columns of x, s4-s15 and s20-s23 of dy, s24-s27 products, s16-s19 a row's sums, s28-s31 totals.
 * Of two: s0-s3 and s4-s7 columns of x, s8-s11 of dy, s12-s13 products, s16-s23 a row's sums, s24-s31 totals. */
   .macro _copy to, from
   vmov.f32 s\to, s\from
   .endm
   .macro _clear first, sums:vararg
   movs    lr, #0
   vmov    s\first, lr
   .irp    sum, \sums
   .ifnc   \sum, 16
   _copy %\first+\sum-16, \first
   .endif
   .endr
   .endm
   .macro _load_x to, from
   vldr    s\to, [\from]
   add     \from, \from, r10
   .endm

/* Columns of a single channel. */
   .macro _one_dy gradients, first, last
   vldmia  \gradients!, {s\first-s\last}
   .endm
   .macro _one_column x, first, second, third, fourth
   multiply_one 24, \x, \first
   multiply_one 25, \x, \second
   multiply_one 26, \x, \third
   multiply_one 27, \x, \fourth
   .irp    at, 0, 1, 2, 3
   add_one %16+\at, %24+\at
   .endr
   .endm
   .macro _one_strip
   .irp    at, 0, 1, 2, 3
   _load_x \at, r1
   .endr
   _one_dy r2, 4, 7
   _one_dy r0, 8, 11
   _one_dy r9, 12, 15
   _one_dy r8, 20, 23
   .irp    at, 0, 1, 2, 3
   _one_column \at, %4+\at, %8+\at, %12+\at, %20+\at
   .endr
   .endm
   .macro _one_left
   _load_x 0, r1
   vldmia  r2!, {s4}
   vldmia  r0!, {s8}
   vldmia  r9!, {s12}
   vldmia  r8!, {s20}
   _one_column 0, 4, 8, 12, 20
   .endm

/* The same of two. */
   .macro _two_dy gradients, loaded, first, second, columns:vararg
   vldmia  \gradients!, {\loaded}
   .irp    at, \columns
   multiply_one 12, \at, %8+\at
   multiply_one 13, %4+\at, %8+\at
   add_one \first, 12
   add_one \second, 13
   .endr
   .endm
   .macro _two_products loaded, columns:vararg
   _two_dy r2, \loaded, 16, 17, \columns
   _two_dy r0, \loaded, 18, 19, \columns
   _two_dy r9, \loaded, 20, 21, \columns
   _two_dy r8, \loaded, 22, 23, \columns
   .endm
   .macro _two_load
   cmp     r10, #4
   bne.n   7f
   vldmia  r1!, {s0-s3}
   vldmia  r7!, {s4-s7}
   b.n     8f
7:
   .irp    at, 0, 1, 2, 3
   _load_x \at, r1
   _load_x %4+\at, r7
   .endr
8:
   .endm
   .macro _two_strip
   _two_load
   _two_products s8-s11, 0, 1, 2, 3
   .endm
   .macro _two_left
   _load_x 0, r1
   _load_x 4, r7
   _two_products s8, 0
   .endm

/* The same of a single channel of dy, and two of x or one. */
   .macro _single_strip
   _two_load
   _two_dy r2, s8-s11, 16, 17, 0, 1, 2, 3
   .endm
   .macro _single_left
   _load_x 0, r1
   _load_x 4, r7
   _two_dy r2, s8, 16, 17, 0
   .endm
   .macro _alone_strip
   .irp    at, 0, 1, 2, 3
   _load_x \at, r1
   .endr
   vldmia  r2!, {s8-s11}
   multiply_one 12, 0, 8
   .irp    at, 1, 2, 3
   multiply_one %12+\at, \at, %8+\at
   add_one 16, %11+\at
   .endr
   add_one 16, 15
   .endm
   .macro _alone_left
   vldmia  r2!, {s8}
   vldr    s0, [r1]
   multiply_one 12, 0, 8
   add     r1, r1, r10
   add_one 16, 12
   .endm

   .macro _lines name, channels, gradients, totals, sums:vararg
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   mov     r3, r1
   ldmia   r0, {r4-r11}
   lsl     r6, r6, #2
   lsl     r7, r7, #2
   lsl     r0, r9, #2
   mov     r9, r10
   mov     r10, r0
   sub     sp, sp, #16
   push    {r4-r9, r11}
1: ldr     lr, [sp, #24]
   ldmia   lr!, {r0-r2, r4-r6, r9, r12}
   str     lr, [sp, #24]
   _clear \totals, \sums
   cmp     r12, #0
   beq.w   9f
   ldr     lr, [sp, #16]
   strd    r12, lr, [sp, #28]
   strd    r0, r9, [sp, #36]
   ldrd    r7, r8, [sp]
   add     r1, r7, r1, lsl #2
   add     r2, r8, r2, lsl #2
   ldrd    r7, r8, [sp, #8]
   add     r7, r1, r7
   add     r0, r2, r8
   add     r9, r0, r8
   add     r8, r9, r8
   and     r11, r6, #3
   lsrs    r6, r6, #2
2: _clear 16, \sums
   movs    lr, r6
   beq.w   4f
3: _\channels\()_strip
   subs    lr, lr, #1
   bne.w   3b
4: movs    lr, r11
   beq.w   6f
5: _\channels\()_left
   subs    lr, lr, #1
   bne.w   5b
6:
   .irp    sum, \sums
   add_one %\totals+\sum-16, \sum
   .endr
   .irp    next, r1, r7
   add     \next, \next, r4, lsl #2
   .endr
   .irp    next, \gradients
   add     \next, \next, r5, lsl #2
   .endr
   subs    r12, r12, #1
   bne.w   2b
   ldr     lr, [sp, #32]
   subs    lr, lr, #1
   beq.n   9f
   str     lr, [sp, #32]
   ldrd    r12, lr, [sp, #36]
   .irp    next, r1, r7
   add     \next, \next, r12, lsl #2
   .endr
   .irp    next, \gradients
   add     \next, \next, lr, lsl #2
   .endr
   ldr     r12, [sp, #28]
   b.w     2b
9:
   .irp    sum, \sums
   _store_total %\totals+\sum-16, %36*(\sum-16)
   .endr
   add     r3, r3, #4
   ldr     lr, [sp, #20]
   subs    lr, lr, #1
   str     lr, [sp, #20]
   bne.w   1b
   add     sp, sp, #44
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm
   .macro _store_total total, to
   vstr    s\total, [r3, #\to]
   .endm

   _lines poet_conv2d_lines_f32, one, <r2, r0, r9, r8>, 28, 16, 17, 18, 19
   _lines poet_conv2d_pair_lines_f32, two, <r2, r0, r9, r8>, 24, 16, 17, 18, 19, 20, 21, 22, 23
   _lines poet_conv2d_single_lines_f32, alone, <r2>, 24, 16
   _lines poet_conv2d_single_pair_lines_f32, single, <r2>, 24, 16, 17

#endif
