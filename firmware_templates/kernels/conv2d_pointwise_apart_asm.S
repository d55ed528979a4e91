/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as conv2d_bursts.c. What is apart goes through registers of integers, whose loads and stores take an offset.
 *   r1, r12  where the next positions' source and results begin    r11  positions left in the plane behind them
 *   r8-r10  to a four's other three    r3  to the next four    lr  column
 *   [sp]  source, weights and result of a sample, samples left */
/* Where the next four are: each row that ends among them, or behind them, turns those of the next. */
   .macro _places
   ldrd    r4, r8, [r0]
   add     lr, lr, #4
   lsl     r3, r8, #2
   add     r9, r8, r8
   cmp     lr, r4
   add     r10, r9, r8
   blt.n   32f
   ldr     r7, [r0, #8]
31: subs   lr, lr, r4
   add     r3, r3, r7
   beq.n   32f
   cmp     lr, #2
   it      gt
   addgt   r8, r8, r7
   it      ge
   addge   r9, r9, r7
   cmp     lr, #0
   it      gt
   addgt   r10, r10, r7
   cmp     lr, r4
   bge.n   31b
32:
   .endm

/* From the first positions of the first sample to the last of the last, which may be made again. */
   .macro _begin name, last, block
   function \name
   push    {r4-r11, lr}
   .ifgt   \last-15
   vpush   {s16-s\last}
   .endif
   ldr     r4, [r0, #16]
   mov     r12, r3
   push    {r1-r6}
   ldr     r11, [r0, #12]
   movs    lr, #0
   sub     r11, r11, #\block
   .endm
   .macro _end name, last, block, apart, near
   subs    r11, r11, #\block
   add     \near, \near, #4*\block
   bge.w   1b
   cmn     r11, #\block
   ble.n   8f
   add     \near, \near, r11, lsl #2 /* back by what is missing */
   ldrd    r4, r5, [r0]
   ldr     r6, [r0, #8]
   mla     \apart, r11, r5, \apart
   adds    lr, lr, r11
   mov     r11, #0
   bpl.w   1b
7: sub     \apart, \apart, r6
   adds    lr, lr, r4
   bmi.n   7b
   b.w     1b
8: ldr     r4, [sp, #12]
   ldr     r1, [sp]
   ldr     r12, [sp, #8]
   ldrd    r5, r6, [r0, #20]
   subs    r4, r4, #1
   add     r1, r1, r5
   add     r12, r12, r6
   str     r4, [sp, #12]
   str     r1, [sp]
   str     r12, [sp, #8]
   ldr     r11, [r0, #12]
   mov     lr, #0
   sub     r11, r11, #\block
   bne.w   1b
   add     sp, sp, #24
   .ifgt   \last-15
   vpop    {s16-s\last}
   .endif
   pop     {r4-r11, pc}
   end_function \name
   .endm

/* Forward: r2  weights    r3  result    r4  result_next    r5  results left    r6  shift, or 0 */
   .macro _move_two first, second, from, other
   vmov    s\first, s\second, \from, \other
   .endm
   .macro _take_four from, to
   ldr     r4, [\from]
   ldr     r5, [\from, r8]
   ldr     r6, [\from, r9]
   ldr     r7, [\from, r10]
   _move_two \to, %1+\to, r4, r5
   _move_two %2+\to, %3+\to, r6, r7
   .endm
   .macro _begin_results
   add     r3, r0, #40
   ldmia   r3, {r4-r6}
   ldr     r2, [sp, #4]
   mov     r3, r12
   .endm
   .macro _clear_two first, second
   vmov    s\first, s\second, lr, lr
   .endm
   .macro _load_weights first, last
   .if     \last-\first
   vldmia  r2!, {s\first-s\last}
   .else
   vldmia  r2!, {s\first}
   .endif
   .endm
   .macro _load_shift to, zero
   vldmia  r6!, {s\to}
   add_one \to, \zero
   .endm
   .macro _multiply to, from, weight
   .irp    at, 0, 1, 2, 3
   multiply_one %\to+\at, %\from+\at, \weight
   .endr
   .endm
   .macro _add to, from
   .irp    at, 0, 1, 2, 3
   add_one %\to+\at, %\from+\at
   .endr
   .endm
   .macro _shift to, shift
   .irp    at, 0, 1, 2, 3
   add_one %\to+\at, \shift
   .endr
   .endm
   .macro _store to, first, last
   vstmia  \to, {s\first-s\last}
   .endm

/* s0 on: the source, then four sums, four products, the weights, shift and 0 */
   .macro _apart name, channels, last
   _begin \name, \last, 4
   _clear_two %8+5*\channels, %9+5*\channels
1: _places
   mov     r2, r1
   add     r1, r1, r3
   .irp    channel, 0, 1, 2, 3
   .ifgt   \channels-\channel
   .if     \channel
   ldr     r4, [r0, #28]
   add     r2, r2, r4
   .endif
   _take_four r2, %4*\channel
   .endif
   .endr
   _begin_results
2: _load_weights %8+4*\channels, %7+5*\channels
   cbz     r6, 3f
   _load_shift %8+5*\channels, %9+5*\channels
3: _multiply %4*\channels, 0, %8+4*\channels
   .irp    channel, 1, 2, 3
   .ifgt   \channels-\channel
   _multiply %4+4*\channels, %4*\channel, %8+4*\channels+\channel
   _add %4*\channels, %4+4*\channels
   .endif
   .endr
   _shift %4*\channels, %8+5*\channels
   _store r3, %4*\channels, %3+4*\channels
   add     r3, r3, r4
   subs    r5, r5, #1
   bne.n   2b
   _end \name, \last, 4, r1, r12
   .endm
   _apart poet_conv2d_apart_1_f32, 1, 15
   _apart poet_conv2d_apart_2_f32, 2, 19
   _apart poet_conv2d_apart_3_f32, 3, 25
   _apart poet_conv2d_apart_4_f32, 4, 29

/* s0-s7  the source    s8, s9  weights    s10, s11  shifts    s12  0    s16-s31  sums of two channels of results */
   .macro _eight to, shift, weight
   _multiply \to, 0, \weight
   _multiply %4+\to, 4, \weight
   _shift \to, \shift
   _shift %4+\to, \shift
   _store r3, \to, %7+\to
   .endm
   _begin poet_conv2d_apart_eights_f32, 31, 8
   _clear_two 10, 11
   vmov    s12, lr
1: _places
   _take_four r1, 0
   add     r1, r1, r3
   _places
   _take_four r1, 4
   add     r1, r1, r3
   _begin_results
   subs    r5, r5, #2
   blt.w   4f
2: vldmia  r2!, {s8-s9}
   cbz     r6, 3f
   vldmia  r6!, {s10-s11}
   add_one 10, 12
   add_one 11, 12
3: _eight 16, 10, 8
   add     r3, r3, r4
   _eight 24, 11, 9
   add     r3, r3, r4
   subs    r5, r5, #2
   bge.n   2b
4: adds    r5, r5, #1
   bne.n   5f
   vldmia  r2, {s8}
   cbz     r6, 3f
   _load_shift 10, 12
3: _eight 16, 10, 8
5: _end poet_conv2d_apart_eights_f32, 31, 8, r1, r12

/* dX: r2, r7  weights    r3  source    r4, r5  source_next, weight_next    r6  channels left
 *   [sp, #16], [sp, #20]  where the next four are, results left
 *   s0-s3  the source    s4-s7  weights    s8-s15  products    s16-s31  sums */
   .macro _put_four sums, next
   _take_two r3, r4, \sums, %1+\sums
   _take_two r5, r6, %2+\sums, %3+\sums
   str     r3, [r12]
   str     r4, [r12, r8]
   str     r5, [r12, r9]
   str     r6, [r12, r10]
   add     r12, r12, \next
   .endm
   .macro _take_two to, other, first, second
   vmov    \to, \other, s\first, s\second
   .endm
   .macro _zero first, others:vararg
   movs    r3, #0
   vmov    s\first, r3
   .irp    other, \others
   vmov.f32 s\other, s\first
   .endr
   .endm
   .macro _weights count, last
   .if     \count-1
   vldmia  r7, {s4-s\last}
   .else
   vldmia  r7, {s4}
   .endif
   add     r7, r7, r5
   .endm
   .macro _sum_fours count, zeros:vararg
   _zero 16, 17, 18, 19, \zeros
   add     r3, r0, #28
   ldmia   r3, {r4-r6}
   mov     r7, r2
   mov     r3, r1
33: vldmia r3, {s0-s3}
   add     r3, r3, r4
   _weights \count, %3+\count
   .irp    at, 0, 1, 2, 3
   .ifgt   \count-\at
   _multiply 8, 0, %4+\at
   _add %16+4*\at, 8
   .endif
   .endr
   subs    r6, r6, #1
   bne.n   33b
   ldr     r7, [r0, #40]
   .irp    at, 0, 1, 2, 3
   .ifgt   \count-\at
   _put_four %16+4*\at, r7
   .endif
   .endr
   .endm
   _begin poet_conv2d_apart_backwards_f32, 31, 4
1: _places
   add     r3, r12, r3
   ldr     r4, [r0, #44]
   ldr     r2, [sp, #4]
   str     r3, [sp, #16]
   subs    r4, r4, #4
   blt.w   3f
2: str     r4, [sp, #20]
   _sum_fours 4, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
   ldr     r4, [sp, #20]
   adds    r2, r2, #16
   subs    r4, r4, #4
   bge.w   2b
3: adds    r4, r4, #3
   blt.w   9f
   beq.w   6f
   cmp     r4, #2
   blt.w   5f
   _sum_fours 3, 20, 21, 22, 23, 24, 25, 26, 27
   b.n     9f
5: _sum_fours 2, 20, 21, 22, 23
   b.n     9f
6: _sum_fours 1
9: ldr     r12, [sp, #16]
   _end poet_conv2d_apart_backwards_f32, 31, 4, r12, r1

/* s0-s7  half of the source    s8  weight    s9  0    s12-s15  products    s16-s31  sums */
   .macro _begin_eight to
   _multiply \to, 0, 8
   _multiply %4+\to, 4, 8
   _shift \to, 9
   _shift %4+\to, 9
   .endm
   .macro _add_eight to
   _multiply 12, 0, 8
   _add \to, 12
   _multiply 12, 4, 8
   _add %4+\to, 12
   .endm
   .macro _sixteen way
   add     r3, r2, #32
   vldmia  r2, {s0-s7}
   vldr    s8, [r7]
   _\way\()_eight 16
   vldmia  r3, {s0-s7}
   add     r2, r2, r4
   add     r7, r7, r5
   _\way\()_eight 24
   .endm
   _begin poet_conv2d_apart_sixteens_f32, 31, 16
   vmov    s9, lr /* 0 */
1: add     r3, r0, #28
   ldmia   r3, {r4-r6}
   ldr     r7, [sp, #4]
   mov     r2, r1
   _sixteen begin
   subs    r6, r6, #3
   blt.w   4f
2: _sixteen add
   subs    r6, r6, #2
   _sixteen add
   bge.w   2b
4: adds    r6, r6, #1
   bne.w   3f
   _sixteen add
3:
   .irp    sums, 16, 20, 24, 28
   _places
   mov     r7, r3
   _put_four \sums, r7
   .endr
   _end poet_conv2d_apart_sixteens_f32, 31, 16, r12, r1

#endif
