/* SPDX-License-Identifier: Apache-2.0 */
/* Reset, vectors and faults: the same on every Cortex-M. */
#include "for_size.h"

#include "console.h"
#include "hal.h"
#include "registers.h"
#include "stack.h"

#define VTOR REGISTER(0xe000ed08u)
#define CPACR REGISTER(0xe000ed88u)
#define CPACR_FPU (0xfu << 20)
#define CFSR REGISTER(0xe000ed28u)
#define CFSR_MMARVALID (1u << 7)
#define CFSR_BFARVALID (1u << 15)
#define MMFAR REGISTER(0xe000ed34u)
#define BFAR REGISTER(0xe000ed38u)

/* Addresses defined by the linker script. */
extern const uint32_t poet_data_source[];
extern uint32_t poet_data_lower[];
extern uint32_t poet_data_upper[];
extern uint32_t poet_bss_lower[];
extern uint32_t poet_bss_upper[];

extern void (*const poet_constructors_lower[])(void);
extern void (*const poet_constructors_upper[])(void);

void poet_reset(void);
void poet_fault_entry(void);
void poet_fault(const uint32_t *frame);

/* Default handlers: an exception or interrupt without a handler of its own is a fault. Names are those of CMSIS. */
#define POET_INTERRUPT(name) __attribute__((weak, alias("poet_fault_entry"))) void name(void);
#define POET_NO_INTERRUPT
#include "exceptions.h"
#include "interrupts.h"
#undef POET_INTERRUPT
#undef POET_NO_INTERRUPT

/* The first entry is the initial stack pointer. */
#define POET_INTERRUPT(name) name,
#define POET_NO_INTERRUPT 0,
__attribute__((section(".vectors"), used)) static void (*const VECTORS[])(void) = {
    (void (*)(void))poet_stack_upper,
    poet_reset,
#include "exceptions.h"
#include "interrupts.h"
};

void poet_reset(void)
{
    /* A bootloader may have set its own table, or an alias at address 0. Cores without VTOR ignore the write. */
    VTOR = (uint32_t)VECTORS;
#ifdef __ARM_FP
    CPACR |= CPACR_FPU;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    const uint32_t *source = poet_data_source;
    for (uint32_t *word = poet_data_lower; word < poet_data_upper; word++) {
        *word = *source++;
    }
    for (uint32_t *word = poet_bss_lower; word < poet_bss_upper; word++) {
        *word = 0u;
    }
    for (void (*const *construct)(void) = poet_constructors_lower; construct < poet_constructors_upper; construct++) {
        (*construct)();
    }
    poet_run();
}

/* The fault may be a stack overflow, so the handler resets the stack pointer to its top. */
__attribute__((naked)) void poet_fault_entry(void)
{
    __asm__ volatile("mov r0, sp\n\t"
                     "ldr r1, =poet_stack_upper\n\t"
                     "mov sp, r1\n\t"
                     "ldr r1, =poet_fault\n\t"
                     "bx r1\n\t"
                     ".ltorg");
}

/* Registers that the processor stacks: r0-r3, r12, lr, pc, xpsr. */
#define FRAME_WORDS 8
#define FRAME_PC 6

__attribute__((used)) void poet_fault(const uint32_t *frame)
{
    uint32_t cfsr = 0u;
    uint32_t address = 0u;
    uint32_t pc = 0u;
#if __ARM_ARCH_ISA_THUMB >= 2 /* smaller cores have no fault status registers */
    cfsr = CFSR;
    if ((cfsr & CFSR_MMARVALID) != 0u) {
        address = MMFAR;
    } else if ((cfsr & CFSR_BFARVALID) != 0u) {
        address = BFAR;
    }
#endif
    /* After a stack overflow the frame may be missing too; reading it could fault again. */
    const uint32_t *stack_lower = (const uint32_t *)(const void *)poet_stack_lower;
    const uint32_t *stack_upper = (const uint32_t *)(const void *)poet_stack_upper;
    if (frame >= stack_lower && frame + FRAME_WORDS <= stack_upper) {
        pc = frame[FRAME_PC];
    }
    poet_print("@fault cfsr=");
    poet_print_hex(cfsr);
    poet_print(" address=");
    poet_print_hex(address);
    poet_print(" pc=");
    poet_print_hex(pc);
    poet_print("\n");
    poet_hal_exit(99);
}
