/* SPDX-License-Identifier: Apache-2.0 */
/* In assembly, a channel's sums are s16-s23, and totals s24-s31. What sums a strip stands between _begin_strip, which names
 * the register of the last column that it meets, and _end_strip; what is around it is poet_conv2d_strips (conv2d_strip_asm.S). */
   .macro _add_totals
   .irp    sum, 16, 17, 18, 19, 20, 21, 22, 23
   add_one %8+\sum, \sum
   .endr
   .endm
   .macro _begin_strip name, right
   function \name
   adr     r12, 1f + 1
   b.w     poet_conv2d_strips
1: vmov.f32 s\right, s0
2: msr     APSR_nzcvq, r12
   .endm
   .macro _end_strip
   _add_totals
   add     r1, r1, r5, lsl #2
   add     r2, r2, r6, lsl #2
   add     r7, r7, r6, lsl #2
   subs    r8, r8, #1
   bne.w   2b
   b.w     poet_conv2d_strips_end
   .endm
