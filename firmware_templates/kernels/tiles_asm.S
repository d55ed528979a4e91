/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if POET_HAS_VFP

/* The loops around blocks of tiles.h. A block may use all registers but sp, and finds
 *   r0  its entry of the table   r1, r2, r3  source, weight and result of the run   r4  the run
 *   [sp]  16 bytes of its own    [sp, #16]  room for where it returns
 *   [sp, #24]  source, weight, result and bias of the call
 * and here
 *   [sp, #40]  run   [sp, #44]  runs to come   [sp, #48]  iterations to come of each loop   [sp, #64]  entry
 *   [sp, #68]  source, weight, result and bias of the table */
   function poet_tiles_sum_f32
   push    {r4-r11, lr}
   vpush   {s16-s31}
   mov     r4, r3
   ldr     r3, [sp, #100]
   sub     sp, sp, #84
   add     r12, sp, #68
   stm     r12, {r1-r4}
1: str     r0, [sp, #64]
   add     r12, sp, #68
   ldm     r12, {r1-r4}
   add     r12, sp, #24
   stm     r12, {r1-r4}
   ldrb    r5, [r0, #14]
   ands    r5, r5, #15
   beq.n   3f
   ldr     r6, [r0, #8]
   add     r7, sp, #48
2: ldr     r8, [r6], #28
   str     r8, [r7], #4
   subs    r5, r5, #1
   bne.n   2b
3: ldr     r4, [r0, #4]
   ldrh    r5, [r0, #12]
4: str     r4, [sp, #40]
   str     r5, [sp, #44]
   add     r12, sp, #24
   ldm     r12, {r1-r3}
   ldm     r4, {r6-r8}
   add     r1, r1, r6
   add     r2, r2, r7
   add     r3, r3, r8
   ldr     r12, [r0]
   blx     r12
   ldr     r4, [sp, #40]
   ldr     r5, [sp, #44]
   ldr     r0, [sp, #64]
   adds    r4, r4, #28
   subs    r5, r5, #1
   bne.n   4b
   ldrb    r5, [r0, #14]
   cbz     r5, 8f
   cmp     r5, #0x80
   bhs.n   9f
7: ldr     r6, [r0, #8]
   add     r7, sp, #48
   add     r12, sp, #24
   ldm     r12, {r1-r4}
5: ldr     r8, [r7]
   subs    r8, r8, #1
   beq.n   6f
   str     r8, [r7]
   ldr     r9, [r6, #4]
   cmp     r8, #1
   it      eq
   ldreq   r9, [r6, #8]
   adds    r6, r6, #12
   ldm     r6, {r6, r8, r10, r11}
   mla     r1, r9, r6, r1
   mla     r2, r9, r8, r2
   mla     r3, r9, r10, r3
   mla     r4, r9, r11, r4
   stm     r12, {r1-r4}
   b.n     3b
/* A loop has ended: back to its beginning, and on with the one around it. */
6: ldm     r6!, {r8-r10}
   str     r8, [r7], #4
   subs    r8, r8, #2
   mla     r9, r8, r9, r10
   ldm     r6!, {r8, r10, r11, lr}
   mls     r1, r9, r8, r1
   mls     r2, r9, r10, r2
   mls     r3, r9, r11, r3
   mls     r4, r9, lr, r4
   subs    r5, r5, #1
   bne.n   5b
8: ldrb    r1, [r0, #15]
   adds    r0, r0, #60
   cmp     r1, #0
   bne.n   1b
   add     sp, sp, #84
   vpop    {s16-s31}
   pop     {r4-r11, pc}
/* A sink takes the results: a function whose address is in the word before them. */
9: ldr     r0, [sp, #32]
   ldr     r1, [sp, #64]
   ldr     r2, [sp, #36]
   ldr     r12, [r0, #-4]
   blx     r12
   ldr     r0, [sp, #64]
   ldrb    r5, [r0, #14]
   ands    r5, r5, #15
   beq.n   8b
   b.n     7b
   end_function poet_tiles_sum_f32

/* Rows of results that nothing meets: r3 result, [r0, #20] how many in a row, [r0, #56] bytes from a row to the next. They
 * are the bias where [r0, #24] is not 0. */
   function poet_tile_empty
   ldr     r5, [r4, #12]
   ldr     r8, [r0, #56]
   ldr     r9, [r0, #20]
   ldr     r6, [r0, #24]
   movs    r7, #0
   vmov    s0, r7
   cbz     r6, 1f
   ldr     r6, [sp, #36]
   vldr    s1, [r6]
   vadd.f32 s0, s0, s1
1:
   .irp    to, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
   vmov.f32 s\to, s0
   .endr
2: mov     r7, r3
   lsrs    r1, r9, #4
   beq.n   4f
3: vstmia  r7!, {s0-s15}
   subs    r1, r1, #1
   bne.n   3b
4: ands    r1, r9, #15
   beq.n   6f
5: vstmia  r7!, {s0}
   subs    r1, r1, #1
   bne.n   5b
6: add     r3, r3, r8
   subs    r5, r5, #1
   bne.n   2b
   bx      lr
   end_function poet_tile_empty

#endif
