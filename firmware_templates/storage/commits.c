/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "commits.h"

#include "bytes.h"
#include "crc32.h"
#include "poet.h"
#include "poet_math.h"
#include "poet_memory.h"
#include "ring.h"
#include "stream.h"

#define SET_ALIGNMENT 8u
#define CONTENT_BYTES 32u
#define CRC_OFFSET 36u
#define RECORD_BYTES 40u

#ifdef POET_STREAMS
#define STREAM_BLOCKS POET_STREAM_BLOCKS
#else
#define STREAM_BLOCKS 0u
#endif

#if POET_RING > 0
/* Commit that a save failed to verify, but which the storage may hold. */
static struct {
    struct poet_commit commit;
    int is_unsure;
} tried;
#endif

/* Block of the record, counted from the set's first block. */
static uint32_t record_block(void)
{
    const struct poet_slot *const last = &poet_slots[POET_PERSISTENTS - 1u];
    return last->first_block + poet_slot_blocks(last->bytes) + STREAM_BLOCKS;
}

uint32_t poet_set_blocks(void)
{
    return (record_block() / SET_ALIGNMENT + 1u) * SET_ALIGNMENT;
}

int poet_sets_wipe(uint32_t first_block, uint32_t sets)
{
    for (uint32_t set = 0u; set < sets; set++) {
        POET_TRY(poet_storage_wipe(first_block + set * poet_set_blocks() + record_block()));
    }
    return POET_OK;
}

static uint32_t first_block(const struct poet_image *image, uint32_t set)
{
    return image->sets_first_block + set * poet_set_blocks();
}

static void pack(const struct poet_commit *commit, uint32_t identity, uint8_t *bytes)
{
    memcpy(bytes, "POETSAVE", 8u);
    poet_put_u32(bytes + 8, identity);
    poet_put_u32(bytes + 12, commit->sequence);
    poet_put_u32(bytes + 16, commit->step);
    poet_put_u32(bytes + 20, commit->written);
    poet_put_u32(bytes + 24, commit->crc);
#if POET_RING > 0
    poet_put_u32(bytes + 28, commit->ring);
#else
    poet_put_u32(bytes + 28, 0u);
#endif
    poet_put_u32(bytes + CONTENT_BYTES, 0u);
    poet_put_u32(bytes + CRC_OFFSET, poet_crc32(0u, bytes, CONTENT_BYTES));
}

/* Repacking gives the same bytes only if magic and CRC are right. */
static int read_record(const struct poet_image *image, uint32_t set, struct poet_commit *commit)
{
    uint8_t packed[RECORD_BYTES];
    POET_TRY(poet_storage_read_blocks(first_block(image, set) + record_block(), poet_storage_page(), 1u));
    commit->set = set;
    commit->sequence = poet_get_u32(poet_storage_page() + 12);
    commit->step = poet_get_u32(poet_storage_page() + 16);
    commit->written = poet_get_u32(poet_storage_page() + 20);
    commit->crc = poet_get_u32(poet_storage_page() + 24);
#if POET_RING > 0
    commit->ring = poet_get_u32(poet_storage_page() + 28);
#endif
    const uint32_t identity = poet_get_u32(poet_storage_page() + 8);
    pack(commit, identity, packed);
    if (memcmp(poet_storage_page(), packed, RECORD_BYTES) != 0) {
        return POET_ERROR_COMMIT;
    }
    return identity == poet_storage_identity() ? POET_OK : POET_ERROR_MIXED;
}

/* Last commit with a sequence number below a limit. Returns POET_ERROR_COMMIT if no set holds such a commit. */
static int find_last(const struct poet_image *image, uint32_t limit, struct poet_commit *last)
{
    int status = POET_ERROR_COMMIT;
    for (uint32_t set = 0u; set < image->sets; set++) {
        struct poet_commit commit;
        const int read = read_record(image, set, &commit);
        if (read == POET_ERROR_MIXED) {
            return read;
        }
        if (read != POET_OK && status == POET_ERROR_COMMIT) {
            status = read;
        }
        if (read == POET_OK && commit.sequence < limit &&
            (status != POET_OK || commit.sequence > last->sequence)) {
            *last = commit;
            status = POET_OK;
        }
    }
    return status;
}

/* Continues the CRC over all trailers: a slot that was just transferred left its trailer in the page buffer. */
static uint32_t add_trailer(uint32_t crc)
{
    return poet_crc32(crc, poet_storage_page() + POET_SLOT_TRAILER_OFFSET,
                      POET_SLOT_TRAILER_BYTES);
}

static void open_set(const struct poet_image *image, const struct poet_commit *commit)
{
    poet_slots_open_set(first_block(image, commit->set));
    poet_slots_begin_step(commit->step, 0);
}

/* Verifies the streamed tensors of a commit; with `finite`, also their values. */
static int verify_streams(const struct poet_image *image, const struct poet_commit *commit, int finite, uint32_t *crc)
{
#ifdef POET_STREAMS
    return poet_streams_verify(first_block(image, commit->set), commit->step, finite, crc);
#else
    (void)image;
    (void)commit;
    (void)finite;
    (void)crc;
    return POET_OK;
#endif
}

/* True if a commit is intact; with `load`, its tensors are then loaded. */
static int read_set(const struct poet_image *image, const struct poet_commit *commit, int load)
{
    uint32_t crc = 0u;
    open_set(image, commit);
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        POET_TRY(load ? poet_page_in(i, poet_arena + poet_persistents[i], poet_slots[i].bytes)
                      : poet_slot_read_back(i));
        crc = add_trailer(crc);
    }
    POET_TRY(verify_streams(image, commit, 0, &crc));
    return crc == commit->crc ? POET_OK : POET_ERROR_COMMIT;
}

/* After a commit: streamed tensors are read from its set, and written to the next. */
static void open_streams(const struct poet_image *image)
{
#ifdef POET_STREAMS
    const struct poet_commit *const commit = &image->commit;
    poet_streams_open(first_block(image, commit->set), first_block(image, (commit->set + 1u) % image->sets), commit->step);
#else
    (void)image;
#endif
}

/* Makes a commit the last one. Its record does not include blocks written after it in this run. */
static void take(struct poet_image *image, const struct poet_commit *commit)
{
    uint32_t written = poet_blocks_written(image);
    if (written < commit->written) {
        written = commit->written;
    }
    image->commit = *commit;
    image->commit.written = written - poet_storage_traffic().written_blocks;
    open_streams(image);
#if POET_RING > 0
    poet_ring_commit(commit->ring);
    tried.is_unsure = 0;
#endif
}

int poet_load(struct poet_image *image)
{
    struct poet_commit commit = {.sequence = UINT32_MAX};
    int failure = POET_OK;
    poet_slots_open(image->slots_first_block);
    for (;;) {
        const int found = find_last(image, commit.sequence, &commit);
        const int status = found == POET_OK ? read_set(image, &commit, 1) : found;
        if (status == POET_OK) {
            take(image, &commit);
            return POET_OK;
        }
        if (failure == POET_OK) {
            failure = status;
        }
        if (found != POET_OK) {
            return failure;
        }
    }
}

/* True if a set could be read but is not intact. */
static int is_damage(int status)
{
    return status == POET_ERROR_SLOT || status == POET_ERROR_LOST || status == POET_ERROR_CRC ||
           status == POET_ERROR_COMMIT;
}

int poet_begin_anew(struct poet_image *image)
{
    struct poet_commit commit = {.sequence = UINT32_MAX};
    struct poet_commit highest = {.sequence = 0u};
    int found, status;
    poet_slots_open(image->slots_first_block);
    do {
        found = find_last(image, commit.sequence, &commit);
        if (found == POET_OK && commit.sequence > highest.sequence) {
            highest = commit;
        }
        status = found == POET_OK ? read_set(image, &commit, 0) : found;
    } while (found == POET_OK && is_damage(status));
    if (status == POET_ERROR_COMMIT) {
        commit = highest; /* a later commit counts, even if this one reads as intact again */
    } else {
        POET_TRY(status);
    }
    commit.step = UINT32_MAX;
#if POET_RING > 0
    poet_ring_commit(commit.ring); /* later events get higher numbers */
    commit.ring = poet_ring_events();
#endif
    take(image, &commit);
    return POET_OK;
}

uint32_t poet_blocks_written(const struct poet_image *image)
{
    return image->commit.written + poet_storage_traffic().written_blocks;
}

/* Writes a commit's tensors and reads them back; streamed ones are there. */
static int write_set(const struct poet_image *image, struct poet_commit *commit)
{
#ifdef POET_STREAMS
    POET_TRY(poet_streams_settle());
#endif
    open_set(image, commit);
    commit->crc = 0u;
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        POET_TRY(poet_page_out(i, poet_arena + poet_persistents[i], poet_slots[i].bytes));
        commit->crc = add_trailer(commit->crc);
    }
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        POET_TRY(poet_slot_read_back(i));
    }
    return verify_streams(image, commit, 1, &commit->crc);
}

static int write_record(const struct poet_image *image, const struct poet_commit *commit)
{
    struct poet_commit kept;
#if POET_RING > 0
    tried.commit = *commit;
    tried.is_unsure = 1;
#endif
    memset(poet_storage_page(), 0, POET_BLOCK_BYTES);
    pack(commit, poet_storage_identity(), poet_storage_page());
    POET_TRY(poet_storage_write_blocks(first_block(image, commit->set) + record_block(), poet_storage_page(), 1u));
    POET_TRY(poet_storage_flush());
    const int status = read_record(image, commit->set, &kept);
    if (status == POET_ERROR_COMMIT || (status == POET_OK && kept.sequence != commit->sequence)) {
        return POET_ERROR_LOST;
    }
    return status;
}

/* True if events were added to the ring since. */
static int has_news(const struct poet_commit *commit)
{
#if POET_RING > 0
    return commit->ring != poet_ring_events();
#else
    (void)commit;
    return 0;
#endif
}

static void adopt(struct poet_image *image, struct poet_commit commit)
{
    commit.written = image->commit.written;
    image->commit = commit;
    open_streams(image);
#if POET_RING > 0
    poet_ring_commit(commit.ring);
    tried.is_unsure = 0;
#endif
}

#if POET_RING > 0
int poet_settle(struct poet_image *image)
{
    POET_TRY(poet_ring_settle());
    if (tried.is_unsure) {
        struct poet_commit found;
        POET_TRY(poet_storage_flush());
        const int status = read_record(image, tried.commit.set, &found);
        if (status != POET_OK && !is_damage(status)) {
            return status;
        }
        if (status == POET_OK && found.sequence == tried.commit.sequence) {
            adopt(image, tried.commit);
        }
        tried.is_unsure = 0;
    }
    return POET_OK;
}
#else
int poet_settle(struct poet_image *image)
{
    (void)image;
    return POET_OK;
}
#endif

static int are_finite(void)
{
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        const float *const values = (const float *)(const void *)(poet_arena + poet_persistents[i]);
        if (!poet_all_finite(values, poet_slots[i].bytes / sizeof *values)) {
            return 0;
        }
    }
    return 1;
}

int poet_save(struct poet_image *image, uint32_t step)
{
    POET_TRY(poet_settle(image));
    struct poet_commit commit = image->commit;
    if (step == commit.step && !has_news(&commit)) {
        return POET_OK;
    }
    if (!are_finite()) {
        return POET_ERROR_DIVERGED;
    }
    commit.set = (commit.set + 1u) % image->sets;
    commit.sequence++;
    commit.step = step;
#if POET_RING > 0
    commit.ring = poet_ring_events();
#endif
    POET_TRY(write_set(image, &commit));
    commit.written = poet_blocks_written(image) + 1u; /* including the record */
    POET_TRY(write_record(image, &commit));
    adopt(image, commit);
    return POET_OK;
}
