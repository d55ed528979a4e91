/* SPDX-License-Identifier: Apache-2.0 */
/* A firmware in this process, on a storage whose power goes and that lies: every case has a number that replays it.
 *
 * The storage keeps what was written before a flush. What was written since is kept or not when the power goes, as
 * the case says. All that the harness itself remembers is behind one pointer: a boot puts back the rest of this
 * library's variables, and with them the firmware's, as they were when it was loaded.
 */
#define _GNU_SOURCE
#include "../unit/runtime/quiet_board.h"
#include "hal.h"
#include "poet.h"

#include <link.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK POET_BLOCK_BYTES
#define UNIT 8u /* blocks that flash erases at once */
#define CONSOLE_BYTES 65536u
#define PENDING 4096u
#ifdef POET_TRANSFERS
#define QUEUE POET_TRANSFERS
#else
#define QUEUE 1u
#endif

/* What becomes of the block that is being written when the power goes. */
enum tear { BEFORE, FIRST_PART, GARBAGE, UNIT_GARBAGE, AFTER, TEARS };
/* What becomes of those that were written since the last flush. */
enum order { KEPT, LOST, REORDERED, ORDERS };

/* What a call of the storage does otherwise than it should. */
enum fault {
    CRC, TIME_OUT, BUSY, SHORT, FULL, REMOVED, NOT_WRITTEN, OLD_DATA, FLIPPED_BIT, DONE_ALL_THE_SAME, FAULTS
};
static const int STATUSES[] = {[CRC] = -26,  [TIME_OUT] = -20, [BUSY] = -27,
                               [SHORT] = -27, [FULL] = -23,    [REMOVED] = -16};

enum outcome { SAME, TOLD, DOES_NOT_BOOT, WRONG, COMMIT_LOST };

struct transfer {
    uint32_t block;
    uint32_t count;
    uint8_t *target;
    const uint8_t *source;
};

struct harness {
    uint8_t *initial_variables;
    uint8_t *variables;
    size_t variables_bytes;
    jmp_buf end;

    uint8_t *image;  /* at the beginning */
    uint8_t *blocks; /* as they are read */
    uint8_t *kept;   /* as they were at the last flush */
    uint8_t *old;    /* as each was before it was last written */
    uint32_t count;
    uint32_t pending[PENDING]; /* blocks written since the flush, and what they then held */
    uint8_t *pending_content;
    uint32_t pending_count;

    uint32_t writes;   /* blocks, in this boot */
    uint32_t cut_at;   /* the block whose write is cut, from 0 */
    enum tear tear;
    enum order order;
    uint64_t random;

    uint32_t calls;    /* of the storage, in this boot */
    uint32_t fault_at; /* from 0 */
    enum fault fault;
    int for_ever;

    struct transfer queue[QUEUE];
    uint32_t begun, ended;

    char console[CONSOLE_BYTES];
    uint32_t console_used;
    int exit_code; /* -1: the power went */

    uint8_t *reference; /* the persistent tensors after the run that nothing disturbs */
    uint32_t reference_bytes;
    uint32_t reference_writes, reference_calls;
    uint32_t steps;
};

static struct harness *h;

const char poet_hal_tick_unit[] = "ns";

/* xorshift64* (Vigna 2016). */
static uint32_t draw(uint32_t below)
{
    h->random ^= h->random >> 12;
    h->random ^= h->random << 25;
    h->random ^= h->random >> 27;
    return (uint32_t)(h->random * 0x2545f4914f6cdd1du >> 32) % below;
}

static uint8_t *at(uint8_t *blocks, uint32_t block)
{
    return blocks + (size_t)block * BLOCK;
}

static void fill(uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0u; i < count; i++) {
        bytes[i] = (uint8_t)draw(256u);
    }
}

/* The power ------------------------------------------------------------------------------------- */

/* What was pending reaches `kept` as the case says, and what is being written as far as it does. */
_Noreturn static void lose_power(uint32_t block, const uint8_t *source)
{
    for (uint32_t i = 0u; i < h->pending_count; i++) {
        const int stays = h->order == KEPT || (h->order == REORDERED && draw(2u) != 0u);
        if (stays) {
            memcpy(at(h->kept, h->pending[i]), at(h->pending_content, i), BLOCK);
        }
    }
    uint8_t *const target = at(h->kept, block);
    switch (h->tear) {
    case FIRST_PART:
        memcpy(target, source, 1u + draw(BLOCK - 1u));
        break;
    case GARBAGE:
        fill(target, BLOCK);
        break;
    case UNIT_GARBAGE:
        fill(at(h->kept, block / UNIT * UNIT), UNIT * BLOCK);
        break;
    case AFTER:
        memcpy(target, source, BLOCK);
        break;
    default:
        break;
    }
    memcpy(h->blocks, h->kept, (size_t)h->count * BLOCK);
    h->exit_code = -1;
    longjmp(h->end, 1);
}

/* The storage ----------------------------------------------------------------------------------- */

static int has_fault(enum fault fault)
{
    return h->fault == fault && (h->calls == h->fault_at || (h->for_ever && h->calls > h->fault_at));
}

static int failing(int writes)
{
    for (int fault = CRC; fault <= REMOVED; fault++) {
        if (has_fault((enum fault)fault) && (fault != FULL || writes)) {
            return STATUSES[fault];
        }
    }
    return POET_OK;
}

static int write_blocks(const struct transfer *transfer)
{
    for (uint32_t i = 0u; i < transfer->count; i++) {
        const uint32_t block = transfer->block + i;
        const uint8_t *const source = transfer->source + (size_t)i * BLOCK;
        if (h->writes++ == h->cut_at) {
            lose_power(block, source);
        }
        if (has_fault(NOT_WRITTEN)) {
            continue;
        }
        memcpy(at(h->old, block), at(h->blocks, block), BLOCK);
        memcpy(at(h->blocks, block), source, BLOCK);
        if (h->pending_count == PENDING) {
            abort();
        }
        h->pending[h->pending_count] = block;
        memcpy(at(h->pending_content, h->pending_count++), source, BLOCK);
    }
    return POET_OK;
}

static int read_blocks(const struct transfer *transfer)
{
    uint8_t *const from = has_fault(OLD_DATA) ? h->old : h->blocks;
    memcpy(transfer->target, at(from, transfer->block), (size_t)transfer->count * BLOCK);
    if (has_fault(FLIPPED_BIT)) {
        transfer->target[draw(transfer->count * BLOCK)] ^= (uint8_t)(1u << draw(8u));
    }
    return POET_OK;
}

static int move(const struct transfer *transfer)
{
    int status = failing(transfer->source != NULL);
    if (transfer->count > h->count || transfer->block > h->count - transfer->count) {
        abort(); /* beyond the end */
    }
    if (status == POET_OK) {
        status = transfer->source != NULL ? write_blocks(transfer) : read_blocks(transfer);
        if (has_fault(DONE_ALL_THE_SAME)) {
            status = STATUSES[TIME_OUT];
        }
    }
    h->calls++;
    return status;
}

static int begin(uint32_t block, uint32_t count, uint8_t *target, const uint8_t *source)
{
    const struct transfer transfer = {block, count, target, source};
    if (count == 0u || h->begun - h->ended == QUEUE) {
        abort(); /* more than the plan says */
    }
    h->queue[h->begun++ % QUEUE] = transfer;
    return POET_OK;
}

int poet_hal_storage_open(void)
{
    const int status = failing(0);
    h->calls++;
    return status;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    const int status = failing(0);
    h->calls++;
    *blocks = h->count;
    return status;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    return begin(block, count, ram, NULL);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    return begin(block, count, NULL, ram);
}

int poet_hal_storage_wait(void)
{
    if (h->begun == h->ended) {
        abort(); /* nothing is under way */
    }
    return move(&h->queue[h->ended++ % QUEUE]);
}

int poet_hal_storage_flush(void)
{
    const int status = failing(0);
    h->calls++;
    if (h->begun != h->ended) {
        abort(); /* something is under way */
    }
    for (uint32_t i = 0u; i < h->pending_count; i++) {
        memcpy(at(h->kept, h->pending[i]), at(h->pending_content, i), BLOCK);
    }
    h->pending_count = 0u;
    return status;
}

/* The rest of the board ------------------------------------------------------------------------- */

int poet_hal_init(void)
{
    return POET_OK;
}

void poet_hal_console_write(const char *text, uint32_t bytes)
{
    if (h->console_used + bytes >= CONSOLE_BYTES) {
        abort();
    }
    memcpy(h->console + h->console_used, text, bytes);
    h->console_used += bytes;
    h->console[h->console_used] = '\0';
}

uint64_t poet_hal_ticks(void)
{
    return 0u;
}

const char *poet_hal_reset_cause(void)
{
    return "power-on";
}

_Noreturn void poet_hal_exit(int code)
{
    h->exit_code = code;
    longjmp(h->end, 1);
}

/* Boots ------------------------------------------------------------------------------------------ */

/* This library's variables, without those that the loader made read-only. */
static int find_variables(struct dl_phdr_info *info, size_t size, void *argument)
{
    const uintptr_t own = (uintptr_t)argument;
    uintptr_t first = 0u, end = 0u, read_only_end = 0u;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *const part = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) != 0u) {
            first = start;
            end = start + part->p_memsz;
        } else if (part->p_type == PT_GNU_RELRO) {
            read_only_end = (start + part->p_memsz + 4095u) / 4096u * 4096u;
        }
    }
    if (own < first || own >= end) {
        return 0;
    }
    h->variables = (uint8_t *)(read_only_end > first ? read_only_end : first);
    h->variables_bytes = end - (uintptr_t)h->variables;
    return 1;
}

/* With the variables as they are. */
static void run(void)
{
    h->console_used = 0u;
    if (setjmp(h->end) == 0) {
        poet_run();
    }
}

static void boot(void)
{
    memcpy(h->variables, h->initial_variables, h->variables_bytes);
    h->begun = h->ended = 0u;
    h->writes = h->calls = 0u;
    h->pending_count = 0u;
    memcpy(h->kept, h->blocks, (size_t)h->count * BLOCK);
    run();
}

static void boot_undisturbed(void)
{
    h->cut_at = h->fault_at = UINT32_MAX;
    boot();
}

/* The streamed tensors as the next step would read them. */
static uint32_t collect_streams(uint8_t *to)
{
    uint32_t bytes = 0u;
#ifdef POET_STREAMS
    for (uint32_t i = 0u; i < POET_STREAMS; i++) {
        const struct poet_stream *const stream = &poet_streams[i];
        const uint32_t size = stream->rows * stream->tile_bytes;
        for (uint32_t column = 0u; column < stream->columns; column++) {
            const uint32_t block = poet_stream_block(i) + column * ((size + BLOCK - 1u) / BLOCK);
            if (to != NULL) {
                memcpy(to + bytes, at(h->blocks, block), size);
            }
            bytes += size;
        }
    }
#else
    (void)to;
#endif
    return bytes;
}

static uint32_t collect(uint8_t *to)
{
    uint32_t bytes = 0u;
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        const uint32_t size = poet_slots[i].bytes;
        if (to != NULL) {
            memcpy(to + bytes, poet_arena + poet_persistents[i], size);
        }
        bytes += size;
    }
    return bytes + collect_streams(to == NULL ? NULL : to + bytes);
}

/* The number behind the last `word`, and 0 where none was printed. */
static uint32_t last_number(const char *word)
{
    uint32_t number = 0u;
    for (const char *found = h->console; (found = strstr(found, word)) != NULL; found++) {
        number = (uint32_t)strtoul(found + strlen(word), NULL, 10);
    }
    return number;
}

static int is_same(void)
{
    uint8_t *const now = malloc(h->reference_bytes);
    (void)collect(now);
    const int same = memcmp(now, h->reference, h->reference_bytes) == 0;
    free(now);
    return same;
}

static void begin_case(uint64_t number)
{
    memcpy(h->blocks, h->image, (size_t)h->count * BLOCK);
    memcpy(h->old, h->image, (size_t)h->count * BLOCK);
    h->random = number * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
    h->random += h->random == 0u;
    (void)draw(2u);
}

/* What has come of a run with nothing in its way, `committed` steps at least being safe. */
static enum outcome judge(uint32_t committed)
{
    if (h->exit_code != 0) {
        return DOES_NOT_BOOT;
    }
    if (!is_same()) {
        return WRONG;
    }
    return last_number(" done=") < committed ? COMMIT_LOST : SAME;
}

static enum outcome recover(uint32_t committed)
{
    boot_undisturbed();
    return judge(committed);
}

/* The same without a boot: it opens, loads and goes on after what it said. The storage is then as it was. */
static enum outcome go_on(uint32_t committed)
{
    const size_t bytes = (size_t)h->count * BLOCK;
    uint8_t *const blocks = malloc(bytes);
    memcpy(blocks, h->blocks, bytes);
    h->cut_at = h->fault_at = UINT32_MAX;
    run();
    const enum outcome outcome = judge(committed);
    memcpy(h->blocks, blocks, bytes);
    free(blocks);
    return outcome;
}

int power_load(const uint8_t *image, uint32_t blocks);
const char *power_console(void);
uint32_t power_writes(void);
uint32_t power_calls(void);
int power_cut(uint64_t number, uint32_t seeds, uint32_t depth);
int64_t power_cuts(uint64_t first, uint64_t count, uint32_t seeds, uint32_t depth, uint64_t *table);
int power_fault(uint32_t call, uint32_t fault, uint32_t for_ever);
void power_blocks(uint8_t *to);
void power_replace(const uint8_t *from);
void power_disturb(uint32_t call, uint32_t fault, uint32_t for_ever);

/* Takes an image, and runs it with nothing in its way. Returns the exit code. */
int power_load(const uint8_t *image, uint32_t blocks)
{
    const size_t bytes = (size_t)blocks * BLOCK;
    h = calloc(1u, sizeof *h);
    h->count = blocks;
    h->image = malloc(bytes);
    h->blocks = malloc(bytes);
    h->kept = malloc(bytes);
    h->old = malloc(bytes);
    h->pending_content = malloc((size_t)PENDING * BLOCK);
    memcpy(h->image, image, bytes);
    if (dl_iterate_phdr(find_variables, &h) == 0) {
        abort();
    }
    h->initial_variables = malloc(h->variables_bytes);
    memcpy(h->initial_variables, h->variables, h->variables_bytes);
    h->reference_bytes = collect(NULL);
    h->reference = malloc(h->reference_bytes);
    begin_case(0u);
    boot_undisturbed();
    (void)collect(h->reference);
    h->reference_writes = h->writes;
    h->reference_calls = h->calls;
    h->steps = last_number("@step ");
    return h->exit_code;
}

const char *power_console(void)
{
    return h->console;
}

uint32_t power_writes(void)
{
    return h->reference_writes;
}

uint32_t power_calls(void)
{
    return h->reference_calls;
}

void power_blocks(uint8_t *to)
{
    memcpy(to, h->blocks, (size_t)h->count * BLOCK);
}

/* Another content of the storage, without a boot. */
void power_replace(const uint8_t *from)
{
    memcpy(h->blocks, from, (size_t)h->count * BLOCK);
}

/* The storage fails or lies in its `call`th call from now on, counted from 0; UINT32_MAX: not any more. */
void power_disturb(uint32_t call, uint32_t fault, uint32_t for_ever)
{
    h->fault_at = call == UINT32_MAX ? call : h->calls + call;
    h->fault = (enum fault)fault;
    h->for_ever = for_ever != 0u;
}

/* Case `number`: the block, what becomes of it and of those before it, and one of `seeds` ways of that. The
 * power goes `depth` times: again while what was cut is made up for. */
int power_cut(uint64_t number, uint32_t seeds, uint32_t depth)
{
    begin_case(number);
    uint64_t rest = number / seeds;
    h->order = (enum order)(rest % ORDERS);
    rest /= ORDERS;
    h->tear = (enum tear)(rest % TEARS);
    h->cut_at = (uint32_t)(rest / TEARS % h->reference_writes);
    h->fault_at = UINT32_MAX;
    uint32_t committed = 0u;
    for (uint32_t cuts = 1u;; cuts++) {
        boot();
        if (h->exit_code != -1) {
            break; /* it had no more to write than that */
        }
        const uint32_t said = last_number("@commit ");
        committed = said > committed ? said : committed;
        if (cuts == depth) {
            break;
        }
        h->order = (enum order)draw(ORDERS);
        h->tear = (enum tear)draw(TEARS);
        h->cut_at = draw(h->reference_writes);
    }
    return (int)recover(committed);
}

/* So many cases from one on; how many came to what, by tear, order and outcome. Returns the first bad one, or -1. */
int64_t power_cuts(uint64_t first, uint64_t count, uint32_t seeds, uint32_t depth, uint64_t *table)
{
    int64_t bad = -1;
    for (uint64_t number = first; number < first + count; number++) {
        const int outcome = power_cut(number, seeds, depth);
        const uint64_t kind = number / seeds % (TEARS * ORDERS);
        table[kind * (COMMIT_LOST + 1u) + (uint64_t)outcome]++;
        if (outcome != SAME && bad < 0) {
            bad = (int64_t)number;
        }
    }
    return bad;
}

/* A storage that fails or lies from a call on, once or for ever; and then a good one, in the same boot where it was told,
 * and in another. Returns SAME; or what else came
 * of it, TOLD with the status in the lower bits of a negative number. */
int power_fault(uint32_t call, uint32_t fault, uint32_t for_ever)
{
    begin_case(((uint64_t)call * FAULTS + fault) * 2u + for_ever);
    h->cut_at = UINT32_MAX;
    h->fault_at = call;
    h->fault = (enum fault)fault;
    h->for_ever = for_ever != 0u;
    boot();
    const uint32_t committed = last_number("@commit ");
    int result = SAME;
    if (h->exit_code == 0) {
        if (!is_same()) {
            return WRONG;
        }
    } else {
        const char *const status = strstr(h->console, "@error status=-");
        if (status == NULL) {
            return DOES_NOT_BOOT;
        }
        result = -atoi(status + strlen("@error status=-"));
        const enum outcome now = go_on(committed);
        if (now != SAME) {
            return (int)now;
        }
    }
    const enum outcome later = recover(committed);
    return later == SAME ? result : (int)later;
}
