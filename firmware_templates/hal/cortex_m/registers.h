/* SPDX-License-Identifier: Apache-2.0 */
/* Memory-mapped registers. */
#ifndef POET_REGISTERS_H
#define POET_REGISTERS_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

#endif
