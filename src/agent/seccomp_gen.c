/* Build-time program: compiles seccomp_policy.h into a classic BPF program and prints it as a C array.
 * libseccomp is asked for the call numbers only; the code is a binary search over them, which keeps it short,
 * lets the kernel precompute the calls that are always allowed, and compares exactly the bits that the policy
 * names. */
#include "agent/seccomp_policy.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLICY_LINES (sizeof policy / sizeof *policy)
/* Little-endian machines. */
#define ARGUMENT_HALF(n, high) (offsetof(struct seccomp_data, args) + 8u * (unsigned)(n) + ((high) ? 4u : 0u))

#if defined(__x86_64__)
#define AUDIT_ARCH_NATIVE AUDIT_ARCH_X86_64
#define FIRST_FOREIGN_CALL 0x40000000 /* x32 */
#elif defined(__aarch64__)
#define AUDIT_ARCH_NATIVE AUDIT_ARCH_AARCH64
#else
#error "teach seccomp_gen.c this architecture"
#endif

struct call {
    int number;
    const char *name;
};

static struct sock_filter code[BPF_MAXINSNS];
static unsigned code_len;
static struct call calls[POLICY_LINES];
static unsigned call_count;

/* Neighbouring call numbers with the same fate. */
struct span {
    int first;
    int action; /* an errno or POLICY_ALLOW; -1: see `call` */
    const struct call *call;
};
#define MAX_SPANS (2 * POLICY_LINES + 1)
static struct span spans[MAX_SPANS];
static unsigned span_count;

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "seccomp_gen: %s: %s\n", what, name);
    exit(1);
}

static unsigned emit(unsigned op, unsigned jump_true, unsigned jump_false, uint32_t k)
{
    if (code_len == BPF_MAXINSNS)
        fail("the program is too long", "");
    if (jump_true > 255 || jump_false > 255)
        fail("a jump is too far", "");
    code[code_len] = (struct sock_filter){(uint16_t)op, (uint8_t)jump_true, (uint8_t)jump_false, k};
    return code_len++;
}

static void emit_return(int error)
{
    uint32_t action = error ? SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA) : SECCOMP_RET_ALLOW;
    emit(BPF_RET | BPF_K, 0, 0, action);
}

/* One line: each condition that fails jumps behind the line's return. */
static void emit_line(const struct policy_line *line)
{
    unsigned holes[POLICY_MAX_WHEN], hole_count = 0;
    for (int i = 0; i < POLICY_MAX_WHEN && line->when[i].mask; i++) {
        const struct policy_condition *c = &line->when[i];
        emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)ARGUMENT_HALF(c->argument, c->high));
        if (c->mask != 0xffffffffu)
            emit(BPF_ALU | BPF_AND | BPF_K, 0, 0, c->mask);
        holes[hole_count++] = emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, c->value);
    }
    emit_return(line->error);
    for (unsigned i = 0; i < hole_count; i++)
        code[holes[i]].jf = (uint8_t)(code_len - holes[i] - 1);
}

static void emit_call(const struct call *c)
{
    for (unsigned i = 0; i < POLICY_LINES; i++) {
        if (strcmp(policy[i].call, c->name) != 0)
            continue;
        emit_line(&policy[i]);
        if (!policy[i].when[0].mask)
            return; /* unconditional: decided */
    }
    emit_return(ENOSYS);
}

/* The error (or POLICY_ALLOW) of a call that has one unconditional line; -1 when its arguments matter. */
static int plain_action(const struct call *c)
{
    for (unsigned i = 0; i < POLICY_LINES; i++)
        if (strcmp(policy[i].call, c->name) == 0)
            return policy[i].when[0].mask ? -1 : policy[i].error;
    return -1;
}

static void add_span(int first, int action, const struct call *call)
{
    if (span_count > 0 && action >= 0 && spans[span_count - 1].action == action)
        return; /* goes on as before */
    if (span_count == MAX_SPANS)
        fail("too many spans", "");
    spans[span_count++] = (struct span){first, action, call};
}

static void make_spans(void)
{
    int next = 0;
    for (unsigned i = 0; i < call_count; i++) {
        if (calls[i].number > next)
            add_span(next, ENOSYS, NULL);
        add_span(calls[i].number, plain_action(&calls[i]), &calls[i]);
        next = calls[i].number + 1;
    }
    add_span(next, ENOSYS, NULL);
}

/* Binary search for the call number (in the accumulator) among spans[first, first + count). */
static void emit_search(unsigned first, unsigned count)
{
    if (count == 1) {
        if (spans[first].action >= 0)
            emit_return(spans[first].action);
        else
            emit_call(spans[first].call);
        return;
    }
    unsigned half = count / 2;
    /* number >= the middle one: the jump that follows leads behind the lower half */
    emit(BPF_JMP | BPF_JGE | BPF_K, 0, 1, (uint32_t)spans[first + half].first);
    unsigned far = emit(BPF_JMP | BPF_JA, 0, 0, 0);
    emit_search(first, half);
    code[far].k = code_len - far - 1;
    emit_search(first + half, count - half);
}

static int by_number(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void collect_calls(void)
{
    for (unsigned i = 0; i < POLICY_LINES; i++) {
        int number = seccomp_syscall_resolve_name(policy[i].call);
        if (number < 0) /* of another architecture, or newer than libseccomp: ENOSYS then */
            continue;
        bool known = false;
        for (unsigned j = 0; j < call_count; j++)
            known |= calls[j].number == number;
        if (!known)
            calls[call_count++] = (struct call){number, policy[i].call};
    }
    qsort(calls, call_count, sizeof *calls, by_number);
}

int main(void)
{
    collect_calls();
    if (call_count < 200)
        fail("libseccomp knows too few of the calls", "");
    emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_NATIVE);
    emit_return(ENOSYS); /* the 32-bit entry has other numbers */
    emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
#ifdef FIRST_FOREIGN_CALL
    emit(BPF_JMP | BPF_JGE | BPF_K, 0, 1, FIRST_FOREIGN_CALL);
    emit_return(ENOSYS);
#endif
    make_spans();
    emit_search(0, span_count);
    printf("/* Generated by seccomp_gen from seccomp_policy.h: %u calls. */\n#include <linux/filter.h>\n\n"
           "static const struct sock_filter seccomp_filter[] = {\n",
           call_count);
    for (unsigned i = 0; i < code_len; i++)
        printf("    {0x%02x, %u, %u, 0x%08x},\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
    printf("};\n");
    return 0;
}
