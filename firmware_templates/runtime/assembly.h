/* SPDX-License-Identifier: Apache-2.0 */
/* Every file of assembly begins with this one. Such files are for one core each, and empty for the others. A name that begins
 * with poet_ is one for the linker; macros begin otherwise. */
#include "vfp.h"

/* As compilers say it in every object of theirs: the stack need not be executable. */
#if defined(__ELF__) && (defined(__linux__) || defined(__clang__))
   .section .note.GNU-stack, "", %progbits
   .text
#endif

#ifdef __thumb__

   .syntax unified
   .thumb

/* A function has a section of its own, which a linker can leave out. */
   .macro function name
   .pushsection .text.\name, "ax", %progbits
   .p2align 2
   .global \name
   .type   \name, %function
   .thumb_func
\name:
   .endm
   .macro end_function name
   .size   \name, . - \name
   .popsection
   .endm

#endif

#if POET_HAS_VFP

/* Registers of floats go by their numbers, of which `%` makes expressions. */
   .altmacro
   .macro multiply_one to, source, weight
   vmul.f32 s\to, s\source, s\weight
   .endm
   .macro add_one to, what
   vadd.f32 s\to, s\to, s\what
   .endm

#endif
