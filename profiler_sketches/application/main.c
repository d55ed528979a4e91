/* SPDX-License-Identifier: Apache-2.0 */
#include "console.h"
#include "crc32.h"
#include "hal.h"
#include "link.h"
#include "mark.h"
#include "poet.h"
#include "poet_memory.h"
#include "profile.h"
#include "scratch.h"

#define PROTOCOL 2u
#define PASSES 16u
#define CRC_BYTES 4u
#define IN_A_ROW 8u
#define RECORD_BYTES (POET_X_BYTES + POET_Y_BYTES + 2u * CRC_BYTES)
#define RECORD_BLOCKS ((RECORD_BYTES + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES)

/* How often a place in the shuffled order is drawn again depends on how many samples there are. */
#define SAMPLES (1437u > POET_BATCH ? 1437u : POET_BATCH)

/* The last run, which is not run again for who asks for its answer again. */
struct run {
    uint32_t sequence;
    const struct poet_case *one; /* NULL before the first */
    uint32_t times;
    int status;
    uint64_t ticks;
    uint64_t marked; /* ticks from the mark's begin to its end */
};

/* What every sample of a batch is: a record of no blocks, so that all begin where the first does. */
static struct poet_samples samples = {0u, SAMPLES, 0u};
static uint32_t batch; /* the next */
static int scratch_is_open;
static uint32_t state;
static uint32_t passes; /* of the kernel beside a transfer, in half the time of the transfer */

__attribute__((weak)) void poet_mark(int begins)
{
    (void)begins;
}

/* Numerical Recipes' generator: the upper bits are good enough. */
static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static float value(uint32_t kind)
{
    return kind == POET_FILL_SIGNED ? (float)((int32_t)draw() - 0x800000) * 0x1p-23f : 0.5f + (float)draw() * 0x1p-24f;
}

/* Of fewer values than the operand has, so many in a row stand for all around them, again and again. */
static void fill_like(float *x, const struct poet_fill *operand, uint32_t set)
{
    const float *const values = &poet_values[operand->first_value + set * operand->values];
    uint32_t near = 0u;
    uint32_t rest = 0u;
    if (operand->values == operand->words) {
        memcpy(x, values, operand->words * sizeof *x);
        return;
    }
    for (uint32_t i = 0u; i < operand->words; i++) { /* near is i * values / words */
        x[i] = values[near / IN_A_ROW * IN_A_ROW + i % IN_A_ROW];
        rest += operand->values;
        while (rest >= operand->words) {
            rest -= operand->words;
            near++;
        }
    }
}

static void fill(const struct poet_fill *operand)
{
    float *const x = (float *)(void *)(poet_arena + operand->offset);
    if (operand->kind == POET_FILL_ZERO) {
        memset(x, 0, operand->words * sizeof *x);
    } else if (operand->kind == POET_FILL_LIKE) {
        fill_like(x, operand, 0u);
    } else {
        for (uint32_t i = 0u; i < operand->words; i++) {
            x[i] = value(operand->kind);
        }
    }
}

/* Gives the operands that are like a network's a set of their values. */
static void feed(const struct poet_case *one, uint32_t set)
{
    for (uint32_t i = 0u; i < one->fills; i++) {
        const struct poet_fill *const operand = &poet_fills[one->first_fill + i];
        if (operand->kind == POET_FILL_LIKE) {
            fill_like((float *)(void *)(poet_arena + operand->offset), operand, set);
        }
    }
}

static int open_scratch(void)
{
    uint32_t first;
    if (!scratch_is_open) {
        POET_TRY(poet_scratch_open(&first));
        samples.first_block = first;
        poet_slots_open(first + POET_SCRATCH_SLOTS);
        scratch_is_open = 1;
    }
    return POET_OK;
}

/* The CRC-32 of so many zeros, of which the page buffer is full. */
static uint32_t crc_of_zeros(uint32_t bytes)
{
    uint32_t crc = 0u;
    while (bytes > 0u) {
        const uint32_t part = bytes < POET_BLOCK_BYTES ? bytes : POET_BLOCK_BYTES;
        crc = poet_crc32(crc, poet_arena + POET_PAGE_BUFFER, part);
        bytes -= part;
    }
    return crc;
}

/* Writes a byte of the record if it is in this block, which the page buffer holds. */
static void put(uint32_t block, uint32_t at, uint32_t value)
{
    if (at / POET_BLOCK_BYTES == block) {
        poet_arena[POET_PAGE_BUFFER + at % POET_BLOCK_BYTES] = (uint8_t)value;
    }
}

int poet_prepare_sample(void)
{
    uint8_t *const page = poet_arena + POET_PAGE_BUFFER;
    memset(page, 0, POET_BLOCK_BYTES);
    const uint32_t identity = poet_storage_identity(); /* which all of a record is combined with: data.h */
    const uint32_t crcs[2] = {crc_of_zeros(POET_X_BYTES) ^ identity, crc_of_zeros(POET_Y_BYTES) ^ ~identity};
    for (uint32_t block = 0u; block < RECORD_BLOCKS; block++) {
        memset(page, 0, POET_BLOCK_BYTES);
        for (uint32_t i = 0u; i < 2u * CRC_BYTES; i++) {
            put(block, POET_X_BYTES + POET_Y_BYTES + i, crcs[i / CRC_BYTES] >> 8u * (i % CRC_BYTES));
        }
        POET_TRY(poet_storage_write_blocks(samples.first_block + block, page, 1u));
    }
    batch = 0u;
    return POET_OK;
}

void poet_select_next(void)
{
    poet_data_select_training(&samples, 0u, batch++);
}

/* A sum of products over the page buffer, which no transfer of a slot goes through. */
static void compute(uint32_t times)
{
    const volatile float *const x = (const volatile float *)(void *)(poet_arena + POET_PAGE_BUFFER);
    volatile float sum = 0.0f;
    for (; times > 0u; times--) {
        float products = 0.0f;
        for (uint32_t i = 0u; i < POET_BLOCK_BYTES / sizeof *x; i++) {
            products += x[i] * x[i];
        }
        sum = products;
    }
    (void)sum;
}

static int time_runs(int (*run)(void), uint32_t times, uint64_t *ticks)
{
    int status = POET_OK;
    poet_mark(1);
    const uint64_t start = poet_hal_ticks();
    for (uint32_t i = 0u; i < times && status == POET_OK; i++) {
        status = run();
    }
    *ticks = poet_hal_ticks() - start;
    poet_mark(0);
    return status;
}

static int compute_passes(void)
{
    compute(PASSES);
    return POET_OK;
}

int poet_prepare_kernel(int (*transfer)(void))
{
    uint64_t moving = 0u;
    uint64_t computing = 0u;
    memset(poet_arena + POET_PAGE_BUFFER, 0, POET_BLOCK_BYTES);
    POET_TRY(transfer());
    POET_TRY(time_runs(transfer, 1u, &moving));
    POET_TRY(time_runs(compute_passes, 1u, &computing));
    passes = (uint32_t)(PASSES * moving / (2u * (computing > 0u ? computing : 1u))) + 1u;
    return POET_OK;
}

void poet_kernel(uint32_t halves)
{
    compute(halves * passes);
}

void poet_change(uint8_t *tensor, uint32_t bytes)
{
    static uint8_t other = 0x55u;
    other = (uint8_t)~other;
    for (uint32_t i = 0u; i < bytes; i += POET_BLOCK_BYTES) {
        tensor[i] = other;
    }
}

static int prepare(const struct poet_case *one)
{
    state = 1u;
    for (uint32_t i = 0u; i < one->fills; i++) {
        fill(&poet_fills[one->first_fill + i]);
    }
    if (one->prepare != NULL || one->transfer != POET_NO_TRANSFER) {
        POET_TRY(open_scratch());
    }
    poet_slots_begin_step(1u, 0);
    return one->prepare != NULL ? one->prepare() : POET_OK;
}

/* Not inlined, so that feeding takes the same whatever runs. */
static __attribute__((noinline)) int run_fed(const struct poet_case *one, int (*run)(void), uint32_t times)
{
    int status = POET_OK;
    for (uint32_t i = 0u; i < times && status == POET_OK; i++) {
        feed(one, i % one->sets);
        status = run();
    }
    return status;
}

static uint64_t less(uint64_t ticks, uint64_t without)
{
    return ticks > without ? ticks - without : 0u;
}

/* A case whose operands are fed before each run, and the feeding alone, which is subtracted. */
static int time_fed(struct run *run)
{
    const struct poet_case *const one = run->one;
    poet_mark(1);
    const uint64_t start = poet_hal_ticks();
    int status = run_fed(one, one->run, run->times);
    const uint64_t middle = poet_hal_ticks();
    if (status == POET_OK) {
        status = run_fed(one, poet_cases[poet_case_count - 1u].run, run->times);
    }
    const uint64_t end = poet_hal_ticks();
    poet_mark(0);
    run->ticks = less(middle - start, end - middle);
    run->marked = end - start;
    return status;
}

static int time_case(struct run *run)
{
    uint64_t without = 0u;
    if (run->one->sets > 0u) {
        return time_fed(run);
    }
    if (run->one->without != NULL) {
        POET_TRY(time_runs(run->one->without, run->times, &without));
    }
    POET_TRY(time_runs(run->one->run, run->times, &run->marked));
    run->ticks = less(run->marked, without);
    return POET_OK;
}

static int run_case(struct run *run)
{
    int status = prepare(run->one);
    if (status == POET_OK) {
        status = time_case(run);
    }
    poet_pages_forget();
    return status;
}

static void print_key(const struct poet_case *one)
{
    poet_print(" ");
    poet_print(one->key);
}

static void print_run(const struct run *run)
{
    poet_print(run->one->key);
    poet_print(",");
    poet_print_decimal(run->times);
    poet_print(",");
    poet_print_decimal(run->ticks);
}

static const struct poet_case *transfer_of(uint32_t transfer, uint32_t bytes)
{
    for (uint32_t i = 0u; i < poet_case_count; i++) {
        if (poet_cases[i].transfer == transfer && poet_cases[i].bytes == bytes) {
            return &poet_cases[i];
        }
    }
    return NULL;
}

/* The status, and of a case that ran its key, what it took and for how long it was marked. */
static void answer_run(struct run *last, const struct poet_command *command, const struct poet_case *one,
                       uint32_t times)
{
    if (one == NULL || times == 0u) {
        poet_answer_status(POET_ERROR_ARGUMENT);
        return;
    }
    if (last->sequence != command->sequence || last->one != one || last->times != times) {
        const struct run run = {command->sequence, one, times, POET_OK, 0u, 0u};
        *last = run;
        last->status = run_case(last);
    }
    poet_answer_status(last->status);
    if (last->status == POET_OK) {
        print_key(one);
        poet_print(" ");
        poet_print_decimal(last->ticks);
        poet_print(" ");
        poet_print_decimal(last->marked);
    }
}

static void hello(const struct poet_command *command, struct run *last)
{
    (void)command;
    (void)last;
    poet_answer_number(PROTOCOL);
    poet_print(" ");
    poet_print_hex(POET_PLAN_ID);
    poet_print(" " POET_BOARD " ");
    poet_print(poet_hal_tick_unit);
    poet_answer_number(poet_case_count);
}

static void name_case(const struct poet_command *command, struct run *last)
{
    const uint32_t index = command->numbers[0];
    (void)last;
    poet_answer_status(index < poet_case_count ? POET_OK : POET_ERROR_ARGUMENT);
    if (index < poet_case_count) {
        print_key(&poet_cases[index]);
    }
}

static void run(const struct poet_command *command, struct run *last)
{
    const uint32_t index = command->numbers[0];
    answer_run(last, command, index < poet_case_count ? &poet_cases[index] : NULL, command->numbers[1]);
}

static void page(const struct poet_command *command, struct run *last)
{
    const uint32_t transfer = command->numbers[0] == 0u ? POET_TRANSFER_IN : POET_TRANSFER_OUT;
    answer_run(last, command, transfer_of(transfer, command->numbers[1]), command->numbers[2]);
}

static void mark(const struct poet_command *command, struct run *last)
{
    (void)last;
    poet_mark(command->numbers[0] != 0u);
    poet_answer_status(POET_OK);
}

static const struct {
    char word[8];
    uint32_t numbers;
    void (*answer)(const struct poet_command *command, struct run *last);
} ANSWERS[] = {
    {"hello", 0u, hello}, {"case", 1u, name_case}, {"run", 2u, run}, {"page", 3u, page}, {"mark", 1u, mark},
};

static int same(const char *left, const char *right)
{
    while (*left == *right && *left != '\0') {
        left++;
        right++;
    }
    return *left == *right;
}

static void answer_frame(const struct poet_command *command, struct run *last)
{
    for (uint32_t i = 0u; i < sizeof ANSWERS / sizeof ANSWERS[0]; i++) {
        if (same(command->word, ANSWERS[i].word) && command->count == ANSWERS[i].numbers) {
            poet_answer_begin('m', command->sequence);
            poet_print(" ");
            poet_print(ANSWERS[i].word);
            ANSWERS[i].answer(command, last);
            poet_answer_end();
            return;
        }
    }
    poet_answer_begin('e', command->sequence);
    poet_print(" unknown");
    poet_answer_end();
}

static int is_plain(const char *text, uint32_t characters, const char *word, uint32_t word_characters)
{
    return characters == word_characters && memcmp(text, word, word_characters) == 0;
}

/* The commands of MLPerf Tiny's harness that need no frame; whether it is one. */
static int answer_plain(const char *text, uint32_t characters, const struct run *last)
{
    if (is_plain(text, characters, "profile", 7u)) {
        poet_print("m-profile-[poetfw sketch ");
        poet_print_hex(POET_PLAN_ID);
        poet_print("]\r\n");
    } else if (is_plain(text, characters, "timestamp", 9u)) {
        poet_print("m-lap-");
        poet_print(poet_hal_tick_unit);
        poet_print("-");
        poet_print_decimal(poet_hal_ticks());
        poet_print("\r\n");
    } else if (is_plain(text, characters, "results", 7u)) {
        poet_print("m-results-[");
        if (last->one != NULL && last->status == POET_OK) {
            print_run(last);
        }
        poet_print("]\r\n");
    } else {
        return 0;
    }
    poet_answer_ready();
    return 1;
}

static void answer(struct poet_link *link, struct run *last)
{
    struct poet_command command;
    const uint32_t characters = link->used;
    switch (poet_link_parse(link, &command)) {
    case POET_LINK_NOTHING:
        break;
    case POET_LINK_NAME:
        poet_print("m-name-dut-[poetfw]\r\n");
        poet_answer_ready();
        break;
    case POET_LINK_DAMAGED:
        if (!answer_plain(link->text, characters, last)) {
            poet_answer_begin('e', 0u);
            poet_print(" damaged");
            poet_answer_end();
        }
        break;
    case POET_LINK_FRAME:
        answer_frame(&command, last);
        break;
    }
}

_Noreturn void poet_run(void)
{
    struct poet_link link;
    struct run last;
    link.used = 0u;
    last.one = NULL;
    (void)poet_hal_init();
    for (;;) {
        char character;
        if (poet_hal_console_read(&character, 1u) == 0u) {
            poet_hal_idle();
        } else if (poet_link_take(&link, character)) {
            answer(&link, &last);
        }
    }
}
