/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers join no loads of floats, and here all registers hold some. A sum begins with its first product, and
 * not with 0: where it is -0 what is added makes 0 of it, to which 0 was added before.
 *   s0-s7  a channel of the source    s8-s11  weights    s12-s15  products    s16-s23, s24-s31  sums of two channels of results
 *   r1, r12  source    r2, lr  weights    r3  result    r4  channels left    r5  channels of results left
 *   r6  source_next    r7  what is next of weights    r8  result_next    r9, r10  shifts, shift_next    r11  positions left
 *   [sp], [sp, #4]  the first weights, where the burst's results begin */
   .macro _source
   vldmia  r12, {s0-s7}
   add     r12, r12, r6, lsl #2
   .endm
   .macro _multiply to, weight
   .irp    at, 0, 1, 2, 3, 4, 5, 6, 7
   multiply_one %\to+\at, \at, \weight
   .endr
   .endm
   .macro _four source, weight, sum
   .irp    at, 0, 1, 2, 3
   multiply_one %12+\at, %\source+\at, \weight
   .endr
   .irp    at, 0, 1, 2, 3
   add_one %\sum+\at, %12+\at
   .endr
   .endm
   .macro _products to, weight
   _four 0, \weight, \to
   _four 4, \weight, %4+\to
   .endm
   .macro _shift to, shift
   .irp    at, 0, 1, 2, 3, 4, 5, 6, 7
   add_one %\to+\at, \shift
   .endr
   .endm
   .macro _channel weight, other, two
   _source
   _products 16, \weight
   .ifnb   \two
   _products 24, \other
   .endif
   .endm

/* A burst of one channel of results, or of two, from r3 and its second half from `half` on. */
   .macro _move what, half, two
   ldr     \half, [r0, #32] /* result_four */
   add     \half, r3, \half, lsl #2
   \what  r3, {s16-s19}
   \what  \half, {s20-s23}
   .ifnb   \two
   add     r3, r3, r8, lsl #2
   add     \half, \half, r8, lsl #2
   \what  r3, {s24-s27}
   \what  \half, {s28-s31}
   .endif
   .endm

/* From the first burst to the last. */
   .macro _begin name
   function \name
   push    {r4-r11, lr}
   vpush   {s16-s31}
   push    {r2, r3}
   ldr     r6, [r0, #8]
   ldr     r7, [r0, #12]
   ldr     r8, [r0, #16]
   ldr     r10, [r0, #24]
   ldr     r11, [r0, #28]
   .endm
   .macro _begin_burst
1: ldr     r2, [sp]
   ldr     r3, [sp, #4]
   ldr     r5, [r0, #4]
   ldr     r9, [r0, #20]
   subs    r5, r5, #2
   .endm
   .macro _end name
   subs    r11, r11, #8
   ble.n   9f
   ldr     r3, [sp, #4]
   adds    r1, r1, #32
   adds    r3, r3, #32
   str     r3, [sp, #4]
   cmp     r11, #8
   bge.w   1b
   rsb     r4, r11, #8 /* so many are made again */
   sub     r1, r1, r4, lsl #2
   sub     r3, r3, r4, lsl #2
   str     r3, [sp, #4]
   mov     r11, #8
   b.w     1b
9: add     sp, sp, #8
   vpop    {s16-s31}
   pop     {r4-r11, pc}
   end_function \name
   .endm

/* From the first channel of the source to the last, for one channel of results or two. */
   .macro _begin_sums
   mov     r12, r1
   ldr     r4, [r0]
   ldr     lr, [r0, #36] /* further */
   cmp     lr, #0
   .endm
   .macro _end_sums two
   vmov    s2, r4 /* 0 */
   .ifnb   \two
   vldmia  r9, {s0-s1}
   add     r9, r9, r10, lsl #3
   add_one 0, 2
   add_one 1, 2
   _shift 16, 0
   _shift 24, 1
   .else
   vldmia  r9, {s0}
   add_one 0, 2
   _shift 16, 0
   .endif
   _move vstmia, r12, \two
   .endm
   .macro _further two
   _move vldmia, r4, \two
   .ifnb   \two
   sub     r3, r3, r8, lsl #2
   .endif
   ldr     r4, [r0]
   .endm

/* All sums of a burst, in one channel of results or two; the weights of one channel of the source, or of two, are in s8, s9
 * and from s10 on. */
   .macro _sum way, two
   _begin_sums
   _begin_\way \two
   bne.w   7f
   _weights_\way \two
   _source
   _multiply 16, 8
   .ifnb   \two
   _multiply 24, 9
   .endif
   subs    r4, r4, #1
3: lsrs    r4, r4, #1
   bcc.w   4f
   _weights_\way \two
   _channel 8, 9, \two
4: cmp     r4, #0
   beq.w   6f
9: _channels_\way \two
   subs    r4, r4, #1
   bne.w   9b
6: _end_sums \two
   .endm
   .macro _sums name, way
   _begin_burst
   blt.w   5f
2: _sum \way, two
   add     r3, r3, r8, lsl #2
   _next_\way
   subs    r5, r5, #2
   bge.w   2b
   b.n     5f
7: _further two
   b.w     3b
5: adds    r5, r5, #1 /* a last channel of results */
   bne.w   8f
   _sum \way
   b.n     8f
7: _further
   b.w     3b
8: _end \name
   .endm

/* Forward, the weights of a channel of results are neighbours. */
   .macro _begin_forward two
   .ifnb   \two
   ldr     lr, [r0, #12]
   add     lr, r2, lr, lsl #2
   .endif
   .endm
   .macro _weights_forward two
   vldmia  r2!, {s8}
   .ifnb   \two
   vldmia  lr!, {s9}
   .endif
   .endm
   .macro _channels_forward two
   vldmia  r2!, {s8-s9}
   .ifnb   \two
   vldmia  lr!, {s10-s11}
   .endif
   _channel 8, 10, \two
   _channel 9, 11, \two
   .endm
   .macro _next_forward
   add     r2, lr, r7, lsl #2
   .endm
   _begin poet_conv2d_bursts_f32
   ldr     r4, [r0]
   subs    r7, r7, r4 /* from behind a channel's last weight to the first of the next */
   _sums poet_conv2d_bursts_f32, forward

/* For dX, those of neighbouring channels of results are. */
   .macro _begin_backwards two
   mov     lr, r2
   .endm
   .macro _weights_backwards two
   .ifnb   \two
   vldmia  lr, {s8-s9}
   .else
   vldmia  lr, {s8}
   .endif
   add     lr, lr, r7, lsl #2
   .endm
   .macro _channels_backwards two
   _weights_backwards \two
   _channel 8, 9, \two
   _weights_backwards \two
   _channel 8, 9, \two
   .endm
   .macro _next_backwards
   adds    r2, r2, #8
   .endm
   _begin poet_conv2d_bursts_backwards_f32
   _sums poet_conv2d_bursts_backwards_f32, backwards

/* Of one channel a burst is loaded once. All weights are neighbours. Where there is one shift for all it is 0. */
   _begin poet_conv2d_bursts_of_one_f32
   movs    r4, #0
   vmov    s10, r4
   vmov.f32 s12, s10
   vmov.f32 s13, s10
   _begin_burst
   mov     r4, r10
   vldmia  r1, {s0-s7}
   blt.w   5f
2: vldmia  r2!, {s8-s9}
   cbz     r4, 3f
   vldmia  r9!, {s12-s13}
   add_one 12, 10
   add_one 13, 10
3: _multiply 16, 8
   _multiply 24, 9
   _shift 16, 12
   _shift 24, 13
   vstmia  r3, {s16-s23}
   add     r3, r3, r8, lsl #2
   vstmia  r3, {s24-s31}
   add     r3, r3, r8, lsl #2
   subs    r5, r5, #2
   bge.n   2b
5: adds    r5, r5, #1
   bne.n   8f
   vldmia  r2, {s8}
   cbz     r4, 3f
   vldmia  r9, {s12}
   add_one 12, 10
3: _multiply 16, 8
   _shift 16, 12
   vstmia  r3, {s16-s23}
8: _end poet_conv2d_bursts_of_one_f32

/* Words are moved in registers of integers, which takes less than in those of floats.
 *   r1  source    r2  what is gathered    r3  channels left    r4-r7  a four    r8-r10  to its other three
 *   r11, r12  to the next channels    lr  column    [sp], [sp, #4]  fours left, to the next one */
   .macro _next_position
   add     lr, lr, #1
   cmp     lr, r5
   itee    lt
   addlt   r4, r4, r8
   addge   r4, r4, r6
   movge   lr, #0
   .endm
   function poet_conv2d_gather_f32
   push    {r4-r11, lr}
   ldr     r3, [r0, #28]
   ldr     r11, [r0, #16]
   ldr     r12, [r0, #20]
   ldr     lr, [r0, #24]
   sub     sp, sp, #8
1: str     r3, [sp]
   ldr     r8, [r0, #4]
   ldr     r5, [r0]
   ldr     r3, [r0, #12]
   add     lr, lr, #4
   lsls    r4, r8, #2
   add     r9, r8, r8
   cmp     lr, r5
   add     r10, r9, r8
   blt.n   2f
   sub     lr, lr, #4 /* the row ends here */
   ldr     r6, [r0, #8]
   movs    r4, #0
   _next_position
   mov     r7, r4
   _next_position
   mov     r9, r4
   _next_position
   mov     r10, r4
   _next_position
   mov     r8, r7
2: add     r4, r4, r1
   str     r4, [sp, #4]
3: ldr     r4, [r1]
   ldr     r5, [r1, r8]
   ldr     r6, [r1, r9]
   ldr     r7, [r1, r10]
   str     r4, [r2]
   str     r5, [r2, #4]
   str     r6, [r2, #8]
   str     r7, [r2, #12]
   add     r1, r1, r11
   add     r2, r2, r12
   subs    r3, r3, #1
   bne.n   3b
   ldr     r1, [sp, #4]
   ldr     r4, [r0, #12]
   ldr     r3, [sp]
   mls     r2, r4, r12, r2
   adds    r2, r2, #16
   subs    r3, r3, #1
   bne.n   1b
   add     sp, sp, #8
   pop     {r4-r11, pc}
   end_function poet_conv2d_gather_f32

#endif
