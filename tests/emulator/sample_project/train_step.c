/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses and defects that tests build in on purpose:
 *   SAMPLE_LAST_BYTES      writes the last byte of the board's RAM, and reads that of its flash
 *   SAMPLE_OVERRUN         writes one byte past the end of the board's RAM
 *   SAMPLE_OVERFLOW        uses more stack than there is
 *   SAMPLE_STACK_FULL      uses the last byte of the stack
 *   SAMPLE_WRITE_TO_FLASH  writes to a constant
 *   SAMPLE_BEYOND_FLASH    reads the first byte past the end of the board's flash
 *   SAMPLE_HANG            never ends
 */
#include "poet.h"

#include "poet_memory.h"

#define FEATURES 150u

#ifdef SAMPLE_OVERFLOW
static int descend(volatile uint32_t *above)
{
    volatile uint32_t frame[64];
    frame[0] = *above + 1u;
    return frame[0] > 1000u ? 0 : descend(frame) + (int)frame[0];
}
#endif

int poet_train_step(void)
{
#ifdef SAMPLE_LAST_BYTES
    *(volatile uint8_t *)(0x20000000u + POET_RAM_BYTES - 1u) = 1u;
    (void)*(volatile uint8_t *)(POET_FLASH_BYTES - 1u);
#endif
#ifdef SAMPLE_OVERRUN
    *(volatile uint8_t *)(0x20000000u + POET_RAM_BYTES) = 1u;
#endif
#ifdef SAMPLE_STACK_FULL
    *(volatile uint8_t *)0x20000000u = 1u;
#endif
#ifdef SAMPLE_OVERFLOW
    volatile uint32_t zero = 0u;
    if (descend(&zero) == 42) {
        return POET_ERROR_ARGUMENT;
    }
#endif
#ifdef SAMPLE_WRITE_TO_FLASH
    *(volatile uint32_t *)(uintptr_t)poet_slots = 1u;
#endif
#ifdef SAMPLE_BEYOND_FLASH
    (void)*(volatile uint8_t *)POET_FLASH_BYTES;
#endif
#ifdef SAMPLE_HANG
    for (volatile int hang = 1; hang;) {
    }
#endif
    POET_TRY(poet_data_load_x(T0001));
    POET_TRY(poet_data_load_y(T0002));
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        float sum = 0.0f;
        for (uint32_t j = 0u; j < FEATURES; j++) {
            sum += T0001[i * FEATURES + j];
        }
        T0003[i] = sum / (float)FEATURES;
    }
    poet_between_ops();
    POET_TRY(poet_page_out(SLOT_T0001, T0001, T0001_BYTES));
    memset(T0001, 0, T0001_BYTES);
    POET_TRY(poet_page_out(SLOT_T0003, T0003, T0003_BYTES));
    memset(T0003, 0, T0003_BYTES);
    POET_TRY(poet_page_in(SLOT_T0001, T0001, T0001_BYTES));
    POET_TRY(poet_page_in(SLOT_T0003, T0003, T0003_BYTES));
    float loss = 0.0f;
    float gradient = 0.0f;
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        const float error = T0000[0] * T0003[i] - T0002[i];
        loss += error * error;
        gradient += 2.0f * error * T0003[i];
    }
    T0004[0] = loss / (float)POET_BATCH;
    T0005[0] = gradient / (float)POET_BATCH;
    POET_TRY(poet_capture(SLOT_T0005, T0005, T0005_BYTES));
    T0000[0] -= 0.125f * T0005[0];
    return POET_OK;
}
