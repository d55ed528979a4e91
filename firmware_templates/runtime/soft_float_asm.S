/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined __thumb__ && !defined __thumb2__

/* A result's mantissa has 31 or 32 bits before it is rounded to 24: what is shifted out last is the carry, which is
 * added. Only where all bits below that one are 0 do those matter that were lost before, and which of two is even.
 *
 *            sum                                     product
 * r0, r1     the larger, the smaller number          a mantissa, the other's highest bits
 * r2         the result's sign and exponent          the same, less one
 * r3         places between the mantissas            a mantissa's hidden bit
 * r4         the smaller one's mantissa, shifted     the product
 * r5         a mantissa's hidden bit                 the other mantissa's middle bits */
   .pushsection .text.poet_soft_float, "ax", %progbits
   .p2align 2
   .weak __aeabi_fsub
   .type __aeabi_fsub, %function
   .thumb_func
__aeabi_fsub:
   movs    r2, #1
   lsls    r2, r2, #31
   eors    r1, r2
   .weak __aeabi_fadd
   .type __aeabi_fadd, %function
   .thumb_func
__aeabi_fadd:
   push    {r4, r5, lr}
   movs    r4, r0
   eors    r4, r1
   lsls    r2, r0, #1
   lsls    r3, r1, #1
   cmp     r2, r3
   bhs     .Lordered
   eors    r0, r4                   /* exchanged: the larger one is r0 */
   eors    r1, r4
   lsls    r2, r0, #1
   lsls    r3, r1, #1
.Lordered:
   lsrs    r3, r3, #24              /* exponents */
   beq     .Lsum_with_zero
   lsrs    r2, r2, #24
   cmp     r2, #254
   bhs     .Lsum_in_c
   subs    r3, r2, r3
   asrs    r4, r4, #31              /* whether signs differ, in all bits */
   lsrs    r2, r0, #23
   lsls    r2, r2, #23
   movs    r5, #128
   lsls    r5, r5, #16
   orrs    r0, r5                   /* mantissas of 31 bits */
   lsls    r0, r0, #8
   lsrs    r0, r0, #1
   orrs    r1, r5
   lsls    r1, r1, #8
   lsrs    r1, r1, #1
   eors    r1, r4
   subs    r1, r1, r4
   movs    r4, r1
   asrs    r4, r3
   adds    r0, r0, r4
   bmi     .Lsum_of_32
   lsls    r4, r0, #1
   bpl     .Lcancelled
.Lsum_of_31:
   lsls    r4, r0, #26
   beq     .Lsum_of_even
   lsrs    r0, r0, #7
   adcs    r0, r2
   subs    r0, r0, r5
   pop     {r4, r5, pc}
.Lsum_of_32:
   lsls    r4, r0, #25
   beq     .Lsum_of_even_32
   lsrs    r0, r0, #8
   adcs    r0, r2
   pop     {r4, r5, pc}
.Lcancelled:
   cmp     r0, #0
   beq     .Lsum_done
   lsls    r4, r2, #1               /* not below an exponent of 1 */
   lsrs    r4, r4, #24
   lsls    r0, r0, #1
.Lshift:
   subs    r4, r4, #1
   beq     .Lshifted
   subs    r2, r2, r5
   adds    r0, r0, r0
   bpl     .Lshift
.Lshifted:
   lsrs    r0, r0, #1
   b       .Lsum_of_31
.Lsum_of_even_32:
   adds    r2, r2, r5
   lsrs    r0, r0, #1
.Lsum_of_even:
   lsrs    r0, r0, #7
   bcc     .Lsum_packed
   movs    r4, #32                  /* what was lost of r1 */
   subs    r4, r4, r3
   lsls    r1, r4
   bne     .Lsum_up
   lsrs    r4, r0, #1
   bcc     .Lsum_packed
.Lsum_up:
   adds    r0, r0, #1
.Lsum_packed:
   adds    r0, r0, r2
   subs    r0, r0, r5
.Lsum_done:
   pop     {r4, r5, pc}
.Lsum_with_zero:
   lsls    r3, r1, #1
   bne     .Lsum_in_c
   cmp     r2, #0
   bne     .Lsum_done
   ands    r0, r1                   /* -0 of two only */
   pop     {r4, r5, pc}
.Lsum_in_c:
   sub     sp, #4
   bl      poet_sum_bits
   add     sp, #4
   pop     {r4, r5, pc}
   .weak __aeabi_fmul
   .type __aeabi_fmul, %function
   .thumb_func
__aeabi_fmul:
   push    {r4, r5, lr}
   lsrs    r2, r0, #23              /* signs and exponents; exponents less 1 */
   uxtb    r4, r2
   subs    r4, r4, #1
   cmp     r4, #254
   bhs     .Lproduct_in_c
   lsrs    r3, r1, #23
   uxtb    r5, r3
   subs    r5, r5, #1
   cmp     r5, #254
   bhs     .Lproduct_in_c
   adds    r4, r4, r5
   subs    r4, r4, #126
   cmp     r4, #253
   bhs     .Lproduct_in_c
   adds    r2, r2, r3
   subs    r2, r2, #128
   lsls    r2, r2, #23
   mov     r12, r1
   movs    r3, #128
   lsls    r3, r3, #16
   orrs    r0, r3                   /* a mantissa of 24 bits; of the other 8, 8 and 8 */
   lsls    r0, r0, #8
   lsrs    r0, r0, #8
   uxtb    r4, r1
   lsrs    r5, r1, #8
   uxtb    r5, r5
   orrs    r1, r3
   lsls    r1, r1, #8
   lsrs    r1, r1, #24
   muls    r4, r0
   lsrs    r4, r4, #8
   muls    r5, r0
   adds    r4, r4, r5
   lsrs    r4, r4, #8
   muls    r1, r0
   adds    r4, r4, r1
   bmi     .Lproduct_of_32
   lsls    r1, r4, #26
   beq     .Lproduct_of_even
   lsrs    r0, r4, #7
   adcs    r0, r2
   pop     {r4, r5, pc}
.Lproduct_of_32:
   lsls    r1, r4, #25
   beq     .Lproduct_of_even_32
   lsrs    r0, r4, #8
   adcs    r0, r2
   adds    r0, r0, r3
   pop     {r4, r5, pc}
.Lproduct_of_even_32:
   adds    r2, r2, r3
   lsrs    r4, r4, #1
.Lproduct_of_even:
   lsrs    r4, r4, #7
   bcc     .Lproduct_packed
   mov     r1, r12                  /* what was lost of 48 bits */
   muls    r1, r0
   lsls    r1, r1, #16
   bne     .Lproduct_up
   lsrs    r1, r4, #1
   bcc     .Lproduct_packed
.Lproduct_up:
   adds    r4, r4, #1
.Lproduct_packed:
   adds    r0, r4, r2
   pop     {r4, r5, pc}
.Lproduct_in_c:
   sub     sp, #4
   bl      poet_product_bits
   add     sp, #4
   pop     {r4, r5, pc}
   .popsection

#endif
