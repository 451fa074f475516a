/* cfi.c: finds the frame description of an address by the binary search table in .eh_frame_hdr and
   runs its call frame instructions up to that address, for the three columns that a stack walk
   needs: the frame address, the return address and the frame pointer.

   Formats: Linux Standard Base, core generic, "Exception Frames"; DWARF 5 section 6.4; the AArch64
   DWARF ABI for the return address signing instruction.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/cfi.h"

#if defined(__x86_64__)
enum { COLUMN_FP = 6, COLUMN_SP = 7, COLUMN_RA = 16 };
#elif defined(__aarch64__)
enum { COLUMN_FP = 29, COLUMN_SP = 31, COLUMN_RA = 30 };
#endif

enum {
    ENC_OMIT = 0xff,
    ENC_UDATA4 = 0x03,
    ENC_TABLE = 0x3b /* relative to the table, signed 4 bytes */
};

struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static uint64_t take(struct reader *r, unsigned bytes)
{
    uint64_t v = 0;
    if ((size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        r->at = r->end;
        return 0;
    }
    __builtin_memcpy(&v, r->at, bytes); /* both machines are little-endian */
    r->at += bytes;
    return v;
}

static uint64_t take_uleb(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = (uint8_t)take(r, 1);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return v;
    }
    r->bad = true;
    return 0;
}

static int64_t take_sleb(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint8_t b = (uint8_t)take(r, 1);
        v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
        if (!(b & 0x80)) {
            if ((b & 0x40) && shift < 64) v |= ~(uint64_t)0 << shift;
            return (int64_t)v;
        }
    }
    r->bad = true;
    return 0;
}

/* A pointer in one of the encodings that compilers emit for .eh_frame; others set `bad`. */
static uintptr_t take_encoded(struct reader *r, uint8_t encoding, uintptr_t data_base)
{
    uintptr_t base = 0, v;
    switch (encoding & 0x70) {
    case 0x00:
        break;
    case 0x10:
        base = (uintptr_t)r->at;
        break;
    case 0x30:
        base = data_base;
        break;
    default:
        r->bad = true;
        return 0;
    }
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        v = (uintptr_t)take(r, 8);
        break;
    case 0x01:
        v = (uintptr_t)take_uleb(r);
        break;
    case 0x02:
        v = (uintptr_t)take(r, 2);
        break;
    case 0x03:
        v = (uintptr_t)take(r, 4);
        break;
    case 0x09:
        v = (uintptr_t)take_sleb(r);
        break;
    case 0x0a:
        v = (uintptr_t)(intptr_t)(int16_t)take(r, 2);
        break;
    case 0x0b:
        v = (uintptr_t)(intptr_t)(int32_t)take(r, 4);
        break;
    default:
        r->bad = true;
        return 0;
    }
    return v == 0 && !(encoding & 0x70) ? 0 : base + v;
}

struct frame_info {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_column;
    uint8_t pointer_encoding;
    bool augmented, signal;
    struct reader initial; /* the common instructions */
    uintptr_t start, length;
    struct reader program;
};

/* The bounds of one entry: its 32-bit length, or the 64-bit form. */
static struct reader entry_at(const uint8_t *p)
{
    struct reader r = {p, p + 12, false};
    uint64_t length = take(&r, 4);
    if (length == 0xffffffff) length = take(&r, 8);
    r.end = r.at + length;
    if (length == 0 || length > 64 * MIB) r.bad = true;
    return r;
}

static bool read_common(const uint8_t *p, struct frame_info *f)
{
    struct reader r = entry_at(p);
    if (r.bad || take(&r, 4) != 0) return false;
    uint8_t version = (uint8_t)take(&r, 1);
    if (version != 1 && version != 3) return false;
    const char *augmentation = (const char *)r.at;
    while (take(&r, 1) != 0 && !r.bad) {
    }
    f->code_align = take_uleb(&r);
    f->data_align = take_sleb(&r);
    f->ra_column = version == 1 ? take(&r, 1) : take_uleb(&r);
    f->pointer_encoding = 0;
    f->signal = false;
    f->augmented = augmentation[0] == 'z';
    if (f->augmented) {
        uint64_t bytes = take_uleb(&r);
        if (r.bad || bytes > (size_t)(r.end - r.at)) return false;
        const uint8_t *after = r.at + bytes;
        for (const char *a = augmentation + 1; *a; a++) {
            switch (*a) {
            case 'R':
                f->pointer_encoding = (uint8_t)take(&r, 1);
                break;
            case 'L':
                take(&r, 1);
                break;
            case 'P': {
                uint8_t encoding = (uint8_t)take(&r, 1);
                take_encoded(&r, encoding & 0x7f, 0);
                break;
            }
            case 'S':
                f->signal = true;
                break;
            case 'B':
                break; /* aarch64: signed with the second key */
            default:
                return false;
            }
        }
        r.at = after;
    } else if (augmentation[0] != 0) {
        return false;
    }
    f->initial = r;
    return !r.bad && f->ra_column == COLUMN_RA;
}

static bool read_description(const uint8_t *p, struct frame_info *f)
{
    struct reader r = entry_at(p);
    if (r.bad) return false;
    const uint8_t *here = r.at;
    uint64_t back = take(&r, 4);
    if (back == 0 || !read_common(here - back, f)) return false;
    f->start = take_encoded(&r, f->pointer_encoding, 0);
    f->length = take_encoded(&r, f->pointer_encoding & 0x0f, 0);
    if (f->augmented) {
        uint64_t bytes = take_uleb(&r);
        if (r.bad || bytes > (size_t)(r.end - r.at)) return false;
        r.at += bytes;
    }
    f->program = r;
    return !r.bad;
}

/* The last entry of the sorted table that does not start after `pc`. */
static const uint8_t *search(const uint8_t *header, uintptr_t pc)
{
    struct reader r = {header, header + 32, false};
    if (take(&r, 1) != 1) return NULL;
    uint8_t frame_encoding = (uint8_t)take(&r, 1), count_encoding = (uint8_t)take(&r, 1),
            table_encoding = (uint8_t)take(&r, 1);
    if (frame_encoding == ENC_OMIT || table_encoding != ENC_TABLE || count_encoding != ENC_UDATA4)
        return NULL;
    take_encoded(&r, frame_encoding, (uintptr_t)header);
    size_t count = take(&r, 4);
    if (r.bad || count == 0) return NULL;
    const int32_t(*table)[2] = (const int32_t(*)[2])r.at;
    intptr_t relative = (intptr_t)(pc - (uintptr_t)header);
    if (relative < table[0][0]) return NULL;
    size_t low = 0, high = count; /* table[low] <= relative < table[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (table[middle][0] <= relative)
            low = middle;
        else
            high = middle;
    }
    return header + table[low][1];
}

enum how { SAME, UNDEFINED, AT_CFA, AT_FP, OTHER };

struct row {
    enum { CFA_SP, CFA_FP, CFA_LOAD, CFA_OTHER } cfa;
    int64_t cfa_offset;
    enum how ra, fp;
    int64_t ra_offset, fp_offset;
};

static void set(struct row *row, uint64_t column, enum how how, int64_t offset)
{
    if (column == COLUMN_RA)
        row->ra = how, row->ra_offset = offset;
    else if (column == COLUMN_FP)
        row->fp = how, row->fp_offset = offset;
}

/* The two expressions that gcc and clang emit for functions that align their stack: "*(fp + n)" for
   the frame address and "fp + n" for a saved register. */
static bool fp_expression(struct reader e, bool load, int64_t *offset)
{
    if (take(&e, 1) != 0x70 + COLUMN_FP) return false; /* DW_OP_breg */
    *offset = take_sleb(&e);
    if (load && take(&e, 1) != 0x06) return false; /* DW_OP_deref */
    return !e.bad && e.at == e.end;
}

static struct reader take_block(struct reader *r)
{
    uint64_t bytes = take_uleb(r);
    struct reader block = *r;
    if (r->bad || bytes > (size_t)(r->end - r->at)) {
        r->bad = true;
        block.end = block.at;
        return block;
    }
    block.end = r->at += bytes;
    return block;
}

#define REMEMBERED 8

/* Runs instructions while the location is not past `pc`.  False: a broken or unknown program. */
static bool run(struct reader r, const struct frame_info *f, uintptr_t pc, uintptr_t *location,
                struct row *row, const struct row *first)
{
    struct row saved[REMEMBERED];
    unsigned depth = 0;
    while (r.at < r.end && !r.bad) {
        uint8_t op = (uint8_t)take(&r, 1);
        uint64_t low = op & 0x3f, column;
        int64_t offset;
        struct reader block;
        uintptr_t advance = 0;
        switch (op & 0xc0) {
        case 0x40:
            advance = low * f->code_align;
            goto move;
        case 0x80:
            set(row, low, AT_CFA, (int64_t)take_uleb(&r) * f->data_align);
            continue;
        case 0xc0:
            goto restore;
        }
        switch (op) {
        case 0x00:
            continue; /* DW_CFA_nop */
        case 0x01:    /* set_loc */
            advance = take_encoded(&r, f->pointer_encoding, 0) - *location;
            goto move;
        case 0x02:
            advance = take(&r, 1) * f->code_align;
            goto move;
        case 0x03:
            advance = take(&r, 2) * f->code_align;
            goto move;
        case 0x04:
            advance = take(&r, 4) * f->code_align;
            goto move;
        case 0x05: /* offset_extended */
            column = take_uleb(&r);
            set(row, column, AT_CFA, (int64_t)take_uleb(&r) * f->data_align);
            continue;
        case 0x06:
            low = take_uleb(&r);
            goto restore;
        case 0x07:
            set(row, take_uleb(&r), UNDEFINED, 0);
            continue;
        case 0x08:
            set(row, take_uleb(&r), SAME, 0);
            continue;
        case 0x09: /* register */
            column = take_uleb(&r);
            take_uleb(&r);
            set(row, column, OTHER, 0);
            continue;
        case 0x0a: /* remember_state */
            if (depth == REMEMBERED) return false;
            saved[depth++] = *row;
            continue;
        case 0x0b: /* restore_state */
            if (depth == 0) return false;
            *row = saved[--depth];
            continue;
        case 0x0c: /* def_cfa */
        case 0x12: /* def_cfa_sf */
            column = take_uleb(&r);
            row->cfa_offset = op == 0x0c ? (int64_t)take_uleb(&r) : take_sleb(&r) * f->data_align;
            row->cfa = column == COLUMN_SP ? CFA_SP : column == COLUMN_FP ? CFA_FP : CFA_OTHER;
            continue;
        case 0x0d: /* def_cfa_register */
            column = take_uleb(&r);
            row->cfa = column == COLUMN_SP ? CFA_SP : column == COLUMN_FP ? CFA_FP : CFA_OTHER;
            continue;
        case 0x0e:
            row->cfa_offset = (int64_t)take_uleb(&r);
            continue;
        case 0x13:
            row->cfa_offset = take_sleb(&r) * f->data_align;
            continue;
        case 0x0f: /* def_cfa_expression */
            block = take_block(&r);
            row->cfa = fp_expression(block, true, &row->cfa_offset) ? CFA_LOAD : CFA_OTHER;
            continue;
        case 0x10: /* expression */
            column = take_uleb(&r);
            block = take_block(&r);
            if (fp_expression(block, false, &offset))
                set(row, column, AT_FP, offset);
            else
                set(row, column, OTHER, 0);
            continue;
        case 0x11: /* offset_extended_sf */
            column = take_uleb(&r);
            set(row, column, AT_CFA, take_sleb(&r) * f->data_align);
            continue;
        case 0x14: /* val_offset */
            column = take_uleb(&r);
            take_uleb(&r);
            set(row, column, OTHER, 0);
            continue;
        case 0x15: /* val_offset_sf */
            column = take_uleb(&r);
            take_sleb(&r);
            set(row, column, OTHER, 0);
            continue;
        case 0x16: /* val_expression */
            column = take_uleb(&r);
            take_block(&r);
            set(row, column, OTHER, 0);
            continue;
        case 0x2d:
            continue; /* aarch64 negate_ra_state: the walker strips addresses */
        case 0x2e:
            take_uleb(&r);
            continue; /* GNU_args_size */
        case 0x2f:    /* GNU_negative_offset_extended */
            column = take_uleb(&r);
            set(row, column, AT_CFA, -(int64_t)take_uleb(&r) * f->data_align);
            continue;
        default:
            return false;
        }
    restore:
        if (low == COLUMN_RA) row->ra = first->ra, row->ra_offset = first->ra_offset;
        if (low == COLUMN_FP) row->fp = first->fp, row->fp_offset = first->fp_offset;
        continue;
    move:
        if (r.bad || pc - *location < advance) return !r.bad;
        *location += advance;
    }
    return !r.bad;
}

static bool fits(int64_t v, int64_t limit)
{
    return v % 8 == 0 && v > -limit && v < limit;
}

struct cfi_rule cfi_find(const void *eh_frame_hdr, uintptr_t pc)
{
    struct cfi_rule rule = {.kind = CFI_UNKNOWN};
    struct frame_info f;
    if (!eh_frame_hdr) return rule;
    const uint8_t *entry = search(eh_frame_hdr, pc);
    if (!entry) return rule;
    rule.kind = CFI_COMPLEX;
    if (!read_description(entry, &f)) return rule;
    if (pc - f.start >= f.length) {
        rule.kind = CFI_UNKNOWN;
        return rule;
    }
    if (f.signal) {
        rule.kind = CFI_SIGNAL;
        return rule;
    }
    struct row row = {.cfa = CFA_OTHER}, first;
    uintptr_t location = 0;
    if (!run(f.initial, &f, 0, &location, &row, &row)) return rule;
    first = row;
    location = f.start;
    if (!run(f.program, &f, pc, &location, &row, &first)) return rule;
    if (row.ra == UNDEFINED) {
        rule.kind = CFI_OUTERMOST;
        return rule;
    }
    if (row.cfa == CFA_OTHER || row.ra == AT_FP || row.ra == OTHER || row.fp == OTHER) return rule;
    rule.cfa_load = row.cfa == CFA_LOAD;
    /* With an aligned stack the saved fp must be the one that fp points to, else it is unknown. */
    if (rule.cfa_load != (row.fp == AT_FP) || (row.fp == AT_FP && row.fp_offset != 0)) return rule;
    rule.cfa_fp = row.cfa != CFA_SP;
    rule.cfa_offset = (int32_t)row.cfa_offset;
    rule.ra_slot = row.ra == AT_CFA ? (int32_t)row.ra_offset : 0;
    rule.fp_slot = row.fp == AT_CFA ? (int32_t)row.fp_offset : 0;
    if (!fits(row.cfa_offset, (int64_t)32 * MIB) || !fits(rule.ra_slot, 256 * KIB) ||
        !fits(rule.fp_slot, 256 * KIB) || (row.ra == AT_CFA && row.ra_offset == 0) ||
        (row.fp == AT_CFA && row.fp_offset == 0))
        return rule;
    rule.kind = CFI_PLAIN;
    return rule;
}
