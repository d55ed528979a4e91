/* SPDX-License-Identifier: Apache-2.0 */
/* The stack's ends, as the linker script has them. */
#ifndef POET_STACK_H
#define POET_STACK_H

#include <stdint.h>

extern uint8_t poet_stack_lower[];
extern uint8_t poet_stack_upper[];

#endif
