/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

#include "conv2d_strip_asm.h"

/* In assembly, as compilers join no loads of floats, and here all registers hold some. In strips:
 *   s0-s5    a row of the source, 0 where it is padding    s8-s10, s11-s13  a row of weights of either channel
 *   s16-s23  a channel's sums                              s24-s31          totals
 *   s6, s7, s14, s15  products
 * _begin says which registers are what in the other functions. */
   .macro set_two to, too, from
   vmov    s\to, s\too, \from, \from
   .endm

   .macro _multiply to, source, weight
   multiply_one %\to, %\source, \weight
   multiply_one %\to+1, %\source+1, \weight
   multiply_one %\to+2, %\source+2, \weight
   multiply_one %\to+3, %\source+3, \weight
   .endm

   .macro _add to, source, weight
   multiply_one 6, %\source, \weight
   multiply_one 7, %\source+1, \weight
   multiply_one 14, %\source+2, \weight
   multiply_one 15, %\source+3, \weight
   add_one %\to, 6
   add_one %\to+1, 7
   add_one %\to+2, 14
   add_one %\to+3, 15
   .endm

/* The products of one row of the kernel, whose taps meet the source from these columns on. */
   .macro _row begin, first, second, third
   vldmia  r1, {s1-s4}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s5, [r1, #16]
   vldmia  r2!, {s8-s10}
   vldmia  r7!, {s11-s13}
   _\begin 16, \first, 8
   _\begin 20, \first, 11
   _add 16, \second, 9
   _add 20, \second, 12
   _add 16, \third, 10
   _add 20, \third, 13
   .endm

/* Rows of strips, and each one's beginning and end, around what sums one: r12 on entry.
 *   r1  source      r2, r7  weights of either channel    r3   result           r4-r6, r12  what struct poet_strips
 *   r8  channels    r9      columns to the last strip    r10  rows             begins with, edges
 *   r11 source, where the strip begins                   lr   what sums it
 *   [sp]  weights, where the strip begins    [sp, #68]  source, weights and result on entry */
   function poet_conv2d_strips
   push    {r1-r11, lr}
   vpush   {s16-s31}
   push    {r2}
   mov     lr, r12
4: ldmia   r0, {r4-r6}
   add     r3, sp, #68
   ldmia   r3, {r1-r3}
   add     r12, r0, #56
   ldmia   r12, {r7-r9}
   add     r11, r1, r7, lsl #2
   add     r2, r2, r8, lsl #2
   add     r3, r3, r9, lsl #2
   str     r2, [sp]
   ldr     r10, [r0, #36]
1: ldr     r9, [r0, #40]
   ldr     r12, [r0, #20]
   orr     r12, r12, #0x80000000
2: cmp     r9, #0
   it      ne
   bicne   r12, r12, #0x20000000
   mov     r1, r11
   ldr     r2, [sp]
   movs    r7, #0
   vmov    s0, r7
   .irp    total, 24, 26, 28, 30
   set_two %\total, %1+\total, r7
   .endr
   ldr     r7, [r0, #12]
   ldr     r8, [r0, #16]
   add     r7, r2, r7, lsl #2
   bx      lr
   .global poet_conv2d_strips_end
   .type   poet_conv2d_strips_end, %function
   .thumb_func
poet_conv2d_strips_end:
   add     r8, r0, #24
   vldmia  r8, {s0-s1}
   ldr     r8, [r0, #32]
   .irp    total, 24, 25, 26, 27
   add_one \total, 0
   add_one %4+\total, 1
   .endr
   add     r8, r3, r8, lsl #2
   vstmia  r3, {s24-s27}
   vstmia  r8, {s28-s31}
   cmp     r9, #0
   beq.n   3f
   ldr     r12, [r0, #20]
   ldr     r7, [r0, #44]
   cmp     r9, #4
   ite     lt
   movlt   r8, r9
   movge   r8, #4
   sub     r9, r9, r8
   add     r3, r3, r8, lsl #2
   mla     r11, r8, r7, r11
   b.n     2b
3: ldr     r8, [r0, #48]
   ldr     r7, [r0, #52]
   add     r11, r11, r8, lsl #2
   add     r3, r3, r7, lsl #2
   subs    r10, r10, #1
   bne.n   1b
   ldr     r8, [r0, #68]
   adds    r0, r0, #72
   cmp     r8, #0
   bne.n   4b
   add     sp, sp, #4
   vpop    {s16-s31}
   pop     {r1-r11, pc}
   end_function poet_conv2d_strips

   .macro _strip name, first, second, third
   _begin_strip \name, 5
   _row multiply, \first, \second, \third
   add     r1, r1, r4, lsl #2
   _row add, \first, \second, \third
   beq.w   3f
   add     r1, r1, r4, lsl #2
   _row add, \first, \second, \third
3:
   _end_strip
   end_function \name
   .endm
   _strip poet_conv2d_strips_f32, 0, 1, 2
   _strip poet_conv2d_strips_backwards_f32, 2, 1, 0

/* Two rows of one channel: s0-s5 a row of the source, s7-s9 and s10-s12 rows of weights, s6, s13-s15 products. */
   .macro _tall_load
   vldmia  r1, {s1-s4}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s5, [r1, #16]
   .endm
   .macro _tall_add to, source, weight
   multiply_one 6, %\source, \weight
   multiply_one 13, %\source+1, \weight
   multiply_one 14, %\source+2, \weight
   multiply_one 15, %\source+3, \weight
   add_one %\to, 6
   add_one %\to+1, 13
   add_one %\to+2, 14
   add_one %\to+3, 15
   .endm
   .macro _tall_row begin, to, weight, first, second, third
   _\begin \to, \first, \weight
   _tall_add \to, \second, %1+\weight
   _tall_add \to, \third, %2+\weight
   .endm
   .macro _tall_strip name, taps:vararg
   _begin_strip \name, 5
   vldmia  r2!, {s7-s12}
   beq.w   5f
   _tall_load
   _tall_row multiply, 16, 7, \taps
   add     r1, r1, r4, lsl #2
3: _tall_load
   _tall_row tall_add, 16, 10, \taps
   _tall_row multiply, 20, 7, \taps
   add     r1, r1, r4, lsl #2
   _tall_load
   vldmia  r2!, {s7-s9}
   _tall_row tall_add, 16, 7, \taps
   _tall_row tall_add, 20, 10, \taps
   bvs.n   4f
   add     r1, r1, r4, lsl #2
   _tall_load
   _tall_row tall_add, 20, 7, \taps
4:
   _end_strip
5: mov.w   r7, #0
   set_two 16, 17, r7
   set_two 18, 19, r7
   b.w     3b
   end_function \name
   .endm
   _tall_strip poet_conv2d_tall_strips_f32, 0, 1, 2
   _tall_strip poet_conv2d_tall_strips_backwards_f32, 2, 1, 0

/* Products of columns of x, from s0 on, and one output channel's gradients. */
   .macro _taps gradients, loaded, first, second, third, columns:vararg
   vldmia  \gradients!, {\loaded}
   .irp    at, \columns
   multiply_one 12, \at, %8+\at
   multiply_one 13, %1+\at, %8+\at
   multiply_one 14, %2+\at, %8+\at
   add_one \first, 12
   add_one \second, 13
   add_one \third, 14
   .endr
   .endm
   .macro _all_taps loaded, columns:vararg
   _taps r2, \loaded, 16, 17, 18, \columns
   _taps r0, \loaded, 19, 20, 21, \columns
   _taps r9, \loaded, 22, 23, 24, \columns
   _taps r8, \loaded, 25, 26, 27, \columns
   .endm
   .macro _begin_taps
   .irp    sum, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
   vmov.f32 s\sum, s15
   .endr
   vldmia  r1!, {s1}
   .endm
   .macro _end_taps
   vldmia  r3, {s0-s11}
   .irp    total, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
   add_one \total, %16+\total
   .endr
   vstmia  r3, {s0-s11}
   .endm

/* r1      x                r4, r12  samples, rows left    r5, r6    rows, strips
 * r2, r0, r9, r8  dy       lr       strips left           r10, r11  what is next
 * s8-s11  gradients    s12-s14  products    s15  0    s16-s27  a row's sums */
   .macro _begin name, odd
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   ldmia   r0, {r4-r6, r8, r10, r11}
   .ifnb   \odd
   ldr     r7, [r0, #24]
   .endif
   add     r0, r2, r8, lsl #2
   add     r9, r0, r8, lsl #2
   add     r8, r9, r8, lsl #2
   movs    r12, #0
   vmov    s15, r12
1: mov     r12, r5
2: mov     lr, r6
   .endm

/* On to the next row, and the next sample. */
   .macro _end name
   subs    r12, r12, #1
   bne.w   2b
   add     r1, r1, r10, lsl #2
   .irp    next, r2, r0, r9, r8
   add     \next, \next, r11, lsl #2
   .endr
   subs    r4, r4, #1
   bne.w   1b
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

   _begin poet_conv2d_tap_rows_f32
   _begin_taps
3: subs    lr, lr, #1
   ite     ne
   vldmiane r1!, {s2-s5}
   vldmiaeq r1!, {s2-s4}
   it      eq
   vmoveq.f32 s5, s15
   _all_taps s8-s11, 0, 1, 2, 3
   vmov.f32 s0, s4
   vmov.f32 s1, s5
   bne.w   3b
   _end_taps
   _end poet_conv2d_tap_rows_f32

/* Here r7 is the columns that are left. */
   _begin poet_conv2d_tap_odd_rows_f32, odd
   _begin_taps
3: vldmia  r1!, {s2-s5}
   _all_taps s8-s11, 0, 1, 2, 3
   vmov.f32 s0, s4
   vmov.f32 s1, s5
   subs    lr, lr, #1
   bne.w   3b
   mov     lr, r7
4: subs    lr, lr, #1
   ite     ne
   vldmiane r1!, {s2}
   vmoveq.f32 s2, s15
   _all_taps s8, 0
   vmov.f32 s0, s1
   vmov.f32 s1, s2
   bne.w   4b
   _end_taps
   _end poet_conv2d_tap_odd_rows_f32

#endif
