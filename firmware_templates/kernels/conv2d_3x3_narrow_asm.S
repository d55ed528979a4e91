/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_strip.c.
 *   r0  rows    r1  x    r2, r4-r6  dy    r3, r12  totals    r7  x_row    r8, r9  x_next, dy_next
 *   r10, r12  count, rows to do    r11  samples to do    lr  odd    [sp]  x, dy, dy_other, samples, rows of the kernel to do
 * s1-s8 columns of x, s9-s12 of dy, s13-s15 a row's sums, s16-s18 products, s19-s30 totals. */
   .macro _load to, from, first, last
   .if     \last > \first
   vldmia  \from\to, {s\first-s\last}
   .else
   vldmia  \from\to, {s\first}
   .endif
   .endm
   .macro _load_last at
   vldreq  s\at, [r1, #4*\at-4]
   .endm
   .macro _last_product source, gradient, product, sum
   itt     eq
   vmuleq.f32 s\product, s\source, s\gradient
   vaddeq.f32 s\sum, s\sum, s\product
   .endm

/* A column but the first, of which the left tap has met nothing. The right one of the last may have met padding. */
   .macro _column at, width, step, left
   multiply_one \left, %\step*\at, %9+\at
   multiply_one 17, %\step*\at+1, %9+\at
   .if     \at+1 < \width
   multiply_one 18, %\step*\at+2, %9+\at
   add_one 15, 18
   .endif
   .if     \at > 1
   add_one 13, 16
   .endif
   add_one 14, 17
   .if     \at+1 == \width
   .if     \step == 2
   _last_product %2*\at+2, %9+\at, 18, 15
   .endif
   .endif
   .endm

/* A row of one output channel. */
   .macro _output gradients, total, width, step
   _load !, \gradients, 9, %8+\width
   multiply_one 14, 1, 9
   .if     \width > 1
   multiply_one 15, 2, 9
   _column 1, \width, \step, 13
   .endif
   .if     \width > 2
   _column 2, \width, \step, 16
   .endif
   .if     \width > 3
   _column 3, \width, \step, 16
   .endif
   .if     \width > 1
   add_one \total, 13
   add_one %\total+2, 15
   .elseif \step == 2
   _last_product 2, 9, 15, %\total+2
   .endif
   add_one %\total+1, 14
   .endm

/* What is around the loops over samples and rows, whose address is in r12. */
   function poet_conv2d_narrow
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0!, {r4-r7}
   mov     lr, r6
   movs    r6, #3
   push    {r1-r2, r4-r6, r12}
1: ldmia   r0!, {r8-r12}
   ldrd    r1, r2, [sp]
   add     r1, r1, r11, lsl #2
   add     r2, r2, r12, lsl #2
   ldrd    r12, r11, [sp, #8]
   add     r4, r2, r12, lsl #2
   add     r5, r4, r12, lsl #2
   add     r6, r5, r12, lsl #2
   movs    r12, #0
   vmov    s19, r12
   .irp    total, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
   vmov.f32 s\total, s19
   .endr
   ldr     r12, [sp, #20]
   cmp     r10, #0
   it      ne
   bxne    r12
   .global poet_conv2d_narrow_end
   .thumb_func
poet_conv2d_narrow_end:
   mov     r12, r3
   vstmia  r12, {s19-s21}
   add     r12, r12, #36
   vstmia  r12, {s22-s24}
   add     r12, r12, #36
   vstmia  r12, {s25-s27}
   add     r12, r12, #36
   vstmia  r12, {s28-s30}
   add     r3, r3, #12
   ldr     r12, [sp, #16]
   subs    r12, r12, #1
   str     r12, [sp, #16]
   bne.w   1b
   add     sp, sp, #24
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function poet_conv2d_narrow

   .macro _narrow name, width, step
   function \name
   adr     r12, 2f + 1
   b.w     poet_conv2d_narrow
2: mov     r12, r10
3: .if     \step == 2
   _load , r1, 1, %2*\width-1
   cmp     lr, #0
   it      eq
   _load_last %2*\width
   .else
   _load , r1, 1, \width
   .endif
   add     r1, r1, r7, lsl #2
   _output r2, 19, \width, \step
   _output r4, 22, \width, \step
   _output r5, 25, \width, \step
   _output r6, 28, \width, \step
   subs    r12, r12, #1
   bne.w   3b
   add     r1, r1, r8, lsl #2
   .irp    next, r2, r4, r5, r6
   add     \next, \next, r9, lsl #2
   .endr
   subs    r11, r11, #1
   bne.w   2b
   b.w     poet_conv2d_narrow_end
   end_function \name
   .endm
   _narrow poet_conv2d_narrow_1_by_1_f32, 1, 1
   _narrow poet_conv2d_narrow_2_by_1_f32, 2, 1
   _narrow poet_conv2d_narrow_3_by_1_f32, 3, 1
   _narrow poet_conv2d_narrow_1_by_2_f32, 1, 2
   _narrow poet_conv2d_narrow_2_by_2_f32, 2, 2
   _narrow poet_conv2d_narrow_3_by_2_f32, 3, 2
   _narrow poet_conv2d_narrow_4_by_2_f32, 4, 2
/* dX: r1, r4  dy    r2, r5  weights    r3  dx    r6  channels left    r7, r8  channel_next, weight_next    r9  rows left
 *   r10, r12  odd_width, odd_height    s0, s1 and s2, s3  a row of dy and the next one    s4-s12  weights    s13-s20  a channel's
 *   sums    s21-s23  products    s24-s31  totals */
   function poet_conv2d_narrow_backwards_f32
   push    {r4-r10, lr}
   vpush   {s16-s31}
   ldmia   r0, {r4, r6-r8, r10, r12}
   mov     r9, r4
1: movs    r4, #0
   vmov    s24, r4
   .irp    total, 25, 26, 27, 28, 29, 30, 31
   vmov.f32 s\total, s24
   .endr
   ldr     r6, [r0, #4]
   mov     r4, r1
   mov     r5, r2
2: vldmia  r5, {s4-s12}
   cmp     r9, #1
   beq.n   3f
   vldmia  r4, {s0-s3}
   multiply_one 17, 2, 5
   multiply_one 18, 3, 4
   multiply_one 22, 2, 6
   multiply_one 19, 3, 5
   multiply_one 20, 3, 6
   add_one 18, 22
   multiply_one 21, 0, 11
   multiply_one 22, 1, 10
   multiply_one 23, 0, 12
   add_one 17, 21
   add_one 18, 22
   multiply_one 21, 1, 11
   multiply_one 22, 1, 12
   add_one 18, 23
   add_one 19, 21
   add_one 20, 22
   b.n     4f
3: vldmia  r4, {s0-s1} /* the last row */
   multiply_one 18, 1, 10
   multiply_one 23, 0, 12
   multiply_one 17, 0, 11
   multiply_one 19, 1, 11
   multiply_one 20, 1, 12
   add_one 18, 23
4: multiply_one 14, 1, 7
   multiply_one 21, 0, 9
   multiply_one 13, 0, 8
   multiply_one 15, 1, 8
   multiply_one 16, 1, 9
   add_one 14, 21
   .irp    sum, 13, 15, 16, 14, 17, 18, 19, 20
   add_one %11+\sum, \sum
   .endr
   add     r4, r4, r7
   add     r5, r5, r8
   subs    r6, r6, #1
   bne.w   2b
   adds    r1, r1, #8
   cmp     r10, #0
   ite     eq
   vstmiaeq r3!, {s24-s27}
   vstmiane r3!, {s24-s26}
   subs    r9, r9, #1
   bne.n   5f
   cmp     r12, #0
   bne.n   6f
5: cmp     r10, #0
   ite     eq
   vstmiaeq r3!, {s28-s31}
   vstmiane r3!, {s28-s30}
   cmp     r9, #0
   bne.w   1b
6: vpop    {s16-s31}
   pop     {r4-r10, pc}
   end_function poet_conv2d_narrow_backwards_f32

#endif
