/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the core's exceptions after reset, in order of number, with CMSIS names. Cores that lack an exception
 * never take it. */
POET_INTERRUPT(NMI_Handler)
POET_INTERRUPT(HardFault_Handler) /* the next three escalate to this one unless enabled */
POET_INTERRUPT(MemManage_Handler)
POET_INTERRUPT(BusFault_Handler)
POET_INTERRUPT(UsageFault_Handler)
POET_NO_INTERRUPT
POET_NO_INTERRUPT
POET_NO_INTERRUPT
POET_NO_INTERRUPT
POET_INTERRUPT(SVC_Handler)
POET_INTERRUPT(DebugMon_Handler)
POET_NO_INTERRUPT
POET_INTERRUPT(PendSV_Handler)
POET_INTERRUPT(SysTick_Handler)
