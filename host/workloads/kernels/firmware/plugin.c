/* SPDX-License-Identifier: Apache-2.0 */
/* A TCG plugin of QEMU: instructions that are executed between two marks, and the cycles that they would take
 * on a Cortex-M4F or (argument m0=on) a Cortex-M0+. Prints "measured INSTRUCTIONS CYCLES" to standard error.
 *
 * The estimate adds up the table RULES (Arm, Cortex-M4 TRM r0p1, 3.3 and 7.2.3; Cortex-M0+ TRM r0p1, 3.3) and
 *   - on the M4F one cycle where an arithmetic instruction uses the result of the one right before it,
 *     one less for an integer load right after another integer load or store, and two for a jump taken;
 *   - on the M0+ one for a jump taken.
 * It knows no wait states of flash or RAM, no prefetching, no bus shared with DMA, and no operand that makes a
 * division shorter. Single float loads count two cycles each, though the core may overlap some: the upper end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of QEMU's plugin interface (version 1: QEMU 4.2 to 8.2), whose header Debian does not ship. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;
EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*translated)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                          void (*executed)(unsigned, void *), int flags, void *data);

#define MARK_BEGIN 0x46d20000u /* mov r10, r10 */
#define MARK_END 0x46db0000u   /* mov r11, r11 */

enum kind {
    OTHER,
    LOAD,        /* of an integer register */
    STORE,       /* of an integer register */
    LIST,        /* one more cycle per register in the list, a bit each; jumps if it loads the counter */
    WORDS,       /* one more cycle per word, whose number is in the last byte */
    ARITHMETIC,  /* of floats, with two operands */
    CONDITIONAL, /* a jump that may not be taken */
    JUMP,
};

/* Cycles of the instructions whose bits under the mask are these, the first half-word in the upper half. The
 * first rule that fits holds; where none does an instruction takes one cycle. */
static const struct rule {
    uint32_t mask;
    uint32_t bits;
    enum kind kind;
    int m4;
    int m0;
    uint32_t list;
} RULES[] = {
    /* of 16 bits */
    {0xff000000u, 0xde000000u, OTHER, 1, 1, 0},          /* UDF */
    {0xff000000u, 0xdf000000u, OTHER, 1, 1, 0},          /* SVC */
    {0xf0000000u, 0xd0000000u, CONDITIONAL, 1, 1, 0},    /* Bcc */
    {0xf8000000u, 0xe0000000u, JUMP, 1, 1, 0},           /* B */
    {0xff000000u, 0x47000000u, JUMP, 1, 1, 0},           /* BX, BLX */
    {0xf5000000u, 0xb1000000u, CONDITIONAL, 1, 1, 0},    /* CBZ, CBNZ */
    {0xf0000000u, 0xc0000000u, LIST, 1, 1, 0x00ff0000u}, /* LDM, STM */
    {0xfe000000u, 0xb4000000u, LIST, 1, 1, 0x01ff0000u}, /* PUSH */
    {0xff000000u, 0xbc000000u, LIST, 1, 1, 0x00ff0000u}, /* POP */
    {0xff000000u, 0xbd000000u, LIST, 1, 2, 0x01ff0000u}, /* POP with the program counter */
    {0xf8000000u, 0x48000000u, LOAD, 2, 2, 0},           /* LDR literal */
    {0xfc000000u, 0x50000000u, STORE, 1, 2, 0},          /* STR, STRH with a register */
    {0xfe000000u, 0x54000000u, STORE, 1, 2, 0},          /* STRB with a register */
    {0xf0000000u, 0x50000000u, LOAD, 2, 2, 0},           /* the rest of these */
    {0xe8000000u, 0x60000000u, STORE, 1, 2, 0},          /* STR, STRB */
    {0xe8000000u, 0x68000000u, LOAD, 2, 2, 0},           /* LDR, LDRB */
    {0xe8000000u, 0x80000000u, STORE, 1, 2, 0},          /* STRH, STR on the stack */
    {0xe8000000u, 0x88000000u, LOAD, 2, 2, 0},           /* LDRH, LDR on the stack */
    /* floats */
    {0xff200f00u, 0xed000b00u, OTHER, 3, 0, 0},       /* VLDR, VSTR of two registers */
    {0xff200e00u, 0xed000a00u, OTHER, 2, 0, 0},       /* VLDR, VSTR */
    {0xffe00e00u, 0xec400a00u, OTHER, 2, 0, 0},       /* VMOV of two registers */
    {0xfe000e00u, 0xec000a00u, WORDS, 1, 0, 0},       /* VLDM, VSTM, VPUSH, VPOP */
    {0xfff00e10u, 0xeef00a10u, OTHER, 1, 0, 0},       /* VMRS */
    {0xff000e10u, 0xee000a10u, OTHER, 2, 0, 0},       /* VMOV to and from a core register */
    {0xffb00e10u, 0xee200a00u, ARITHMETIC, 1, 0, 0},  /* VMUL, VNMUL */
    {0xffb00e10u, 0xee300a00u, ARITHMETIC, 1, 0, 0},  /* VADD, VSUB */
    {0xffb00e10u, 0xee800a00u, ARITHMETIC, 14, 0, 0}, /* VDIV */
    {0xffbf0ed0u, 0xeeb10ac0u, ARITHMETIC, 14, 0, 0}, /* VSQRT */
    {0xffb00e10u, 0xeeb00a00u, ARITHMETIC, 1, 0, 0},  /* VMOV, VABS, VNEG, VCMP, VCVT */
    {0xff000e10u, 0xee000a00u, ARITHMETIC, 3, 0, 0},  /* VMLA, VMLS, VFMA, ... */
    /* of 32 bits */
    {0xfe500000u, 0xe8100000u, LIST, 1, 0, 0x0000ffffu}, /* LDM, POP */
    {0xfe500000u, 0xe8000000u, LIST, 1, 0, 0x0000ffffu}, /* STM, PUSH */
    {0xfe400000u, 0xe8400000u, OTHER, 3, 0, 0},          /* LDRD, STRD */
    {0xfe100000u, 0xf8100000u, LOAD, 2, 0, 0},           /* LDR and its kin */
    {0xff100000u, 0xf8000000u, STORE, 1, 0, 0},          /* STR and its kin */
    {0xffd000f0u, 0xfb9000f0u, OTHER, 12, 0, 0},         /* SDIV, UDIV at the longest */
    {0xf800d000u, 0xf000d000u, JUMP, 1, 2, 0},           /* BL */
    {0xf800d000u, 0xf0009000u, JUMP, 1, 1, 0},           /* B.W */
    {0xfb80d000u, 0xf3808000u, OTHER, 2, 3, 0},          /* MSR, MRS, barriers, hints */
    {0xf800d000u, 0xf0008000u, CONDITIONAL, 1, 1, 0},    /* Bcc.W */
};

static const struct rule PLAIN = {0, 0, OTHER, 1, 1, 0};

/* A straight run of instructions: what each execution adds. */
struct block {
    uint64_t begin;
    uint64_t end; /* where it goes on without a jump */
    uint64_t instructions;
    uint64_t cycles;
    uint32_t mark;
    int conditional; /* whether it ends in a jump that may not be taken */
};

static struct {
    uint64_t instructions;
    uint64_t cycles;
    int running;
    int m0;
    const struct block *previous;
} counters;

static const struct rule *rule_of(uint32_t code)
{
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        if ((code & RULES[i].mask) == RULES[i].bits) {
            return &RULES[i];
        }
    }
    return &PLAIN;
}

/* The number of a float register: four bits at `at` and a lowest one at `low`. */
static uint32_t float_register(uint32_t code, int at, int low)
{
    return (code >> at & 15u) << 1 | (code >> low & 1u);
}

static int uses_result(uint32_t code, uint32_t previous)
{
    const uint32_t result = float_register(previous, 12, 22);
    const int one_operand = (code & 0xffb00e10u) == 0xeeb00a00u;
    return float_register(code, 0, 5) == result ||
           (!one_operand && float_register(code, 16, 7) == result);
}

static uint64_t cycles_of(const struct rule *rule, uint32_t code, const struct rule *before,
                          uint32_t code_before)
{
    const uint64_t jump = counters.m0 ? 1 : 2;
    uint64_t cycles = (uint64_t)(counters.m0 ? rule->m0 : rule->m4);
    switch (rule->kind) {
    case LIST:
        cycles += (uint64_t)__builtin_popcount(code & rule->list);
        /* POP and LDM that load the program counter */
        cycles += (code & 0xff000000u) == 0xbd000000u ||
                          ((code & 0xfe500000u) == 0xe8100000u && (code & 0x8000u) != 0u)
                      ? jump
                      : 0u;
        break;
    case WORDS:
        cycles += code & 0xffu;
        break;
    case JUMP:
        cycles += jump;
        break;
    case LOAD:
        cycles -= !counters.m0 && (before->kind == LOAD || before->kind == STORE);
        break;
    case ARITHMETIC:
        cycles += before->kind == ARITHMETIC && uses_result(code, code_before);
        break;
    default:
        break;
    }
    return cycles;
}

static void executed(unsigned core, void *data)
{
    (void)core;
    const struct block *block = data;
    if (block->mark == MARK_END && counters.running) {
        fprintf(stderr, "measured %llu %llu\n", (unsigned long long)counters.instructions,
                (unsigned long long)counters.cycles);
        counters.running = 0;
    }
    if (block->mark == MARK_BEGIN) {
        counters.instructions = 0;
        counters.cycles = 0;
        counters.running = 1;
    }
    const struct block *previous = counters.previous;
    if (previous != NULL && previous->conditional && block->begin != previous->end) {
        counters.cycles += counters.m0 ? 1 : 2;
    }
    counters.instructions += block->instructions;
    counters.cycles += block->cycles;
    counters.previous = block;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    struct block *block = calloc(1, sizeof *block); /* for as long as QEMU runs */
    if (block == NULL) {
        abort();
    }
    const struct rule *before = &PLAIN;
    uint32_t code_before = 0;
    block->begin = block->end = qemu_plugin_tb_vaddr(tb);
    block->instructions = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < block->instructions; i++) {
        const struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        const size_t size = qemu_plugin_insn_size(instruction);
        uint16_t halves[2] = {0, 0};
        memcpy(halves, qemu_plugin_insn_data(instruction), size);
        const uint32_t code = (uint32_t)halves[0] << 16 | halves[1];
        const struct rule *rule = rule_of(code);
        block->cycles += cycles_of(rule, code, before, code_before);
        block->conditional = rule->kind == CONDITIONAL;
        block->end += size;
        if (i == 0 && (code == MARK_BEGIN || code == MARK_END)) {
            block->mark = code;
        }
        before = rule;
        code_before = code;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        counters.m0 |= strcmp(argv[i], "m0=on") == 0;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
