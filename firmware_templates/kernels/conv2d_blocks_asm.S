/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers leave some of sixteen sums in memory.
 *   r10, r11  source and weight at a tap    r8, r9  of a row    r2  weight of a channel
 *   r1, r3, r4  elements to the other positions, or r1 = 0 for neighbours
 *   r5  bytes to the next channel's weight    r6, r7  to the next tap of both    r12  one of four    lr  taps left
 *   [sp]  rows, channels left; source of a channel; the totals; source, weight, result, fours left, bias
 *   s0-s3  four positions    s4-s7  four channels' weights    s8-s15  products    s16-s31  sums */
   .macro _load_lanes first, second, third, at
   vldr    s0, [r10]
   add     \at, r10, \first, lsl #2
   vldr    s1, [\at]
   add     \at, r10, \second, lsl #2
   vldr    s2, [\at]
   add     \at, r10, \third, lsl #2
   vldr    s3, [\at]
   .endm
/* 0 is no distance to another. Between a first one and its third neighbour no box's order has but the second. */
   .macro _mark_neighbours first, third
   cmp     \first, #1
   it      eq
   cmpeq   \third, #3
   it      eq
   moveq   \first, #0
   .endm
   .macro _four_products
   vldr    s4, [r11]
   add     r10, r10, r7, lsl #2
   add     r11, r11, r8, lsl #2
   _multiply 0, 4
   _add 8, 0
   subs    lr, lr, #1
   .endm
   .macro _load_weights
   vldr    s4, [r11]
   add     r12, r11, r5
   .irp    to, 5, 6, 7
   vldr    s\to, [r12]
   .ifnc   \to, 7
   add     r12, r12, r5
   .endif
   .endr
   .endm
   .macro _multiply to, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\at, \at, \weight
   .endr
   .endm
   .macro _add to, what
   .irp    at, 0, 1, 2, 3
   add_one %\to+\at, %\what+\at
   .endr
   .endm
   .macro _store_one sum, to
   vstr    s\sum, [\to]
   .endm
   .macro _products
   _load_weights
   _multiply 8, 4
   _multiply 12, 5
   _add 16, 8
   _add 20, 12
   _multiply 8, 6
   _multiply 12, 7
   _add 24, 8
   _add 28, 12
   add     r10, r10, r6
   add     r11, r11, r7
   subs    lr, lr, #1
   .endm
   .macro _put first, second, third, fourth, bias
   .irp    sum, \first, \second, \third, \fourth
   add_one \sum, \bias
   .endr
   vstr    s\first, [r8]
   add     r12, r8, r9, lsl #2
   vstr    s\second, [r12]
   add     r12, r8, r10, lsl #2
   vstr    s\third, [r12]
   add     r12, r8, r11, lsl #2
   vstr    s\fourth, [r12]
   add     r8, r8, lr, lsl #2
   .endm

   function poet_conv2d_blocks_f32
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldrd    r8, r9, [r0, #44] /* fours, bias */
   push    {r1, r2, r3, r8, r9}
   sub     sp, sp, #76
   ldrd    r6, r7, [r0, #28] /* inner.a_next, inner.b_next */
   lsls    r6, r6, #2
   lsls    r7, r7, #2
   ldr     r12, [r0, #56] /* lanes */
   ldmia   r12, {r1, r3, r4}
   _mark_neighbours r1, r4
   ldr     r5, [r0, #36] /* weight_next */
   lsls    r5, r5, #2
0: ldr     r12, [r0] /* outer.count */
   ldr     r8, [sp, #76]
   str     r12, [sp, #4]
1: str     r8, [sp, #8]
   movs    lr, #0
   vmov    s16, lr
   .irp    sum, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
   vmov.f32 s\sum, s16
   .endr
   mov     r9, r2
   ldr     r12, [r0, #12] /* middle.count */
2: str     r12, [sp]
   mov     r10, r8
   mov     r11, r9
   ldr     lr, [r0, #24] /* inner.count */
   cmp     r1, #0
   beq.w   8f
3: _load_lanes r1, r3, r4, r12
   _products
   bne.w   3b
4:
   ldrd    r10, r11, [r0, #16] /* middle.a_next, middle.b_next */
   add     r8, r8, r10, lsl #2
   add     r9, r9, r11, lsl #2
   ldr     r12, [sp]
   subs    r12, r12, #1
   bne.w   2b
/* but for the first channel, the totals so far */
   ldrd    r10, r11, [r0] /* outer.count, outer.a_next */
   ldr     r12, [sp, #4]
   cmp     r12, r10
   add     r10, sp, #12
   beq.w   5f
   vldmia  r10, {s0-s15}
   .irp    sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
   add_one %16+\sum, \sum
   .endr
5: subs    r12, r12, #1
   beq.n   6f
   str     r12, [sp, #4]
   vstmia  r10, {s16-s31}
   ldr     r8, [sp, #8]
   add     r8, r8, r11, lsl #2
   ldr     r12, [r0, #8] /* outer.b_next */
   add     r2, r2, r12, lsl #2
   b.w     1b
6: ldr     r12, [sp, #92] /* bias */
   vldmia  r12, {s0-s3}
   ldr     r12, [r0, #56]
   add     r12, r12, #12 /* lanes' results */
   ldmia   r12, {r9, r10, r11}
   ldr     r8, [sp, #84]
   ldr     lr, [r0, #40] /* result_channel */
   _put 16, 17, 18, 19, 0
   _put 20, 21, 22, 23, 1
   _put 24, 25, 26, 27, 2
   _put 28, 29, 30, 31, 3
   add     r12, sp, #80
   ldmia   r12, {r2, r9, r10, r11} /* weight, result, fours, bias */
   subs    r10, r10, #1
   beq.n   7f
   ldr     r9, [r0, #52] /* bias_next */
   add     r2, r2, r5, lsl #2
   add     r11, r11, r9, lsl #2
   mov     r9, r8
   stmia   r12, {r2, r9, r10, r11}
   b.w     0b
7: add     sp, sp, #96
   vpop    {s16-s31}
   pop     {r4-r11, pc}
8: vldmia  r10, {s0-s3}
   _products
   bne.w   8b
   b.w     4b
   end_function poet_conv2d_blocks_f32

/* r10, r11  a and b at a tap    r1, r2  of a row    r4-r6  as r1, r3, r4 above    r7, r8  elements to the next tap
 * r12, lr  rows, taps left    [sp]  a and b of a channel, channels left, the lanes' results
 * s0-s3  four of a    s4  b    s8-s11  sums    s12-s15  totals */
   function poet_conv2d_four_f32
   push    {r4-r11, lr}
   sub     sp, sp, #16
   ldmia   r3!, {r4-r6}
   str     r3, [sp, #12]
   _mark_neighbours r4, r6
   ldrd    r7, r8, [r0, #28]
   movs    lr, #0
   vmov    s12, lr
   .irp    sum, 13, 14, 15
   vmov.f32 s\sum, s12
   .endr
   ldr     r3, [r0] /* outer.count */
1: stmia   sp, {r1-r3}
   movs    lr, #0
   vmov    s8, lr
   .irp    sum, 9, 10, 11
   vmov.f32 s\sum, s8
   .endr
   ldr     r12, [r0, #12] /* middle.count */
2: mov     r10, r1
   mov     r11, r2
   ldr     lr, [r0, #24] /* inner.count */
   cmp     r4, #0
   beq.n   8f
3: _load_lanes r4, r5, r6, r9
   _four_products
   bne.n   3b
4:
   ldrd    r10, r11, [r0, #16] /* middle.a_next, middle.b_next */
   add     r1, r1, r10, lsl #2
   add     r2, r2, r11, lsl #2
   subs    r12, r12, #1
   bne.n   2b
   _add 12, 8
   ldmia   sp, {r1-r3}
   ldrd    r10, r11, [r0, #4] /* outer.a_next, outer.b_next */
   add     r1, r1, r10, lsl #2
   add     r2, r2, r11, lsl #2
   subs    r3, r3, #1
   bne.n   1b
   ldrd    r1, r2, [sp, #52] /* bias, result */
   vldr    s0, [r1]
   ldr     r3, [sp, #12]
   ldmia   r3, {r4-r6} /* lanes' results */
   .irp    sum, 12, 13, 14, 15
   add_one \sum, 0
   .endr
   vstr    s12, [r2]
   .irp    lane, 4, 5, 6
   add     r12, r2, r\lane, lsl #2
   _store_one %9+\lane, r12
   .endr
   add     sp, sp, #16
   pop     {r4-r11, pc}
8: vldmia  r10, {s0-s3}
   _four_products
   bne.n   8b
   b.n     4b
   end_function poet_conv2d_four_f32

#endif
