/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the core's exceptions behind reset, in the order of their numbers, under the names of CMSIS. Cores without
 * one of them never take it. */
POET_INTERRUPT(NMI_Handler)
POET_INTERRUPT(HardFault_Handler) /* what the next three escalate to while they are not enabled */
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
