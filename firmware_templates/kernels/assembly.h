/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_ASSEMBLY_H
#define POET_ASSEMBLY_H

/* What kernels in a Cortex-M4F's assembly begin with. Registers of floats go by their numbers, of which `%` makes
 * expressions. A function has a section of its own, which a linker can leave out. */
#define POET_ASSEMBLY                                                                          \
    "   .syntax unified\n"                                                                     \
    "   .thumb\n"                                                                              \
    "   .altmacro\n"                                                                           \
    "   .macro multiply_one to, source, weight\n"                                              \
    "   vmul.f32 s\\to, s\\source, s\\weight\n"                                                \
    "   .endm\n"                                                                               \
    "   .macro add_one to, what\n"                                                             \
    "   vadd.f32 s\\to, s\\to, s\\what\n"                                                      \
    "   .endm\n"                                                                               \
    "   .macro poet_function name\n"                                                           \
    "   .pushsection .text.\\name, \"ax\", %progbits\n"                                        \
    "   .p2align 2\n"                                                                          \
    "   .global \\name\n"                                                                      \
    "   .type   \\name, %function\n"                                                           \
    "   .thumb_func\n"                                                                         \
    "\\name:\n"                                                                                \
    "   .endm\n"                                                                               \
    "   .macro poet_function_end name\n"                                                       \
    "   .size   \\name, . - \\name\n"                                                          \
    "   .popsection\n"                                                                         \
    "   .endm\n"

#endif
