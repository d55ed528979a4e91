/* SPDX-License-Identifier: Apache-2.0 */
/* Reset, vectors and faults: the same on every Cortex-M. */
#include "for_size.h"

#include "console.h"
#include "hal.h"
#include "poet.h"
#include "registers.h"

#define CPACR REGISTER(0xe000ed88u)
#define CPACR_FPU (0xfu << 20)
#define CFSR REGISTER(0xe000ed28u)
#define CFSR_MMARVALID (1u << 7)
#define CFSR_BFARVALID (1u << 15)
#define MMFAR REGISTER(0xe000ed34u)
#define BFAR REGISTER(0xe000ed38u)

/* The linker script's addresses. */
extern uint8_t poet_stack_lower[];
extern uint8_t poet_stack_upper[];
extern const uint32_t poet_data_source[];
extern uint32_t poet_data_lower[];
extern uint32_t poet_data_upper[];
extern uint32_t poet_bss_lower[];
extern uint32_t poet_bss_upper[];

void poet_reset(void);
void poet_fault_entry(void);
void poet_fault(const uint32_t *frame);

/* A family that uses the SysTick timer defines this. */
void poet_systick(void);
__attribute__((weak, alias("poet_fault_entry"))) void poet_systick(void);

struct vectors {
    uint8_t *initial_stack;
    void (*handlers[15])(void);
};

/* The processor's own exceptions. The linker script puts behind them what a family has in .vectors.interrupts,
 * the vectors of its peripherals' interrupts. */
__attribute__((section(".vectors"), used)) static const struct vectors VECTORS = {
    .initial_stack = poet_stack_upper,
    .handlers =
        {
            poet_reset,
            poet_fault_entry, /* NMI */
            poet_fault_entry, /* HardFault; the next three escalate to it while not enabled */
            poet_fault_entry, /* MemManage */
            poet_fault_entry, /* BusFault */
            poet_fault_entry, /* UsageFault */
            0,
            0,
            0,
            0,
            poet_fault_entry, /* SVCall */
            poet_fault_entry, /* DebugMonitor */
            0,
            poet_fault_entry, /* PendSV */
            poet_systick,
        },
};

void poet_reset(void)
{
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
    poet_run();
}

struct poet_stack poet_hal_stack(void)
{
    const struct poet_stack stack = {poet_stack_lower, poet_stack_upper};
    return stack;
}

/* The fault may be that the stack is used up, so the handler starts it anew from its top. */
__attribute__((naked)) void poet_fault_entry(void)
{
    __asm__ volatile("mov r0, sp\n\t"
                     "ldr r1, =poet_stack_upper\n\t"
                     "mov sp, r1\n\t"
                     "ldr r1, =poet_fault\n\t"
                     "bx r1\n\t"
                     ".ltorg");
}

/* What the processor saves: r0-r3, r12, lr, pc, xpsr. */
#define FRAME_WORDS 8
#define FRAME_PC 6

__attribute__((used)) void poet_fault(const uint32_t *frame)
{
    uint32_t cfsr = 0u;
    uint32_t address = 0u;
    uint32_t pc = 0u;
#if __ARM_ARCH_ISA_THUMB >= 2 /* the smaller cores do not say what happened */
    cfsr = CFSR;
    if ((cfsr & CFSR_MMARVALID) != 0u) {
        address = MMFAR;
    } else if ((cfsr & CFSR_BFARVALID) != 0u) {
        address = BFAR;
    }
#endif
    /* A stack that is used up has no room for the frame either, and a fault in here would be the end. */
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
