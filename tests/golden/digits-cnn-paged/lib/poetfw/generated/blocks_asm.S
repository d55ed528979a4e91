/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  1 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 1; o++)
 *                           for (j = 0; j < 1; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  0:0,1:1,2:2
 *
 *   s0-s2     row of the source, of which 1 first and 1 last may be padding
 *   s3-s5     weights
 *   s6-s9     products
 *   s30-s30   a channel's sums
 *   s31-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights, planes to come in r5
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next channel
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_1x1_2f215851
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   uxtb.w  r11, r10
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
/* row */
5:
   ldr     r1, [sp]
   ldr     lr, [r0, #20]
   orr     r10, r10, #0x80000000
   bic     r10, r10, #0x20000000
/* strip */
6:
   cmp.w   lr, #1
   it      eq
   orreq   r10, r10, #0x20000000
   str     r1, [sp, #12]
   movs    r9, #0
   vmov    s31, r9
   vmov.f32 s0, s31
   vmov.f32 s2, s31
   ldr     r2, [sp, #8]
   ldr     r9, [r0, #24]
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s1}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s2, [r1, #4]
   add     r1, r1, r6
   vldmia  r2!, {s3-s5}
   vmul.f32 s30, s0, s3
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s5
   vadd.f32 s30, s30, s7
   vadd.f32 s30, s30, s8
/* row 1 */
21:
   vldmia  r1, {s1}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s2, [r1, #4]
   add     r1, r1, r6
   vldmia  r2!, {s3-s5}
   vmul.f32 s6, s0, s3
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s5
   vadd.f32 s30, s30, s6
   vadd.f32 s30, s30, s7
   vadd.f32 s30, s30, s8
/* row 2 */
22:
   vldmia  r1, {s1}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s2, [r1, #4]
   add     r1, r1, r7
   vldmia  r2!, {s3-s5}
   vmul.f32 s6, s0, s3
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s5
   vadd.f32 s30, s30, s6
   vadd.f32 s30, s30, s7
   vadd.f32 s30, s30, s8
/* channel */
   vadd.f32 s31, s31, s30
   add     r2, r2, r8
   subs    r9, r9, #1
   bne.w   1b
/* results */
   vstmia  r12, {s31}
   subs.w  lr, lr, #1
   beq.n   3f
/* next strip */
   ldr     r1, [sp, #12]
   bic     r10, r10, #0x80000000
   ldr     r2, [r0, #36]
   ldr     r3, [r0, #40]
   add     r1, r1, r2
   add     r12, r12, r3
   b.w     6b
/* row end */
3:
   ldr     r1, [sp]
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r5, #0
   vmov    s30, r5
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_1x1_2f215851

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  1 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 1; o++)
 *                           for (j = 0; j < 1; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  0:0,1:1,2:2
 *
 *   s0-s2     row of the source, of which 1 first and 1 last may be padding
 *   s3-s5     weights
 *   s6-s9     products
 *   s31-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights, planes to come in r5
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next plane
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_1x1_f75b8a09
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   uxtb.w  r11, r10
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
   ldr     r5, [r0, #24]
/* plane */
4:
/* row */
5:
   ldr     r1, [sp]
   ldr     lr, [r0, #20]
   orr     r10, r10, #0x80000000
   bic     r10, r10, #0x20000000
/* strip */
6:
   cmp.w   lr, #1
   it      eq
   orreq   r10, r10, #0x20000000
   str     r1, [sp, #12]
   movs    r9, #0
   vmov    s0, r9
   vmov.f32 s2, s0
   ldr     r2, [sp, #8]
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s1}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s2, [r1, #4]
   add     r1, r1, r6
   vldmia  r2!, {s3-s5}
   vmul.f32 s31, s0, s3
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s5
   vadd.f32 s31, s31, s7
   vadd.f32 s31, s31, s8
/* row 1 */
21:
   vldmia  r1, {s1}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s2, [r1, #4]
   add     r1, r1, r6
   vldmia  r2!, {s3-s5}
   vmul.f32 s6, s0, s3
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s5
   vadd.f32 s31, s31, s6
   vadd.f32 s31, s31, s7
   vadd.f32 s31, s31, s8
/* row 2 */
22:
   vldmia  r1, {s1}
   it      pl
   vldrpl  s0, [r1, #-4]
   it      cc
   vldrcc  s2, [r1, #4]
   vldmia  r2!, {s3-s5}
   vmul.f32 s6, s0, s3
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s5
   vadd.f32 s31, s31, s6
   vadd.f32 s31, s31, s7
   vadd.f32 s31, s31, s8
/* channel */
/* results */
   movs    r9, #0
   vmov    s0, r9
   vadd.f32 s31, s31, s0
   vstmia  r12, {s31}
   subs.w  lr, lr, #1
   beq.n   3f
/* next strip */
   ldr     r1, [sp, #12]
   bic     r10, r10, #0x80000000
   ldr     r2, [r0, #36]
   ldr     r3, [r0, #40]
   add     r1, r1, r2
   add     r12, r12, r3
   b.w     6b
/* row end */
3:
   ldr     r1, [sp]
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* plane end */
   subs.w  r5, r5, #1
   it      eq
   ldreq.w pc, [sp, #16]
/* next plane */
   ldr     r2, [sp, #8]
   ldr     r3, [r0, #28]
   add     r1, r1, r7
   str     r1, [sp]
   add     r12, r12, r8
   add     r2, r2, r3
   str     r2, [sp, #8]
   ldr     r3, [r4, #12]
   str     r3, [sp, #4]
   b.w     4b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r3, #0
   vmov    s31, r3
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_1x1_f75b8a09

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  8 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 1; o++)
 *                           for (j = 0; j < 8; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  1:0,2:1  0:0,1:1,2:2  0:1,1:2,2:3  0:2,1:3,2:4  0:3,1:4,2:5  0:4,1:5,2:6  0:5,1:6,2:7  0:6,1:7
 *
 *   s0-s7     row of the source
 *   s8-s16    weights
 *   s17-s20   products
 *   s24-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights, planes to come in r5
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next plane
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_1x8_0c0b8530
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   ldr     r5, [r0, #24]
/* plane */
4:
   uxtb.w  r11, r10
   cmp.w   r11, #0
   it      le
   vldmiale r2!, {s8-s10}
   cmp.w   r11, #1
   it      le
   vldmiale r2!, {s11-s13}
   cmp.w   r11, #2
   it      le
   vldmiale r2!, {s14-s16}
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
/* row */
5:
   ldr     r1, [sp]
/* strip */
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s0-s7}
   add     r1, r1, r6
   vmul.f32 s25, s0, s8
   vmul.f32 s26, s1, s8
   vmul.f32 s27, s2, s8
   vmul.f32 s28, s3, s8
   vmul.f32 s29, s4, s8
   vmul.f32 s30, s5, s8
   vmul.f32 s31, s6, s8
   vmul.f32 s24, s0, s9
   vmul.f32 s17, s1, s9
   vmul.f32 s18, s2, s9
   vmul.f32 s19, s3, s9
   vmul.f32 s20, s4, s9
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s5, s9
   vmul.f32 s18, s6, s9
   vmul.f32 s19, s7, s9
   vmul.f32 s20, s1, s10
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
   vadd.f32 s31, s31, s19
   vadd.f32 s24, s24, s20
   vmul.f32 s17, s2, s10
   vmul.f32 s18, s3, s10
   vmul.f32 s19, s4, s10
   vmul.f32 s20, s5, s10
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s6, s10
   vmul.f32 s18, s7, s10
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
/* row 1 */
21:
   vldmia  r1, {s0-s7}
   add     r1, r1, r6
   vmul.f32 s17, s0, s11
   vmul.f32 s18, s1, s11
   vmul.f32 s19, s2, s11
   vmul.f32 s20, s3, s11
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s4, s11
   vmul.f32 s18, s5, s11
   vmul.f32 s19, s6, s11
   vmul.f32 s20, s0, s12
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
   vadd.f32 s31, s31, s19
   vadd.f32 s24, s24, s20
   vmul.f32 s17, s1, s12
   vmul.f32 s18, s2, s12
   vmul.f32 s19, s3, s12
   vmul.f32 s20, s4, s12
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s5, s12
   vmul.f32 s18, s6, s12
   vmul.f32 s19, s7, s12
   vmul.f32 s20, s1, s13
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
   vadd.f32 s31, s31, s19
   vadd.f32 s24, s24, s20
   vmul.f32 s17, s2, s13
   vmul.f32 s18, s3, s13
   vmul.f32 s19, s4, s13
   vmul.f32 s20, s5, s13
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s6, s13
   vmul.f32 s18, s7, s13
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
/* row 2 */
22:
   vldmia  r1, {s0-s7}
   vmul.f32 s17, s0, s14
   vmul.f32 s18, s1, s14
   vmul.f32 s19, s2, s14
   vmul.f32 s20, s3, s14
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s4, s14
   vmul.f32 s18, s5, s14
   vmul.f32 s19, s6, s14
   vmul.f32 s20, s0, s15
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
   vadd.f32 s31, s31, s19
   vadd.f32 s24, s24, s20
   vmul.f32 s17, s1, s15
   vmul.f32 s18, s2, s15
   vmul.f32 s19, s3, s15
   vmul.f32 s20, s4, s15
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s5, s15
   vmul.f32 s18, s6, s15
   vmul.f32 s19, s7, s15
   vmul.f32 s20, s1, s16
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
   vadd.f32 s31, s31, s19
   vadd.f32 s24, s24, s20
   vmul.f32 s17, s2, s16
   vmul.f32 s18, s3, s16
   vmul.f32 s19, s4, s16
   vmul.f32 s20, s5, s16
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vmul.f32 s17, s6, s16
   vmul.f32 s18, s7, s16
   vadd.f32 s29, s29, s17
   vadd.f32 s30, s30, s18
/* channel */
/* results */
   movs    r9, #0
   vmov    s0, r9
   vadd.f32 s24, s24, s0
   vadd.f32 s25, s25, s0
   vadd.f32 s26, s26, s0
   vadd.f32 s27, s27, s0
   vadd.f32 s28, s28, s0
   vadd.f32 s29, s29, s0
   vadd.f32 s30, s30, s0
   vadd.f32 s31, s31, s0
   vstmia  r12, {s24-s31}
/* row end */
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   ldr     r1, [sp]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* plane end */
   subs.w  r5, r5, #1
   it      eq
   ldreq.w pc, [sp, #16]
/* next plane */
   ldr     r2, [sp, #8]
   ldr     r3, [r0, #28]
   add     r1, r1, r7
   str     r1, [sp]
   add     r12, r12, r8
   add     r2, r2, r3
   str     r2, [sp, #8]
   ldr     r3, [r4, #12]
   str     r3, [sp, #4]
   b.w     4b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r3, #0
   vmov    s24, r3
   vmov.f32 s25, s24
   vmov.f32 s26, s24
   vmov.f32 s27, s24
   vmov.f32 s28, s24
   vmov.f32 s29, s24
   vmov.f32 s30, s24
   vmov.f32 s31, s24
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_1x8_0c0b8530

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  8 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 1; o++)
 *                           for (j = 0; j < 8; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  1:0,2:1  0:0,1:1,2:2  0:1,1:2,2:3  0:2,1:3,2:4  0:3,1:4,2:5  0:4,1:5,2:6  0:5,1:6,2:7  0:6,1:7
 *
 *   s0-s7     row of the source
 *   s8-s10    weights
 *   s11-s14   products
 *   s16-s23   a channel's sums
 *   s24-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights, planes to come in r5
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next channel
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_1x8_43689773
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   uxtb.w  r11, r10
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
/* row */
5:
   ldr     r1, [sp]
/* strip */
   movs    r9, #0
   vmov    s24, r9
   vmov.f32 s25, s24
   vmov.f32 s26, s24
   vmov.f32 s27, s24
   vmov.f32 s28, s24
   vmov.f32 s29, s24
   vmov.f32 s30, s24
   vmov.f32 s31, s24
   ldr     r2, [sp, #8]
   ldr     r9, [r0, #24]
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s0-s7}
   add     r1, r1, r6
   vldmia  r2!, {s8-s10}
   vmul.f32 s17, s0, s8
   vmul.f32 s18, s1, s8
   vmul.f32 s19, s2, s8
   vmul.f32 s20, s3, s8
   vmul.f32 s21, s4, s8
   vmul.f32 s22, s5, s8
   vmul.f32 s23, s6, s8
   vmul.f32 s16, s0, s9
   vmul.f32 s11, s1, s9
   vmul.f32 s12, s2, s9
   vmul.f32 s13, s3, s9
   vmul.f32 s14, s4, s9
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s5, s9
   vmul.f32 s12, s6, s9
   vmul.f32 s13, s7, s9
   vmul.f32 s14, s1, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s2, s10
   vmul.f32 s12, s3, s10
   vmul.f32 s13, s4, s10
   vmul.f32 s14, s5, s10
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s6, s10
   vmul.f32 s12, s7, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
/* row 1 */
21:
   vldmia  r1, {s0-s7}
   add     r1, r1, r6
   vldmia  r2!, {s8-s10}
   vmul.f32 s11, s0, s8
   vmul.f32 s12, s1, s8
   vmul.f32 s13, s2, s8
   vmul.f32 s14, s3, s8
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s4, s8
   vmul.f32 s12, s5, s8
   vmul.f32 s13, s6, s8
   vmul.f32 s14, s0, s9
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s1, s9
   vmul.f32 s12, s2, s9
   vmul.f32 s13, s3, s9
   vmul.f32 s14, s4, s9
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s5, s9
   vmul.f32 s12, s6, s9
   vmul.f32 s13, s7, s9
   vmul.f32 s14, s1, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s2, s10
   vmul.f32 s12, s3, s10
   vmul.f32 s13, s4, s10
   vmul.f32 s14, s5, s10
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s6, s10
   vmul.f32 s12, s7, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
/* row 2 */
22:
   vldmia  r1, {s0-s7}
   add     r1, r1, r7
   vldmia  r2!, {s8-s10}
   vmul.f32 s11, s0, s8
   vmul.f32 s12, s1, s8
   vmul.f32 s13, s2, s8
   vmul.f32 s14, s3, s8
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s4, s8
   vmul.f32 s12, s5, s8
   vmul.f32 s13, s6, s8
   vmul.f32 s14, s0, s9
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s1, s9
   vmul.f32 s12, s2, s9
   vmul.f32 s13, s3, s9
   vmul.f32 s14, s4, s9
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s5, s9
   vmul.f32 s12, s6, s9
   vmul.f32 s13, s7, s9
   vmul.f32 s14, s1, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s2, s10
   vmul.f32 s12, s3, s10
   vmul.f32 s13, s4, s10
   vmul.f32 s14, s5, s10
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s6, s10
   vmul.f32 s12, s7, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
/* channel */
   vadd.f32 s24, s24, s16
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vadd.f32 s29, s29, s21
   vadd.f32 s30, s30, s22
   vadd.f32 s31, s31, s23
   add     r2, r2, r8
   subs    r9, r9, #1
   bne.w   1b
/* results */
   vstmia  r12, {s24-s31}
/* row end */
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   ldr     r1, [sp]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r5, #0
   vmov    s16, r5
   vmov.f32 s17, s16
   vmov.f32 s18, s16
   vmov.f32 s19, s16
   vmov.f32 s20, s16
   vmov.f32 s21, s16
   vmov.f32 s22, s16
   vmov.f32 s23, s16
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_1x8_43689773

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  8 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 1; o++)
 *                           for (j = 0; j < 8; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  0:1,1:0  0:2,1:1,2:0  0:3,1:2,2:1  0:4,1:3,2:2  0:5,1:4,2:3  0:6,1:5,2:4  0:7,1:6,2:5  1:7,2:6
 *
 *   s0-s7     row of the source
 *   s8-s10    weights
 *   s11-s14   products
 *   s16-s23   a channel's sums
 *   s24-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights, planes to come in r5
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next channel
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_1x8_92e49f01
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   uxtb.w  r11, r10
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
/* row */
5:
   ldr     r1, [sp]
/* strip */
   movs    r9, #0
   vmov    s24, r9
   vmov.f32 s25, s24
   vmov.f32 s26, s24
   vmov.f32 s27, s24
   vmov.f32 s28, s24
   vmov.f32 s29, s24
   vmov.f32 s30, s24
   vmov.f32 s31, s24
   ldr     r2, [sp, #8]
   ldr     r9, [r0, #24]
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s0-s7}
   add     r1, r1, r6
   vldmia  r2!, {s8-s10}
   vmul.f32 s16, s1, s8
   vmul.f32 s17, s2, s8
   vmul.f32 s18, s3, s8
   vmul.f32 s19, s4, s8
   vmul.f32 s20, s5, s8
   vmul.f32 s21, s6, s8
   vmul.f32 s22, s7, s8
   vmul.f32 s14, s0, s9
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s1, s9
   vmul.f32 s12, s2, s9
   vmul.f32 s13, s3, s9
   vmul.f32 s14, s4, s9
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s5, s9
   vmul.f32 s12, s6, s9
   vmul.f32 s23, s7, s9
   vmul.f32 s14, s0, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s17, s17, s14
   vmul.f32 s11, s1, s10
   vmul.f32 s12, s2, s10
   vmul.f32 s13, s3, s10
   vmul.f32 s14, s4, s10
   vadd.f32 s18, s18, s11
   vadd.f32 s19, s19, s12
   vadd.f32 s20, s20, s13
   vadd.f32 s21, s21, s14
   vmul.f32 s11, s5, s10
   vmul.f32 s12, s6, s10
   vadd.f32 s22, s22, s11
   vadd.f32 s23, s23, s12
/* row 1 */
21:
   vldmia  r1, {s0-s7}
   add     r1, r1, r6
   vldmia  r2!, {s8-s10}
   vmul.f32 s11, s1, s8
   vmul.f32 s12, s2, s8
   vmul.f32 s13, s3, s8
   vmul.f32 s14, s4, s8
   vadd.f32 s16, s16, s11
   vadd.f32 s17, s17, s12
   vadd.f32 s18, s18, s13
   vadd.f32 s19, s19, s14
   vmul.f32 s11, s5, s8
   vmul.f32 s12, s6, s8
   vmul.f32 s13, s7, s8
   vmul.f32 s14, s0, s9
   vadd.f32 s20, s20, s11
   vadd.f32 s21, s21, s12
   vadd.f32 s22, s22, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s1, s9
   vmul.f32 s12, s2, s9
   vmul.f32 s13, s3, s9
   vmul.f32 s14, s4, s9
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s5, s9
   vmul.f32 s12, s6, s9
   vmul.f32 s13, s7, s9
   vmul.f32 s14, s0, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s17, s17, s14
   vmul.f32 s11, s1, s10
   vmul.f32 s12, s2, s10
   vmul.f32 s13, s3, s10
   vmul.f32 s14, s4, s10
   vadd.f32 s18, s18, s11
   vadd.f32 s19, s19, s12
   vadd.f32 s20, s20, s13
   vadd.f32 s21, s21, s14
   vmul.f32 s11, s5, s10
   vmul.f32 s12, s6, s10
   vadd.f32 s22, s22, s11
   vadd.f32 s23, s23, s12
/* row 2 */
22:
   vldmia  r1, {s0-s7}
   add     r1, r1, r7
   vldmia  r2!, {s8-s10}
   vmul.f32 s11, s1, s8
   vmul.f32 s12, s2, s8
   vmul.f32 s13, s3, s8
   vmul.f32 s14, s4, s8
   vadd.f32 s16, s16, s11
   vadd.f32 s17, s17, s12
   vadd.f32 s18, s18, s13
   vadd.f32 s19, s19, s14
   vmul.f32 s11, s5, s8
   vmul.f32 s12, s6, s8
   vmul.f32 s13, s7, s8
   vmul.f32 s14, s0, s9
   vadd.f32 s20, s20, s11
   vadd.f32 s21, s21, s12
   vadd.f32 s22, s22, s13
   vadd.f32 s16, s16, s14
   vmul.f32 s11, s1, s9
   vmul.f32 s12, s2, s9
   vmul.f32 s13, s3, s9
   vmul.f32 s14, s4, s9
   vadd.f32 s17, s17, s11
   vadd.f32 s18, s18, s12
   vadd.f32 s19, s19, s13
   vadd.f32 s20, s20, s14
   vmul.f32 s11, s5, s9
   vmul.f32 s12, s6, s9
   vmul.f32 s13, s7, s9
   vmul.f32 s14, s0, s10
   vadd.f32 s21, s21, s11
   vadd.f32 s22, s22, s12
   vadd.f32 s23, s23, s13
   vadd.f32 s17, s17, s14
   vmul.f32 s11, s1, s10
   vmul.f32 s12, s2, s10
   vmul.f32 s13, s3, s10
   vmul.f32 s14, s4, s10
   vadd.f32 s18, s18, s11
   vadd.f32 s19, s19, s12
   vadd.f32 s20, s20, s13
   vadd.f32 s21, s21, s14
   vmul.f32 s11, s5, s10
   vmul.f32 s12, s6, s10
   vadd.f32 s22, s22, s11
   vadd.f32 s23, s23, s12
/* channel */
   vadd.f32 s24, s24, s16
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vadd.f32 s29, s29, s21
   vadd.f32 s30, s30, s22
   vadd.f32 s31, s31, s23
   add     r2, r2, r8
   subs    r9, r9, #1
   bne.w   1b
/* results */
   vstmia  r12, {s24-s31}
/* row end */
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   ldr     r1, [sp]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r5, #0
   vmov    s16, r5
   vmov.f32 s17, s16
   vmov.f32 s18, s16
   vmov.f32 s19, s16
   vmov.f32 s20, s16
   vmov.f32 s21, s16
   vmov.f32 s22, s16
   vmov.f32 s23, s16
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_1x8_92e49f01

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  4 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 2; o++)
 *                           for (j = 0; j < 4; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  0:1,1:0  0:2,1:1,2:0  0:3,1:2,2:1  1:3,2:2
 *
 *   s0-s3     row of the source
 *   s4-s6     weights
 *   s7-s10    products
 *   s16-s23   a channel's sums
 *   s24-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights by output
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next channel
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_2x4_a0d51946
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   uxtb.w  r11, r10
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
/* row */
5:
   ldr     r1, [sp]
/* strip */
   movs    r9, #0
   vmov    s24, r9
   vmov.f32 s25, s24
   vmov.f32 s26, s24
   vmov.f32 s27, s24
   vmov.f32 s28, s24
   vmov.f32 s29, s24
   vmov.f32 s30, s24
   vmov.f32 s31, s24
   ldr     r2, [sp, #8]
   ldr     r9, [r0, #28]
   add     r3, r2, r9
   ldr     r9, [r0, #24]
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s0-s3}
   add     r1, r1, r6
   vldmia  r2!, {s4-s6}
   vmul.f32 s16, s1, s4
   vmul.f32 s17, s2, s4
   vmul.f32 s18, s3, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s19, s3, s5
   vmul.f32 s10, s0, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s17, s17, s10
   vmul.f32 s7, s1, s6
   vmul.f32 s8, s2, s6
   vadd.f32 s18, s18, s7
   vadd.f32 s19, s19, s8
   vldmia  r3!, {s4-s6}
   vmul.f32 s20, s1, s4
   vmul.f32 s21, s2, s4
   vmul.f32 s22, s3, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s23, s3, s5
   vmul.f32 s10, s0, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s21, s21, s10
   vmul.f32 s7, s1, s6
   vmul.f32 s8, s2, s6
   vadd.f32 s22, s22, s7
   vadd.f32 s23, s23, s8
/* row 1 */
21:
   vldmia  r1, {s0-s3}
   add     r1, r1, r6
   vldmia  r2!, {s4-s6}
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s4
   vmul.f32 s9, s3, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s16, s16, s7
   vadd.f32 s17, s17, s8
   vadd.f32 s18, s18, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s0, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s17, s17, s10
   vmul.f32 s7, s1, s6
   vmul.f32 s8, s2, s6
   vadd.f32 s18, s18, s7
   vadd.f32 s19, s19, s8
   vldmia  r3!, {s4-s6}
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s4
   vmul.f32 s9, s3, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s20, s20, s7
   vadd.f32 s21, s21, s8
   vadd.f32 s22, s22, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s0, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s21, s21, s10
   vmul.f32 s7, s1, s6
   vmul.f32 s8, s2, s6
   vadd.f32 s22, s22, s7
   vadd.f32 s23, s23, s8
/* row 2 */
22:
   vldmia  r1, {s0-s3}
   add     r1, r1, r7
   vldmia  r2!, {s4-s6}
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s4
   vmul.f32 s9, s3, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s16, s16, s7
   vadd.f32 s17, s17, s8
   vadd.f32 s18, s18, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s0, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s17, s17, s10
   vmul.f32 s7, s1, s6
   vmul.f32 s8, s2, s6
   vadd.f32 s18, s18, s7
   vadd.f32 s19, s19, s8
   vldmia  r3!, {s4-s6}
   vmul.f32 s7, s1, s4
   vmul.f32 s8, s2, s4
   vmul.f32 s9, s3, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s20, s20, s7
   vadd.f32 s21, s21, s8
   vadd.f32 s22, s22, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s0, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s21, s21, s10
   vmul.f32 s7, s1, s6
   vmul.f32 s8, s2, s6
   vadd.f32 s22, s22, s7
   vadd.f32 s23, s23, s8
/* channel */
   vadd.f32 s24, s24, s16
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vadd.f32 s29, s29, s21
   vadd.f32 s30, s30, s22
   vadd.f32 s31, s31, s23
   add     r2, r2, r8
   add     r3, r3, r8
   subs    r9, r9, #1
   bne.w   1b
/* results */
   vstmia  r12, {s24-s27}
   ldr     r9, [r0, #32]
   add     r2, r12, r9
   vstmia  r2, {s28-s31}
/* row end */
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   ldr     r1, [sp]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r5, #0
   vmov    s16, r5
   vmov.f32 s17, s16
   vmov.f32 s18, s16
   vmov.f32 s19, s16
   vmov.f32 s20, s16
   vmov.f32 s21, s16
   vmov.f32 s22, s16
   vmov.f32 s23, s16
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_2x4_a0d51946

/*
 *   for (i = 0; i < run->rows; i++)
 *       for (strip = 0; strip < strips; strip++)  4 columns
 *           for (c = 0; c < channels; c += 1)
 *               for (u = run->skipped; u < 3; u++)  rows of the source
 *                   for (v = 0; v < 3; v++)
 *                       for (o = 0; o < 2; o++)
 *                           for (j = 0; j < 4; j++)
 *                               total[o][j] += source[place[j][v]] * weight[o][u][v]
 *   place, v:place of each j:  1:0,2:1  0:0,1:1,2:2  0:1,1:2,2:3  0:2,1:3
 *
 *   s0-s3     row of the source
 *   s4-s6     weights
 *   s7-s10    products
 *   s16-s23   a channel's sums
 *   s24-s31   totals [row or output][column]
 *   r0        constants
 *   r1        source
 *   r2-r5     weights by output
 *   r6        bytes to the next row of the source
 *   r7, r8    bytes to the next channel
 *   r9        channels to come
 *   r10       flags: N padding on the left, C on the right, V and Z rows that are left out
 *   r11       address of the first row that is met
 *   r12       result
 *   lr        strips to come
 *   [sp]      row's source, and behind it rows to come, weights, strip's source
 */
   function poet_tile_3x3_2x4_a7d8c5ea
/* run */
   str     lr, [sp, #16]
   str     r1, [sp]
   str     r2, [sp, #8]
   mov     r12, r3
   ldr     r10, [r4, #24]
   uxtb.w  r11, r10
   add     r5, r4, #12
   ldm.w   r5, {r6, r7, r8}
   str     r6, [sp, #4]
   ldr     r6, [r0, #16]
   adr.w   r3, 9f
   ldr.w   r11, [r3, r11, lsl #2]
/* row */
5:
   ldr     r1, [sp]
/* strip */
   movs    r9, #0
   vmov    s24, r9
   vmov.f32 s25, s24
   vmov.f32 s26, s24
   vmov.f32 s27, s24
   vmov.f32 s28, s24
   vmov.f32 s29, s24
   vmov.f32 s30, s24
   vmov.f32 s31, s24
   ldr     r2, [sp, #8]
   ldr     r9, [r0, #28]
   add     r3, r2, r9
   ldr     r9, [r0, #24]
/* channel */
1:
   msr     APSR_nzcvq, r10
   bvs.w   8f
/* row 0 */
   vldmia  r1, {s0-s3}
   add     r1, r1, r6
   vldmia  r2!, {s4-s6}
   vmul.f32 s17, s0, s4
   vmul.f32 s18, s1, s4
   vmul.f32 s19, s2, s4
   vmul.f32 s16, s0, s5
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s1, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s2, s6
   vmul.f32 s8, s3, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vldmia  r3!, {s4-s6}
   vmul.f32 s21, s0, s4
   vmul.f32 s22, s1, s4
   vmul.f32 s23, s2, s4
   vmul.f32 s20, s0, s5
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s1, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s2, s6
   vmul.f32 s8, s3, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
/* row 1 */
21:
   vldmia  r1, {s0-s3}
   add     r1, r1, r6
   vldmia  r2!, {s4-s6}
   vmul.f32 s7, s0, s4
   vmul.f32 s8, s1, s4
   vmul.f32 s9, s2, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s1, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s2, s6
   vmul.f32 s8, s3, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vldmia  r3!, {s4-s6}
   vmul.f32 s7, s0, s4
   vmul.f32 s8, s1, s4
   vmul.f32 s9, s2, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s1, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s2, s6
   vmul.f32 s8, s3, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
/* row 2 */
22:
   vldmia  r1, {s0-s3}
   add     r1, r1, r7
   vldmia  r2!, {s4-s6}
   vmul.f32 s7, s0, s4
   vmul.f32 s8, s1, s4
   vmul.f32 s9, s2, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s1, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vadd.f32 s19, s19, s9
   vadd.f32 s16, s16, s10
   vmul.f32 s7, s2, s6
   vmul.f32 s8, s3, s6
   vadd.f32 s17, s17, s7
   vadd.f32 s18, s18, s8
   vldmia  r3!, {s4-s6}
   vmul.f32 s7, s0, s4
   vmul.f32 s8, s1, s4
   vmul.f32 s9, s2, s4
   vmul.f32 s10, s0, s5
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s1, s5
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s3, s5
   vmul.f32 s10, s1, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s20, s20, s10
   vmul.f32 s7, s2, s6
   vmul.f32 s8, s3, s6
   vadd.f32 s21, s21, s7
   vadd.f32 s22, s22, s8
/* channel */
   vadd.f32 s24, s24, s16
   vadd.f32 s25, s25, s17
   vadd.f32 s26, s26, s18
   vadd.f32 s27, s27, s19
   vadd.f32 s28, s28, s20
   vadd.f32 s29, s29, s21
   vadd.f32 s30, s30, s22
   vadd.f32 s31, s31, s23
   add     r2, r2, r8
   add     r3, r3, r8
   subs    r9, r9, #1
   bne.w   1b
/* results */
   vstmia  r12, {s24-s27}
   ldr     r9, [r0, #32]
   add     r2, r12, r9
   vstmia  r2, {s28-s31}
/* row end */
   ldr     r2, [r0, #52]
   ldr     r3, [r0, #56]
   ldr     r1, [sp]
   add     r1, r1, r2
   add     r12, r12, r3
   str     r1, [sp]
   ldr     r3, [sp, #4]
   subs    r3, r3, #1
   str     r3, [sp, #4]
   bne.w   5b
/* return */
   ldr.w   pc, [sp, #16]
/* cut */
8:
   mov.w   r5, #0
   vmov    s16, r5
   vmov.f32 s17, s16
   vmov.f32 s18, s16
   vmov.f32 s19, s16
   vmov.f32 s20, s16
   vmov.f32 s21, s16
   vmov.f32 s22, s16
   vmov.f32 s23, s16
   bx      r11
   .p2align 2
9:
   .word   0
   .word   21b + 1
   .word   22b + 1
   end_function poet_tile_3x3_2x4_a7d8c5ea

/*
 *   for (n = 0; n < samples; n++)
 *       for (row = 0; row < run->rows; row++, total += sum, sum = 0)
 *           for (j = 0; j < columns; j++)  0 + 8 at a time + 0
 *               for (a = 0; a < 1; a++)
 *                   for (b = 0; b < 2; b++)
 *                       for (v = 0; v < 3; v++)
 *                           sum[a][b][v] += source[a][1 * j + 1 * v - 1] * weight[b][j]
 *
 *   s0-s7     columns of the source; those first that are met again
 *   s8-s15    columns of weights
 *   s16-s19   products
 *   s20-s25   sums [a][b][v]
 *   s26-s31   totals
 *   r0        constants
 *   r1-r1     rows of the source
 *   r2-r3     rows of weights
 *   r9        groups to come, and scratch
 *   r10       rows to come
 *   r12       samples to come
 *   [sp, #0]  rows, and behind it bytes to the next sample, result
 */
   function poet_tile_sums_1x2x3_30edc2bf
/* run */
   str     lr, [sp, #16]
   str     r3, [sp, #12]
   add.w   r5, r4, #12
   ldm.w   r5, {r5, r6, r7}
   stm.w   sp, {r5, r6, r7}
   ldr     r9, [r0, #28]
   add     r3, r2, r9
   movs    r9, #0
   vmov    s26, r9
   vmov.f32 s27, s26
   vmov.f32 s28, s26
   vmov.f32 s29, s26
   vmov.f32 s30, s26
   vmov.f32 s31, s26
   ldr     r12, [r0, #16]
/* sample */
1:
   ldr     r10, [sp, #0]
/* row */
2:
/* group */
   vldmia  r1!, {s0-s7}
   vldmia  r2!, {s8-s15}
   vmul.f32 s21, s0, s8
   vmul.f32 s22, s1, s8
   vmul.f32 s20, s0, s9
   vmul.f32 s19, s1, s9
   vadd.f32 s21, s21, s19
   vmul.f32 s16, s2, s9
   vmul.f32 s17, s1, s10
   vmul.f32 s18, s2, s10
   vmul.f32 s19, s3, s10
   vadd.f32 s22, s22, s16
   vadd.f32 s20, s20, s17
   vadd.f32 s21, s21, s18
   vadd.f32 s22, s22, s19
   vmul.f32 s16, s2, s11
   vmul.f32 s17, s3, s11
   vmul.f32 s18, s4, s11
   vmul.f32 s19, s3, s12
   vadd.f32 s20, s20, s16
   vadd.f32 s21, s21, s17
   vadd.f32 s22, s22, s18
   vadd.f32 s20, s20, s19
   vmul.f32 s16, s4, s12
   vmul.f32 s17, s5, s12
   vmul.f32 s18, s4, s13
   vmul.f32 s19, s5, s13
   vadd.f32 s21, s21, s16
   vadd.f32 s22, s22, s17
   vadd.f32 s20, s20, s18
   vadd.f32 s21, s21, s19
   vmul.f32 s16, s6, s13
   vmul.f32 s17, s5, s14
   vmul.f32 s18, s6, s14
   vmul.f32 s19, s7, s14
   vadd.f32 s22, s22, s16
   vadd.f32 s20, s20, s17
   vadd.f32 s21, s21, s18
   vadd.f32 s22, s22, s19
   vmul.f32 s16, s6, s15
   vmul.f32 s17, s7, s15
   vadd.f32 s20, s20, s16
   vadd.f32 s21, s21, s17
   vldmia  r3!, {s8-s15}
   vmul.f32 s24, s0, s8
   vmul.f32 s25, s1, s8
   vmul.f32 s23, s0, s9
   vmul.f32 s19, s1, s9
   vadd.f32 s24, s24, s19
   vmul.f32 s16, s2, s9
   vmul.f32 s17, s1, s10
   vmul.f32 s18, s2, s10
   vmul.f32 s19, s3, s10
   vadd.f32 s25, s25, s16
   vadd.f32 s23, s23, s17
   vadd.f32 s24, s24, s18
   vadd.f32 s25, s25, s19
   vmul.f32 s16, s2, s11
   vmul.f32 s17, s3, s11
   vmul.f32 s18, s4, s11
   vmul.f32 s19, s3, s12
   vadd.f32 s23, s23, s16
   vadd.f32 s24, s24, s17
   vadd.f32 s25, s25, s18
   vadd.f32 s23, s23, s19
   vmul.f32 s16, s4, s12
   vmul.f32 s17, s5, s12
   vmul.f32 s18, s4, s13
   vmul.f32 s19, s5, s13
   vadd.f32 s24, s24, s16
   vadd.f32 s25, s25, s17
   vadd.f32 s23, s23, s18
   vadd.f32 s24, s24, s19
   vmul.f32 s16, s6, s13
   vmul.f32 s17, s5, s14
   vmul.f32 s18, s6, s14
   vmul.f32 s19, s7, s14
   vadd.f32 s25, s25, s16
   vadd.f32 s23, s23, s17
   vadd.f32 s24, s24, s18
   vadd.f32 s25, s25, s19
   vmul.f32 s16, s6, s15
   vmul.f32 s17, s7, s15
   vadd.f32 s23, s23, s16
   vadd.f32 s24, s24, s17
/* row end */
   vadd.f32 s26, s26, s20
   vadd.f32 s27, s27, s21
   vadd.f32 s28, s28, s22
   vadd.f32 s29, s29, s23
   vadd.f32 s30, s30, s24
   vadd.f32 s31, s31, s25
   subs.w  r10, r10, #1
   bne.w   2b
/* sample end */
   ldr     r9, [sp, #4]
   add     r1, r1, r9
   ldr     r9, [sp, #8]
   add     r2, r2, r9
   add     r3, r3, r9
   subs.w  r12, r12, #1
   bne.w   1b
/* return */
   ldr     r9, [sp, #12]
   ldr     r11, [r0, #40]
   vstmia  r9, {s26-s28}
   add     r9, r9, r11
   vstmia  r9, {s29-s31}
   ldr.w   pc, [sp, #16]
   end_function poet_tile_sums_1x2x3_30edc2bf

/*
 *   for (n = 0; n < samples; n++)
 *       for (row = 0; row < run->rows; row++, total += sum, sum = 0)
 *           for (j = 0; j < columns; j++)  0 + 4 at a time + 0
 *               for (a = 0; a < 1; a++)
 *                   for (b = 0; b < 2; b++)
 *                       for (v = 0; v < 3; v++)
 *                           sum[a][b][v] += source[a][1 * j + 1 * v - 1] * weight[b][j]
 *
 *   s0-s3     columns of the source; those first that are met again
 *   s4-s7     columns of weights
 *   s8-s19    products
 *   s20-s25   sums [a][b][v]
 *   s26-s31   totals
 *   r0        constants
 *   r1-r1     rows of the source
 *   r2-r3     rows of weights
 *   r9        groups to come, and scratch
 *   r10       rows to come
 *   r12       samples to come
 *   [sp, #0]  rows, and behind it bytes to the next sample, result
 */
   function poet_tile_sums_1x2x3_869650b6
/* run */
   str     lr, [sp, #16]
   str     r3, [sp, #12]
   add.w   r5, r4, #12
   ldm.w   r5, {r5, r6, r7}
   stm.w   sp, {r5, r6, r7}
   ldr     r9, [r0, #28]
   add     r3, r2, r9
   movs    r9, #0
   vmov    s26, r9
   vmov.f32 s27, s26
   vmov.f32 s28, s26
   vmov.f32 s29, s26
   vmov.f32 s30, s26
   vmov.f32 s31, s26
   ldr     r12, [r0, #16]
/* sample */
1:
   ldr     r10, [sp, #0]
/* row */
2:
/* group */
   vldmia  r1!, {s0-s3}
   vldmia  r2!, {s4-s7}
   vmul.f32 s21, s0, s4
   vmul.f32 s22, s1, s4
   vmul.f32 s20, s0, s5
   vmul.f32 s11, s1, s5
   vadd.f32 s21, s21, s11
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s1, s6
   vmul.f32 s10, s2, s6
   vmul.f32 s11, s3, s6
   vadd.f32 s22, s22, s8
   vadd.f32 s20, s20, s9
   vadd.f32 s21, s21, s10
   vadd.f32 s22, s22, s11
   vmul.f32 s8, s2, s7
   vmul.f32 s9, s3, s7
   vadd.f32 s20, s20, s8
   vadd.f32 s21, s21, s9
   vldmia  r3!, {s4-s7}
   vmul.f32 s24, s0, s4
   vmul.f32 s25, s1, s4
   vmul.f32 s23, s0, s5
   vmul.f32 s11, s1, s5
   vadd.f32 s24, s24, s11
   vmul.f32 s8, s2, s5
   vmul.f32 s9, s1, s6
   vmul.f32 s10, s2, s6
   vmul.f32 s11, s3, s6
   vadd.f32 s25, s25, s8
   vadd.f32 s23, s23, s9
   vadd.f32 s24, s24, s10
   vadd.f32 s25, s25, s11
   vmul.f32 s8, s2, s7
   vmul.f32 s9, s3, s7
   vadd.f32 s23, s23, s8
   vadd.f32 s24, s24, s9
/* row end */
   vadd.f32 s26, s26, s20
   vadd.f32 s27, s27, s21
   vadd.f32 s28, s28, s22
   vadd.f32 s29, s29, s23
   vadd.f32 s30, s30, s24
   vadd.f32 s31, s31, s25
   subs.w  r10, r10, #1
   bne.w   2b
/* sample end */
   ldr     r9, [sp, #4]
   add     r1, r1, r9
   ldr     r9, [sp, #8]
   add     r2, r2, r9
   add     r3, r3, r9
   subs.w  r12, r12, #1
   bne.w   1b
/* return */
   ldr     r9, [sp, #12]
   ldr     r11, [r0, #40]
   vstmia  r9, {s26-s28}
   add     r9, r9, r11
   vstmia  r9, {s29-s31}
   ldr.w   pc, [sp, #16]
   end_function poet_tile_sums_1x2x3_869650b6

#endif
