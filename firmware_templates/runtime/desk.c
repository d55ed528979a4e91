/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "desk.h"

#include "console.h"
#include "crc32.h"
#include "hal.h"
#include "high_water.h"
#include "link.h"
#include "poet.h"
#include "poet_math.h"
#include "poet_memory.h"
#include "stages.h"
#include "watchdog.h"

#define PROTOCOL 3u
#define MOST_SUMS 64u

/* State of the session with the host. */
struct session {
    struct poet_command command; /* its word and data stay valid until it has been executed */
    const struct answer *due;    /* answer of the command to execute; NULL for none */
    struct poet_image image;
    uint32_t read_blocks;       /* read before the training began */
    uint32_t written_blocks;    /* written before it */
    uint32_t erases;            /* erase operations before the training began */
    uint32_t first;             /* step after which training continued */
    uint32_t steps;             /* number of steps trained */
    int begun;
    uint64_t ticks; /* of the last step */
    float loss;
#ifdef POET_MESSAGES
    uint32_t sealed; /* intact message, of those at which the step has stopped */
#endif
};

/* Has `done` count from here on. */
static void count_anew(struct session *session)
{
    const struct poet_traffic traffic = poet_storage_traffic();
    session->read_blocks = traffic.read_blocks;
    session->written_blocks = traffic.written_blocks;
    session->erases = poet_hal_storage_erases();
}

static uint8_t *page(void)
{
    return poet_arena + POET_PAGE_BUFFER;
}

static void print_value(float value)
{
    poet_print(" ");
    poet_print_hex(poet_float_bits(value));
}

static void print_count(uint64_t value)
{
    poet_print(" ");
    poet_print_decimal(value);
}

/* Requests to the storage since the start, and bytes read and written. */
static void print_transfers(void)
{
    const struct poet_traffic traffic = poet_storage_traffic();
    print_count(traffic.requests);
    print_count((uint64_t)traffic.read_blocks * POET_BLOCK_BYTES);
    print_count((uint64_t)traffic.written_blocks * POET_BLOCK_BYTES);
}

static void hello(struct session *session)
{
    (void)session;
    poet_answer_number(PROTOCOL);
    poet_print(" ");
    poet_print_hex(POET_PLAN_ID);
    poet_print(" " POET_BOARD);
}

static void card(struct session *session)
{
    (void)session;
    uint32_t blocks = 0u;
    int status = poet_storage_start();
    if (status == POET_OK) {
        status = poet_hal_storage_blocks(&blocks);
    }
    poet_answer_status(status);
    poet_answer_number(blocks);
}

/* CRC of each block; at a block that cannot be read, the status, and no further blocks. */
static void sums(struct session *session)
{
    const uint32_t *const numbers = session->command.numbers;
    int status = poet_storage_start();
    for (uint32_t i = 0u; i < numbers[1] && i < MOST_SUMS && status == POET_OK; i++) {
        status = poet_storage_read_blocks(numbers[0] + i, page(), 1u);
        if (status == POET_OK) {
            poet_answer_number(poet_crc32(0u, page(), POET_BLOCK_BYTES));
        }
    }
    if (status != POET_OK) {
        poet_answer_status(status);
    }
}

static void read_part(struct session *session)
{
    const uint32_t *const numbers = session->command.numbers;
    int status = POET_ERROR_ARGUMENT;
    if (numbers[1] <= POET_BLOCK_BYTES && numbers[2] <= POET_BLOCK_BYTES - numbers[1]) {
        status = poet_storage_start();
    }
    if (status == POET_OK) {
        status = poet_storage_read_blocks(numbers[0], page(), 1u);
    }
    poet_answer_status(status);
    if (status == POET_OK) {
        poet_answer_data(page() + numbers[1], numbers[2]);
    }
}

/* Copies data into the page buffer, followed by zeros. */
static int put_data(const struct poet_command *command)
{
    const uint32_t offset = command->numbers[0];
    if (offset > POET_BLOCK_BYTES || command->data_bytes > POET_BLOCK_BYTES - offset) {
        return POET_ERROR_ARGUMENT;
    }
    memset(page() + offset, 0, POET_BLOCK_BYTES - offset);
    if (command->data_bytes > 0u) {
        memcpy(page() + offset, command->data, command->data_bytes);
    }
    return POET_OK;
}

static void fill(struct session *session)
{
    poet_answer_status(put_data(&session->command));
}

/* Writes the page buffer if its CRC is the host's, and reads it back from the storage. */
static int put_block(const struct poet_command *command)
{
    const uint32_t block = command->numbers[1];
    POET_TRY(put_data(command));
    if (poet_crc32(0u, page(), POET_BLOCK_BYTES) != command->numbers[2]) {
        return POET_ERROR_ARGUMENT;
    }
    POET_TRY(poet_storage_start());
    poet_hal_storage_forget(block, 1u); /* only it: a failed write may have discarded others */
    POET_TRY(poet_storage_write_blocks(block, page(), 1u));
    memset(page(), 0, POET_BLOCK_BYTES);
    return poet_storage_read_blocks(block, page(), 1u);
}

static void put(struct session *session)
{
    poet_answer_status(put_block(&session->command));
    poet_answer_number(poet_crc32(0u, page(), POET_BLOCK_BYTES));
}

/* The host compared the samples before: it is told of a sample damaged since. */
static int check_samples(const struct session *session)
{
    uint32_t number;
    const uint32_t damaged = poet_data_damaged(&session->image.training, 0u, &number) +
                             poet_data_damaged(&session->image.evaluation, 0u, &number);
    return damaged == 0u ? POET_OK : POET_ERROR_DATA;
}

static int begin_training(struct session *session)
{
    session->begun = 0;
    session->steps = 0u;
#ifdef POET_MESSAGES
    session->sealed = 0u;
    poet_stopped_for = 0u;
#endif
    count_anew(session);
    poet_paint_arena();
    poet_paint_stack();
    POET_TRY(poet_storage_open(&session->image));
    session->image.steps = session->command.numbers[0];
    session->image.flags = session->command.numbers[1];
    POET_TRY(poet_load(&session->image));
#if POET_RING > 0
    POET_TRY(poet_save(&session->image, session->image.commit.step)); /* uses samples that arrived since */
#endif
    session->first = session->image.commit.step;
    session->steps = session->first;
    session->begun = 1;
    return POET_OK;
}

static void begin(struct session *session)
{
    poet_answer_status(begin_training(session));
    poet_answer_number(session->steps);
    print_transfers();
}

#ifdef POET_MESSAGES
#define STEP_END (POET_STEP_MESSAGES + 1u) /* instead of the message at which a part of a step stops */

static int is_between_steps(const struct session *session)
{
    return session->begun && poet_stopped_for == 0u;
}

/* A part requested again, up to the same message, has already been executed. */
static int is_done(const struct session *session, uint32_t step, uint32_t stop)
{
    return poet_stopped_for == 0u ? step == session->steps && stop == STEP_END
                                  : step == session->steps + 1u && stop == poet_stopped_for;
}

/* Trains up to a message, or to the step's end. */
static int train_part(struct session *session)
{
    const uint32_t step = session->command.numbers[0];
    const uint32_t stop = session->command.numbers[1];
    if (!session->begun || session->first >= step || session->image.steps < step) {
        return POET_ERROR_ARGUMENT;
    }
    if (is_done(session, step, stop)) {
        return POET_OK;
    }
    if (step != session->steps + 1u || stop != poet_stopped_for + 1u || session->sealed != poet_stopped_for) {
        return POET_ERROR_ARGUMENT;
    }
    session->begun = 0; /* training cannot continue after an error */
    if (poet_stopped_for == 0u) {
        session->ticks = 0u;
    }
    const uint64_t start = poet_hal_ticks();
    POET_TRY(poet_train(&session->image, step));
    POET_TRY(check_samples(session));
    session->ticks += poet_hal_ticks() - start;
    session->begun = 1;
    if (poet_stopped_for == 0u) {
        session->steps = step;
        session->sealed = 0u;
    }
    session->loss = *POET_LOSS;
    return POET_OK;
}

static void part(struct session *session)
{
    const int status = train_part(session);
    poet_answer_status(status);
    if (status == POET_OK) {
        print_value(session->loss);
        print_count(session->ticks);
        print_transfers();
    }
}

/* Message with the command's first number if it is due: the step has stopped for it, or it follows the last step.
 * Else NULL. */
static const struct poet_message *due_message(const struct session *session)
{
    const uint32_t number = session->command.numbers[0];
    const int follows = poet_stopped_for == 0u && number > POET_STEP_MESSAGES && number <= POET_MESSAGES;
    const int is_due = session->begun && number != 0u && (number == poet_stopped_for || follows);
    return is_due ? &poet_messages[number] : NULL;
}

/* Bytes of the due message at the offset in the command's second number; NULL for the other direction, or beyond the
 * end. */
static uint8_t *bytes_of_message(const struct session *session, uint32_t arrives, uint32_t bytes)
{
    const uint32_t offset = session->command.numbers[1];
    const struct poet_message *const message = due_message(session);
    if (message == NULL || message->arrives != arrives || offset > message->bytes || bytes > message->bytes - offset) {
        return NULL;
    }
    return poet_arena + message->offset + offset;
}

static void take(struct session *session)
{
    const uint32_t bytes = session->command.numbers[2];
    const uint8_t *const from = bytes <= POET_BLOCK_BYTES ? bytes_of_message(session, 0u, bytes) : NULL;
    poet_answer_status(from != NULL ? POET_OK : POET_ERROR_ARGUMENT);
    if (from != NULL) {
        poet_answer_data(from, bytes);
    }
}

static void give(struct session *session)
{
    const struct poet_command *const command = &session->command;
    uint8_t *const to = bytes_of_message(session, 1u, command->data_bytes);
    if (to != NULL && command->data_bytes > 0u) {
        memcpy(to, command->data, command->data_bytes);
    }
    poet_answer_status(to != NULL ? POET_OK : POET_ERROR_ARGUMENT);
}

/* A message is intact if its CRC is the host's: then the step may continue after it. */
static int seal_message(struct session *session)
{
    const struct poet_message *const message = due_message(session);
    if (message == NULL) {
        return POET_ERROR_ARGUMENT;
    }
    if (poet_crc32(0u, poet_arena + message->offset, message->bytes) != session->command.numbers[1]) {
        return POET_ERROR_CRC;
    }
    session->sealed = poet_stopped_for;
    return POET_OK;
}

static void seal(struct session *session)
{
    poet_answer_status(seal_message(session));
}
#else
static int is_between_steps(const struct session *session)
{
    return session->begun;
}

/* A step requested again has already been executed: its answer was lost. */
static int train(struct session *session)
{
    const uint32_t step = session->command.numbers[0];
    if (!session->begun || (step != session->steps && step != session->steps + 1u) ||
        step <= session->first || step > session->image.steps) {
        return POET_ERROR_ARGUMENT;
    }
    if (step > session->steps) {
        session->begun = 0; /* training cannot continue after an error */
        const uint64_t start = poet_hal_ticks();
        POET_TRY(poet_train(&session->image, step));
        POET_TRY(check_samples(session));
        session->ticks = poet_hal_ticks() - start;
        session->begun = 1;
        session->steps = step;
        session->loss = *POET_LOSS;
    }
    return POET_OK;
}

static void step(struct session *session)
{
    const int status = train(session);
    poet_answer_status(status);
    if (status == POET_OK) {
        print_value(session->loss);
        print_count(session->ticks);
        print_transfers();
    }
}
#endif

static void save(struct session *session)
{
    int status = POET_ERROR_ARGUMENT;
    if (is_between_steps(session)) {
        status = poet_save(&session->image, session->steps);
    }
    poet_answer_status(status);
    if (status == POET_OK) {
        print_transfers();
    }
}

static void evaluate(struct session *session)
{
    const uint32_t batch = session->command.numbers[0];
    int status = POET_ERROR_ARGUMENT;
    if (is_between_steps(session) && batch >= 1u && batch <= poet_evaluations(&session->image)) {
        status = poet_evaluate(&session->image, batch);
    }
    if (status == POET_OK) {
        status = check_samples(session);
    }
    poet_answer_status(status);
    if (status == POET_OK) {
        print_value(*POET_METRIC);
    }
}

static void done(struct session *session)
{
    const struct poet_traffic now = poet_storage_traffic();
    poet_print(" ");
    poet_print(poet_hal_tick_unit);
    print_count(poet_arena_high_water());
    print_count(poet_stack_high_water());
    print_count((uint64_t)(now.read_blocks - session->read_blocks) * POET_BLOCK_BYTES);
    print_count((uint64_t)(now.written_blocks - session->written_blocks) * POET_BLOCK_BYTES);
    if (poet_hal_storage_erases() > 0u) {
        print_count(poet_hal_storage_erases() - session->erases);
    }
}

struct answer {
    char word[6];
    uint8_t numbers;
    uint8_t computes; /* runs ops of the network: the receiving code's stack must be free */
    void (*answer)(struct session *session);
};

static const struct answer ANSWERS[] = {
    {"hello", 0u, 0u, hello}, {"card", 0u, 0u, card}, {"sums", 2u, 0u, sums},
    {"read", 3u, 0u, read_part}, {"fill", 1u, 0u, fill}, {"put", 3u, 0u, put},
    {"begin", 2u, 0u, begin}, {"save", 0u, 0u, save}, {"eval", 1u, 1u, evaluate}, {"done", 0u, 0u, done},
#ifdef POET_MESSAGES
    {"part", 2u, 1u, part}, {"take", 3u, 0u, take}, {"give", 2u, 0u, give}, {"seal", 2u, 0u, seal},
#else
    {"step", 1u, 1u, step},
#endif
};

static int same(const char *left, const char *right)
{
    while (*left == *right && *left != '\0') {
        left++;
        right++;
    }
    return *left == *right;
}

static void answer_by(struct session *session, const struct answer *answer)
{
    poet_answer_begin('m', session->command.sequence);
    poet_print(" ");
    poet_print(answer->word);
    answer->answer(session);
    poet_answer_end();
}

static void answer_frame(struct session *session)
{
    const struct poet_command *const command = &session->command;
    for (uint32_t i = 0u; i < sizeof ANSWERS / sizeof ANSWERS[0]; i++) {
        const struct answer *const answer = &ANSWERS[i];
        if (same(command->word, answer->word) && command->count == answer->numbers) {
            if (answer->computes) {
                session->due = answer;
            } else {
                answer_by(session, answer);
            }
            return;
        }
    }
    poet_answer_begin('e', command->sequence);
    poet_print(" unknown");
    poet_answer_end();
}

/* Answers a received frame, unless its command has to be executed first; returns whether it was a frame. */
static enum poet_link_kind answer(struct poet_link *link, struct session *session)
{
    const enum poet_link_kind kind = poet_link_parse(link, &session->command);
    switch (kind) {
    case POET_LINK_NOTHING:
        break;
    case POET_LINK_NAME:
        poet_print("m-name-dut-[poetfw]\r\n");
        poet_answer_ready();
        break;
    case POET_LINK_DAMAGED:
        poet_answer_begin('e', 0u);
        poet_print(" damaged");
        poet_answer_end();
        break;
    case POET_LINK_FRAME:
        answer_frame(session);
        break;
    }
    return kind;
}

/* Answers commands until one has to be executed, or until a number of ticks has passed, and poet_hal_listen_ticks
 * after any character. The command's buffer is on the stack meanwhile. */
static __attribute__((noinline)) void hear(struct session *session, uint64_t ticks)
{
    struct poet_link link;
    uint64_t since = poet_hal_ticks();
    int heard = 0;
    link.used = 0u;
    session->due = NULL;
    while (session->due == NULL) {
        char character;
        poet_feed();
        if (poet_hal_console_read(&character, 1u) == 0u) {
            if (ticks == POET_LISTEN_FOR_EVER) {
                poet_hal_idle();
            } else if (poet_hal_ticks() - since >= ticks) {
                return;
            }
            continue;
        }
        if (!heard && ticks != POET_LISTEN_FOR_EVER) {
            ticks = poet_hal_listen_ticks();
            heard = 1;
        }
        if (poet_link_take(&link, character)) {
            const enum poet_link_kind kind = answer(&link, session);
            if (kind == POET_LINK_FRAME) {
                ticks = POET_LISTEN_FOR_EVER;
            } else if (kind == POET_LINK_NAME) {
                since = poet_hal_ticks();
            }
        }
    }
}

void poet_listen(uint64_t ticks)
{
    struct session session;
    session.begun = 0;
    count_anew(&session);
    for (hear(&session, ticks); session.due != NULL; hear(&session, POET_LISTEN_FOR_EVER)) {
        answer_by(&session, session.due);
    }
}
