/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* A row of the kernel goes through all rows that it meets; rows of padding are left out. A row's sums begin with their first
 * products: -0 where 0 - 0 would be 0, which added to a total that began as 0 makes no difference.
 *   s0-s8  a row of x, 0 where it is padding    s9-s12  a row of dy    s13-s15  its sums    s16-s18  totals
 *   s19-s21  products    s22  0    s23  all totals
 *   r1, r3  dy and x    r4  samples left    r5  rows    r6-r8  what is next    r9  what loads a row    r10  what sums it
 *   r11, lr  the first of x and dy    r12  rows left */
   .macro _load_row columns
   vldmia  r3, {\columns}
   bx      r10
   .endm

   .macro _multiply_column to, source, gradient
   multiply_one \to, \source, \gradient
   multiply_one %\to+1, %\source+1, \gradient
   multiply_one %\to+2, %\source+2, \gradient
   .endm
   .macro _add_three to, what
   add_one \to, \what
   add_one %\to+1, %\what+1
   add_one %\to+2, %\what+2
   .endm
   .macro _sum_row label, step, count, columns
\label:
   vldmia  r1!, {\columns}
   add     r3, r3, r6, lsl #2
   _multiply_column 13, 0, 9
   .irp    at, 1, 2, 3
   .if     \at < \count
   _multiply_column 19, %\at*\step, %9+\at
   _add_three 13, 19
   .endif
   .endr
   subs    r12, r12, #1
   _add_three 16, 13
   it      ne
   bxne    r9
   subs    r4, r4, #1
   add     r1, r1, r8, lsl #2
   add     r3, r3, r7, lsl #2
   mov     r12, r5
   it      ne
   bxne    r9
   .endm

   .macro _begin_taps name
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s23}
   mov     lr, r1
   mov     r11, r3
   ldmia   r0!, {r6, r9, r10, r12}
   push    {r12}
   movs    r12, #0
   vmov    s22, r12
   .irp    zero, 0, 1, 2, 3, 4, 5, 6, 7, 8, 23
   vmov.f32 s\zero, s22
   .endr
   adr     r12, 3f
   add     r9, r9, r12
   adr     r12, 2f
   ldrh    r10, [r12, r10, lsl #1]
   add     r10, r10, r12
1: ldmia   r0!, {r1, r3, r4, r5, r7, r8}
   cmp     r4, #0
   beq.w   9f
   .irp    total, 16, 17, 18
   vmov.f32 s\total, s22
   .endr
   add     r1, lr, r1, lsl #2
   add     r3, r11, r3, lsl #2
   movs    r12, r5
   beq.w   8f
   bx      r9
   .p2align 2
2: .hword  4f + 1 - 2b, 5f + 1 - 2b, 6f + 1 - 2b, 7f + 1 - 2b
   .p2align 2
3:
   .endm

   .macro _end_taps name, step
   _sum_row 4, \step, 1, s9
   b.n     8f
   _sum_row 5, \step, 2, s9-s10
   b.n     8f
   _sum_row 6, \step, 3, s9-s11
   b.n     8f
   _sum_row 7, \step, 4, s9-s12
8: vstmia  r2!, {s16-s18}
   .irp    total, 16, 17, 18
   add_one 23, \total
   .endr
   b.n     1b
9: add     lr, lr, r1, lsl #2
   add     r11, r11, r3, lsl #2
   ldr     r12, [sp]
   sub     r0, r0, #96
   subs    r12, r12, #1
   str     r12, [sp]
   bne.w   1b
   pop     {r12}
   vmov.f32 s0, s23
   vpop    {s16-s23}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _begin_taps poet_conv2d_depthwise_few_columns_f32
   .irp    columns, s0, s0-s1, s0-s2, s0-s3, s0-s4, s0-s5
   _load_row \columns
   .endr
   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s2, s2-s3, s2-s4, s2-s5
   _load_row \columns
   .endr
   _end_taps poet_conv2d_depthwise_few_columns_f32, 1

   _begin_taps poet_conv2d_depthwise_few_columns_by_2_f32
   .irp    columns, s0, s0-s1, s0-s2, s0-s3, s0-s4, s0-s5, s0-s6, s0-s7, s0-s8
   _load_row \columns
   .endr
   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s1-s6, s1-s7, s1-s8
   _load_row \columns
   .endr
   _end_taps poet_conv2d_depthwise_few_columns_by_2_f32, 2

#endif
