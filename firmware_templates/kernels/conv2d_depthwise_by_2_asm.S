/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Registers that a load leaves alone stay 0: padding.
 *   forward: s0-s8  a row of the source, or two: s0-s4 and s5-s9    s10-s18  weights    s19-s22  sums
 *       s23-s26  products    s27  shift    s28  0
 *   dX: s0-s4  a row of dy    s5-s9  the one before    s10-s18  weights    s19-s26  sums    s27-s30  products    s31  0
 *   dW: s0-s14  five columns of three rows of x    s15-s23  a row's sums    s24-s25  gradients    s26-s28  products
 *       s29  0 */
   .macro move_one to, from
   vmov.f32 s\to, s\from
   .endm
   .macro load_row columns
   vldmia  r1, {\columns}
   bx      r9
   .endm

/* Four sums, `apart`, and four columns, `step` apart. */
   .macro _multiply to, apart, source, step, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\apart*\at, %\source+\step*\at, \weight
   .endr
   .endm
   .macro _add_all to, apart, what, step
   .irp    at, 0, 1, 2, 3
   add_one %\to+\apart*\at, %\what+\step*\at
   .endr
   .endm

/* Forward: a tap's products; the columns of a second sample come behind a gap of 1. */
   .macro _meet to, source, weight, gap
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\at, %\source+2*\at+\gap*(\at/2), \weight
   .endr
   .endm
   .macro _add source, weight, gap
   _meet 23, \source, \weight, \gap
   _add_all 19, 1, 23, 1
   .endm
   .macro load_rows columns, second
   vldmia  r1, {\columns}
   add     lr, r1, r10, lsl #2
   vldmia  lr, {\second}
   bx      r9
   .endm

/* all columns, and fewer */
   .macro _put gap, few, back
   _add_all 19, 1, 27, 0
   .if     \gap
   vstmia  r3, {s19-s20}
   add     lr, r3, r11, lsl #2
   vstmia  lr, {s21-s22}
   .else
   cmp     r8, #4
   bne.w   \few
   vstmia  r3, {s19-s22}
   .endif
\back: add r3, r3, r5, lsl #2
   .endm
   .macro _put_few few, back
\few: vstr s19, [r3]
   cmp     r8, #2
   blt.w   \back
   vstr    s20, [r3, #4]
   beq.w   \back
   vstr    s21, [r3, #8]
   b.w     \back
   .endm

/* r4, r5  what is next    r6  rows left    r7  where a row of the kernel's middle is added    r8  columns
 * r9  where the next row is added    r10, r11  to the second sample    r12  what loads a row
 * on the stack: channels and turns left, weights, bias, where a plane's first row is added */
   .macro _begin_strips name
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s28}
   sub     sp, sp, #20
   ldmia   r0!, {r4, r5, r10, r11}
   ldmia   r0!, {r8, r12, lr}
   movs    r6, #0
   vmov    s28, r6
   .irp    zero, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
   vmov.f32 s\zero, s28
   .endr
   adr     r6, 4f
   add     r12, r12, r6
   adr     r7, 5f + 1
   adr     r9, 7f + 1
   cmp     lr, #0
   it      ne
   movne   r9, r7
   str     r2, [sp, #8]
   str     r9, [sp, #16]
   ldr     r6, [r0, #20]
1: str     r6, [sp, #4]
   ldr     r2, [sp, #8]
   ldr     r6, [r0, #24]
   str     r6, [sp, #12]
   ldr     r6, [r0, #16]
2: str     r6, [sp]
   vldmia  r2!, {s10-s18}
   ldr     lr, [sp, #12]
   ldr     r6, [r0, #12]
   vldmia  lr, {s27}
   add     lr, lr, r6, lsl #2
   str     lr, [sp, #12]
   add_one 27, 28 /* no -0 */
   .irp    sum, 19, 20, 21, 22
   move_one \sum, 28
   .endr
   ldr     r9, [sp, #16]
   ldr     r6, [r0]
   bx      r12
   .p2align 2
4:
   .endm

   .macro _end_strips name, gap
/* the kernel's middle row */
   .p2align 2
5: _add 0, 13, \gap
   _add 1, 14, \gap
   _add 2, 15, \gap
   add     r1, r1, r4, lsl #2
   adr     r9, 6f + 1
   subs    r6, r6, #1
   beq.w   8f
   bx      r12
/* its last row, and its first */
   .p2align 2
6: _add 0, 16, \gap
   _add 1, 17, \gap
   _add 2, 18, \gap
   _put \gap, 10f, 11
   .p2align 2
7: add     r1, r1, r4, lsl #2
   mov     r9, r7
   subs    r6, r6, #1
   beq.w   9f
   _meet 19, 0, 10, \gap
   _add 1, 11, \gap
   _add 2, 12, \gap
   bx      r12
8: _put \gap, 12f, 13
9: ldrd    r6, lr, [r0, #4]
   add     r1, r1, r6, lsl #2
   add     r3, r3, lr, lsl #2
   ldr     r6, [sp]
   subs    r6, r6, #1
   bne.w   2b
   add     r1, r1, r10, lsl #2
   add     r3, r3, r11, lsl #2
   ldr     r6, [sp, #4]
   subs    r6, r6, #1
   bne.w   1b
   add     sp, sp, #20
   vpop    {s16-s28}
   pop     {r4-r11, pc}
   .if     !\gap
   _put_few 10, 11b
   _put_few 12, 13b
   .endif
   end_function \name
   .endm

   _begin_strips poet_conv2d_depthwise_by_2_strips_f32
   .irp    columns, s0-s1, s0-s2, s0-s3, s0-s4, s0-s5, s0-s6, s0-s7, s0-s8
   load_row \columns
   .endr
   .irp    columns, s1, s1-s2, s1-s3, s1-s4, s1-s5, s1-s6, s1-s7, s1-s8
   load_row \columns
   .endr
   _end_strips poet_conv2d_depthwise_by_2_strips_f32, 0

   _begin_strips poet_conv2d_depthwise_by_2_pair_strips_f32
   load_rows s0-s3, s5-s8
   load_rows s0-s4, s5-s9
   load_rows s1-s3, s6-s8
   load_rows s1-s4, s6-s9
   _end_strips poet_conv2d_depthwise_by_2_pair_strips_f32, 1

/* dX: every other column has met the kernel's even columns (sums from `even` on), those between its odd one (from
 * `odd` on, and from the same column of dy or the next); and so have rows. */
   .macro _add_columns to, source, weight
   _multiply 27, 1, \source, 1, \weight
   _add_all \to, 2, 27, 1
   .endm
   .macro _put_wide many, one
   _add_all 19, 1, 31, 0
   _add_all 23, 1, 31, 0
   cmp     r8, #8
   bne.w   \many
   vstmia  r3, {s19-s26}
\one:
   add     r3, r3, r5, lsl #2
   subs    r7, r7, #1
   beq.w   9f
   .endm
   .macro _put_some columns
   vstmia  r3, {\columns}
   bx      lr
   .endm

/* r2  the next plane's weights    r4, r5  what is next    r6, r7  rows of dy and dx left    r8  columns
 * r9  where the next row goes    r10  what stores some columns    r11  samples left    r12  what loads a row
 * on the stack: channels left, weights, where a plane's first row goes */
   .macro _wide_strips name, even, odd, from, loads:vararg
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   sub     sp, sp, #12
   ldmia   r0!, {r4, r5, r8, r9, r10}
   adr     r12, 1f
   add     r12, r12, r9
   adr     r9, 3f + 1
   cmp     r10, #0
   it      ne
   adrne   r9, 4f + 1
   strd    r2, r9, [sp, #4]
   adr     r10, 2f + 1
   sub     r6, r8, #1
   add     r6, r6, r6, lsl #1
   add     r10, r10, r6, lsl #1
   movs    r6, #0
   vmov    s31, r6
   .irp    zero, 0, 1, 2, 3, 4
   move_one \zero, 31
   .endr
   ldr     r11, [r0, #16]
10: ldr    r2, [sp, #4]
   ldr     r6, [r0, #12]
11: str    r6, [sp]
   vldmia  r2!, {s10-s18}
   .irp    zero, 5, 6, 7, 8, 9
   move_one \zero, 31
   .endr
   ldrd    r6, r7, [r0]
   ldr     r9, [sp, #8]
   bx      r12
   .p2align 2
1:
   .irp    columns, \loads
   load_row \columns
   .endr
   .p2align 2
2:
   .irp    columns, s19, s19-s20, s19-s21, s19-s22, s19-s23, s19-s24, s19-s25
   _put_some \columns
   .endr
/* the kernel's first and last row */
   .p2align 2
3: _multiply \even, 2, 1, 1, 10
   _add_columns \even, 0, 12
   _add_columns \even, 6, 16
   _add_columns \even, 5, 18
   _multiply \odd, 2, \from, 1, 11
   _add_columns \odd, %5+\from, 17
   _put_wide 5f, 6
/* its middle row */
   .p2align 2
4: _multiply \even, 2, 1, 1, 13
   _add_columns \even, 0, 15
   _multiply \odd, 2, \from, 1, 14
   _put_wide 7f, 8
   .irp    at, 0, 1, 2, 3, 4
   move_one %5+\at, \at
   .endr
   adr     r9, 3b + 1
   add     r1, r1, r4, lsl #2
   subs    r6, r6, #1
   it      ne
   bxne    r12
   .irp    at, 0, 1, 2, 3, 4
   move_one \at, 31
   .endr
   bx      r9
   .p2align 2
5: adr     lr, 6b + 1
   bx      r10
   .p2align 2
7: adr     lr, 8b + 1
   bx      r10
9: ldr     lr, [r0, #8]
   ldr     r6, [sp]
   add     r1, r1, lr, lsl #2
   subs    r6, r6, #1
   bne.w   11b
   subs    r11, r11, #1
   bne.w   10b
   add     sp, sp, #12
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _wide_strips poet_conv2d_depthwise_by_2_wide_strips_f32, 19, 20, 1, s0-s3, s0-s4, s1, s1-s2, s1-s3, s1-s4
   _wide_strips poet_conv2d_depthwise_by_2_wide_odd_strips_f32, 20, 19, 0, s0, s0-s1, s0-s2, s0-s3, s0-s4

/* From two columns with one of padding before x, no products are of padding. A row of dy: s0-s1, the one before: s2-s3,
 * weights: s4-s12, sums: s13-s16.
 * r4  to the next plane    r9  where a plane's first row goes    r10, r11  channels and samples left    r12  weights */
   .macro _put_narrow few, back
   add_one 13, 22
   add_one 14, 22
   add_one 15, 22
   cmp     r8, #4
   bne.w   \few
   add_one 16, 22
   vstmia  r3!, {s13-s16}
\back: subs r7, r7, #1
   beq.w   9f
   .endm
   function poet_conv2d_depthwise_by_2_narrow_strips_f32
   push    {r4-r11, lr}
   vpush   {s16-s22}
   mov     r12, r2
   ldr     r8, [r0, #8]
   ldr     r10, [r0, #16]
   add     r0, r0, #20
   ldrd    r4, r5, [r0, #8]
   ldr     r11, [r0, #16]
   adr     r9, 3f + 1
   cmp     r10, #0
   it      ne
   adrne   r9, 4f + 1
   movs    r6, #0
   vmov    s22, r6
1: mov     r2, r12
   mov     r10, r5
2: vldmia  r2!, {s4-s12}
   ldrd    r6, r7, [r0]
   move_one 2, 22
   move_one 3, 22
   vldmia  r1, {s0-s1}
   bx      r9
/* the kernel's first and last row */
   .p2align 2
3: multiply_one 13, 0, 5
   multiply_one 14, 1, 4
   multiply_one 15, 1, 5
   multiply_one 16, 1, 6
   multiply_one 17, 0, 6
   multiply_one 18, 2, 11
   multiply_one 19, 3, 11
   multiply_one 20, 3, 12
   multiply_one 21, 3, 10
   add_one 14, 17
   multiply_one 17, 2, 12
   add_one 13, 18
   add_one 14, 21
   add_one 15, 19
   add_one 16, 20
   add_one 14, 17
   _put_narrow 5f, 6
/* its middle row */
   .p2align 2
4: multiply_one 14, 1, 7
   multiply_one 17, 0, 9
   multiply_one 13, 0, 8
   multiply_one 15, 1, 8
   add_one 14, 17
   multiply_one 16, 1, 9
   _put_narrow 7f, 8
   move_one 2, 0
   move_one 3, 1
   add     r1, r1, #8
   subs    r6, r6, #1
   itt     ne
   vldmiane r1, {s0-s1}
   bne.w   3b
   move_one 0, 22
   move_one 1, 22
   b.w     3b
5: vstmia  r3!, {s13-s15}
   b.w     6b
7: vstmia  r3!, {s13-s15}
   b.w     8b
9: add     r1, r1, r4, lsl #2
   subs    r10, r10, #1
   bne.w   2b
   subs    r11, r11, #1
   bne.w   1b
   vpop    {s16-s22}
   pop     {r4-r11, pc}
   end_function poet_conv2d_depthwise_by_2_narrow_strips_f32

/* dW: a column of dy and the three of each row of x from `at` on. */
   .macro add_taps to, source, gradient
   multiply_one 26, \source, \gradient
   multiply_one 27, %\source+1, \gradient
   multiply_one 28, %\source+2, \gradient
   add_one \to, 26
   add_one %\to+1, 27
   add_one %\to+2, 28
   .endm
   .macro _add_position at, gradient
   add_taps 15, \at, \gradient
   add_taps 18, %5+\at, \gradient
   add_taps 21, %10+\at, \gradient
   .endm
   .macro add_one_met to, what
   vaddne.f32 s\to, s\to, s\what
   .endm

/* r3-r5  x    r6  rows left    r7  pairs    r8  edges    r9  next    r12  pairs left    lr  x */
   function poet_conv2d_depthwise_by_2_taps_f32
   push    {r4-r9, lr}
   vpush   {s16-s29}
   mov     lr, r3
   movs    r3, #0
   vmov    s29, r3
1: ldmia   r0!, {r3-r9}
   cmp     r6, #0
   beq.w   9f
   .irp    row, r3, r4, r5
   add     \row, lr, \row, lsl #2
   .endr
2:
   .irp    zero, 0, 5, 10, 15, 16, 17, 18, 19, 20, 21, 22, 23
   vmov.f32 s\zero, s29
   .endr
   tst     r8, #0x20
   bne.n   3f
   vldmia  r3!, {s0}
   vldmia  r4!, {s5}
   vldmia  r5!, {s10}
3: movs    r12, r7
   beq.w   5f
4: vldmia  r3!, {s1-s4}
   vldmia  r4!, {s6-s9}
   vldmia  r5!, {s11-s14}
   vldmia  r1!, {s24-s25}
   _add_position 0, 24
   _add_position 2, 25
   vmov.f32 s0, s4
   vmov.f32 s5, s9
   vmov.f32 s10, s14
   subs    r12, r12, #1
   bne.w   4b
5: tst     r8, #0x08
   beq.n   6f
   vldmia  r3!, {s1-s2}
   vldmia  r4!, {s6-s7}
   vldmia  r5!, {s11-s12}
   vldmia  r1!, {s24}
   _add_position 0, 24
   vmov.f32 s0, s2
   vmov.f32 s5, s7
   vmov.f32 s10, s12
6: tst     r8, #0x10
   beq.n   7f
   vldmia  r3!, {s1}
   vldmia  r4!, {s6}
   vldmia  r5!, {s11}
   vldmia  r1!, {s24}
   .irp    zero, 2, 7, 12
   vmov.f32 s\zero, s29
   .endr
   _add_position 0, 24
7: vldmia  r2, {s0-s8}
   .irp    row, 0, 1, 2
   tst     r8, #(1 << \row)
   ittt    ne
   add_one_met %3*\row, %15+3*\row
   add_one_met %3*\row+1, %16+3*\row
   add_one_met %3*\row+2, %17+3*\row
   .endr
   vstmia  r2, {s0-s8}
   .irp    row, r3, r4, r5
   add     \row, \row, r9, lsl #2
   .endr
   subs    r6, r6, #1
   bne.w   2b
   b.w     1b
9: vpop    {s16-s29}
   pop     {r4-r9, pc}
   end_function poet_conv2d_depthwise_by_2_taps_f32

#endif
