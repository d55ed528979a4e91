/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* A row of the source is loaded once, and meets all rows of the kernel: it ends one row of results, whose sums are in
 * s16-s19, goes on with the next, s20-s23, and begins one, s24-s27. What is added last to a sum moves it along, too.
 *   s0-s5  a row of the source    s6-s14  weights    s15  shift    s28-s31  products
 *   r2  what is next until a result is whole: 0    r4, r5  what is next    r6  rows left    r7  rows behind those that a
 *   result begins with    r8  rows of padding    r9  what loads a row    r10, r11  weights, bias    r12  its step
 *   lr  channels left    on the stack: samples left, weights, channels */
   .macro sum_one to, from, what
   vadd.f32 s\to, s\from, s\what
   .endm
   .macro move_one to, from
   vmov.f32 s\to, s\from
   .endm

   .macro _multiply to, source, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\at, %\source+\at, \weight
   .endr
   .endm
   .macro _add to, from, source, weight
   _multiply 28, \source, \weight
   .irp    at, 0, 1, 2, 3
   sum_one %\to+\at, %\from+\at, %28+\at
   .endr
   .endm

   .macro _load first, last
   vldmia  r1, {s\first-s\last}
   b.w     3f
   .endm

   .macro _put
   .irp    sum, 16, 17, 18, 19
   add_one \sum, 15
   .endr
   vstmia  r3, {s16-s19}
   add     r3, r3, r2, lsl #2
   .endm

   .macro _strip name, first, second, third
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0!, {r4, r5, r9, r12, lr}
   ldr     r6, [r0], #4
   push    {r2, lr}
   movs    r2, #0
   vmov    s0, r2
   .irp    zero, 1, 2, 3, 4, 5
   vmov.f32 s\zero, s0
   .endr
   adr     r2, 1f
   add     r9, r9, r2
8: push    {r6}
   ldr     r10, [sp, #4]
   ldr     lr, [sp, #8]
   ldr     r11, [r0, #20]
9: vldmia  r10!, {s6-s14}
   vldmia  r11, {s15}
   add     r11, r11, r12, lsl #2
   movs    r2, #0
   vmov    s28, r2
   sum_one 15, 15, 28 /* no -0 */
   .irp    zero, 16, 17, 18, 19, 20, 21, 22, 23
   move_one \zero, 28
   .endr
   ldmia   r0, {r6, r7, r8}
   cmp     r6, #0
   beq.w   4f
   bx      r9
   .p2align 2
1: _load 2, 3
   _load 2, 4
   _load 2, 5
   _load 1, 3
   _load 1, 4
   _load 1, 5
   _load 0, 3
   _load 0, 4
   vldmia  r1, {s0-s5}
3: _add 16, 16, \first, 12
   _add 16, 16, \second, 13
   _add 16, 16, \third, 14
   _put
   _add 20, 20, \first, 9
   _add 20, 20, \second, 10
   _add 16, 20, \third, 11
   _multiply 24, \first, 6
   _add 24, 24, \second, 7
   _add 20, 24, \third, 8
   add     r1, r1, r4, lsl #2
   subs    r6, r6, #1
   beq.n   4f
   bx      r9
4: mov     r2, r5 /* from here on a row of results is whole with each row of the source */
   movs    r6, r7
   mov     r7, #0
   it      ne
   bxne    r9
5: subs    r8, r8, #1
   bmi.n   6f
   _put
   .irp    at, 0, 1, 2, 3
   move_one %16+\at, %20+\at
   .endr
   b.n     5b
6: ldrd    r6, r7, [r0, #12]
   add     r1, r1, r6, lsl #2
   add     r3, r3, r7, lsl #2
   subs    lr, lr, #1
   bne.w   9b
   pop     {r6}
   subs    r6, r6, #1
   bne.w   8b
   add     sp, sp, #8
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _strip poet_conv2d_depthwise_strips_f32, 0, 1, 2
   _strip poet_conv2d_depthwise_strips_backwards_f32, 2, 1, 0

/* s0-s2, s3-s5, s6-s8  columns of x    s9  gradient    s10-s12  products    s15  0    s16-s24  a row's sums
 * r3-r5, lr  x    r6  rows left    r12  columns left */
   .macro load_column to
   .irp    row, 0, 1, 2
   load_one %3+\row, %\to+\row
   .endr
   .endm
   .macro load_one from, to
   vldmia  r\from!, {s\to}
   .endm

   .macro add_one_met to, what
   vaddne.f32 s\to, s\to, s\what
   .endm

   .macro add_taps row, left, middle, right
   multiply_one 10, %\left+\row, 9
   multiply_one 11, %\middle+\row, 9
   multiply_one 12, %\right+\row, 9
   add_one %16+3*\row, 10
   add_one %17+3*\row, 11
   add_one %18+3*\row, 12
   .endm
   .macro clear_column first
   .irp    row, 0, 1, 2
   move_one %\first+\row, 15
   .endr
   .endm
   .macro move_column to, from
   .irp    row, 0, 1, 2
   move_one %\to+\row, %\from+\row
   .endr
   .endm
   .macro add_position left, middle, right
   vldmia  r1!, {s9}
   .irp    row, 0, 1, 2
   add_taps \row, \left, \middle, \right
   .endr
   .endm

   function poet_conv2d_depthwise_taps_f32
   push    {r4-r11, lr}
   vpush   {s16-s24}
   mov     lr, r3
   movs    r3, #0
   vmov    s15, r3
9: ldmia   r0!, {r3-r11}
   cmp     r6, #0
   beq.w   9f
   .irp    row, r3, r4, r5
   add     \row, lr, \row, lsl #2
   .endr
1: .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23, 24
   vmov.f32 s\sum, s15
   .endr
   cmp     r10, #1
   blt.n   2f
   clear_column 0
   beq.n   3f
   clear_column 3
   b.n     8f
2: load_column 0
3: load_column 3
8: movs    r12, r7
   beq.w   5f
4: load_column 6
   add_position 0, 3, 6
   load_column 0
   add_position 3, 6, 0
   load_column 3
   add_position 6, 0, 3
   subs    r12, r12, #1
   bne.w   4b
5: movs    r12, r8
   beq.n   8f
6: load_column 6
   add_position 0, 3, 6
   move_column 0, 3
   move_column 3, 6
   subs    r12, r12, #1
   bne.n   6b
8: movs    r12, r9
   beq.n   7f
6: vldmia  r1!, {s9}
   .irp    row, 0, 1, 2
   multiply_one 10, \row, 9
   multiply_one 11, %3+\row, 9
   add_one %16+3*\row, 10
   add_one %17+3*\row, 11
   .endr
   subs    r12, r12, #1
   beq.n   7f
   move_column 0, 3
   clear_column 3
   b.n     6b
7: vldmia  r2, {s0-s8}
   .irp    row, 0, 1, 2
   tst     r11, #(1 << \row)
   ittt    ne
   add_one_met %3*\row, %16+3*\row
   add_one_met %3*\row+1, %17+3*\row
   add_one_met %3*\row+2, %18+3*\row
   .endr
   vstmia  r2, {s0-s8}
   subs    r6, r6, #1
   bne.w   1b
   b.w     9b
9: vpop    {s16-s24}
   pop     {r4-r11, pc}
   end_function poet_conv2d_depthwise_taps_f32

#endif
