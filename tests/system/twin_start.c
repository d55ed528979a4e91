/* SPDX-License-Identifier: Apache-2.0 */
/* What an application of one's own has on a Cortex-M4F: vectors, and newlib's start behind them. */
#include <stdint.h>

#define CPACR (*(volatile uint32_t *)0xe000ed88u)

extern char stack_upper[];
void _start(void);
void reset(void);

__attribute__((section(".vectors"), used)) static void *const VECTORS[] = {
    stack_upper, (void *)reset, (void *)reset, (void *)reset};

void reset(void)
{
    CPACR |= 0xfu << 20;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    _start();
}
