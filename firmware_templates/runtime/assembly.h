/* SPDX-License-Identifier: Apache-2.0 */
/* Every file of assembly begins with this one. Such files are for one core each, and empty for the others. */

/* Without the section, a Linux gives a program a stack that is executable. */
#if defined(__linux__) && defined(__ELF__)
   .section .note.GNU-stack, "", %progbits
   .text
#endif

#ifdef __thumb__

   .syntax unified
   .thumb

/* A function has a section of its own, which a linker can leave out. */
   .macro poet_function name
   .pushsection .text.\name, "ax", %progbits
   .p2align 2
   .global \name
   .type   \name, %function
   .thumb_func
\name:
   .endm
   .macro poet_function_end name
   .size   \name, . - \name
   .popsection
   .endm

#endif

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Registers of floats go by their numbers, of which `%` makes expressions. */
   .altmacro
   .macro multiply_one to, source, weight
   vmul.f32 s\to, s\source, s\weight
   .endm
   .macro add_one to, what
   vadd.f32 s\to, s\to, s\what
   .endm

#endif
