/* test-protobuf.c: the encoder and the compressor against the formats' own definitions.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "sampler/gzip.h"
#include "sampler/protobuf.h"
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect(const struct protobuf *b, const void *bytes, size_t length)
{
    ck_assert(!b->failed);
    ck_assert_mem_eq(b->data, bytes, length);
    ck_assert_uint_eq(b->used, length);
}

/* The examples of the encoding's documentation: field 1 = 150, field 2 = "testing", a message in
   field 3. */
START_TEST(documented_examples)
{
    struct protobuf b = {0};
    protobuf_uint(&b, 1, 150);
    expect(&b, "\x08\x96\x01", 3);
    protobuf_reset(&b);
    protobuf_bytes(&b, 2, "testing", 7);
    expect(&b, "\x12\x07testing", 9);
    protobuf_reset(&b);
    size_t begun = protobuf_begin(&b, 3);
    protobuf_uint(&b, 1, 150);
    protobuf_end(&b, begun);
    expect(&b, "\x1a\x03\x08\x96\x01", 5);
    protobuf_free(&b);
}
END_TEST

/* Zero is left out as a field, but not as a packed element. */
START_TEST(zero)
{
    struct protobuf b = {0};
    protobuf_uint(&b, 1, 0);
    ck_assert_uint_eq(b.used, 0);
    size_t begun = protobuf_begin(&b, 4);
    protobuf_varint(&b, 0);
    protobuf_varint(&b, UINT64_MAX);
    protobuf_end(&b, begun);
    expect(&b, "\x22\x0b\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
    protobuf_free(&b);
}
END_TEST

/* Bodies of 127, 128 and 16384 bytes need lengths of one, two and three bytes, nested ones too, and
   the buffer grows under them. */
START_TEST(long_bodies)
{
    static const size_t sizes[] = {127, 128, 16383, 16384, 200000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct protobuf b = {0};
        char *body = malloc(sizes[i]);
        memset(body, 'x', sizes[i]);
        size_t outer = protobuf_begin(&b, 1), inner = protobuf_begin(&b, 2);
        protobuf_raw(&b, body, sizes[i]);
        protobuf_end(&b, inner);
        protobuf_uint(&b, 3, 7);
        protobuf_end(&b, outer);
        size_t length_bytes = sizes[i] < 128 ? 1 : sizes[i] < 16384 ? 2 : 3;
        size_t outer_body = 1 + length_bytes + sizes[i] + 2;
        size_t outer_bytes = outer_body < 128 ? 1 : outer_body < 16384 ? 2 : 3;
        ck_assert_uint_eq(b.used, 1 + outer_bytes + outer_body);
        ck_assert_int_eq(b.data[0], 0x0a);
        size_t decoded = 0;
        for (size_t k = 0; k < outer_bytes; k++) decoded |= (size_t)(b.data[1 + k] & 0x7f) << 7 * k;
        ck_assert_uint_eq(decoded, outer_body);
        ck_assert_int_eq(b.data[1 + outer_bytes], 0x12);
        ck_assert_mem_eq(b.data + 2 + outer_bytes + length_bytes, body, sizes[i]);
        ck_assert_mem_eq(b.data + b.used - 2, "\x18\x07", 2);
        protobuf_free(&b);
        free(body);
    }
}
END_TEST

START_TEST(out_of_memory)
{
    struct protobuf b = {0};
    os_fail_mappings(0, 1);
    size_t begun = protobuf_begin(&b, 1);
    protobuf_uint(&b, 1, 1);
    protobuf_end(&b, begun);
    ck_assert(b.failed);
    os_fail_mappings(0, 0);
    protobuf_free(&b);
    ck_assert(!b.failed);
}
END_TEST

static int to_file(void *user, const void *bytes, size_t length)
{
    return fwrite(bytes, 1, length, user) == length ? 0 : EIO;
}

static int full(void *user, const void *bytes, size_t length)
{
    (void)user, (void)bytes, (void)length;
    return ENOSPC;
}

/* gzip itself accepts the stream and gives the text back; mixed content, pieces of all sizes. */
START_TEST(gzip_reads_it)
{
    char path[] = "/tmp/gleaner-test-XXXXXX", command[128];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *f = fdopen(fd, "w");
    size_t bytes = 700001;
    unsigned char *text = malloc(bytes), *back = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(i < bytes / 2 ? (int)(i % 7) : rand());
    struct gzip *g = gzip_start(to_file, f);
    ck_assert_ptr_nonnull(g);
    size_t at = 0;
    for (size_t piece = 1; at < bytes; piece = piece * 3 + 1) {
        size_t n = piece < bytes - at ? piece : bytes - at;
        ck_assert_int_eq(gzip_write(g, text + at, n), 0);
        at += n;
    }
    ck_assert_int_eq(gzip_end(g), 0);
    fclose(f);
    snprintf(command, sizeof command, "gzip -dc < %s", path);
    FILE *p = popen(command, "r");
    ck_assert_uint_eq(fread(back, 1, bytes + 1, p), bytes);
    ck_assert_int_eq(pclose(p), 0);
    ck_assert(memcmp(text, back, bytes) == 0);
    unlink(path);
    free(text);
    free(back);
}
END_TEST

START_TEST(gzip_empty_and_full)
{
    FILE *f = tmpfile();
    struct gzip *g = gzip_start(to_file, f);
    ck_assert_int_eq(gzip_end(g), 0);
    ck_assert_int_ge(ftell(f), 18); /* header, an empty block, sum and length */
    fclose(f);
    g = gzip_start(full, NULL);
    ck_assert_ptr_nonnull(g);
    gzip_write(g, "x", 1);
    ck_assert_int_eq(gzip_end(g), ENOSPC);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("protobuf");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, documented_examples);
    tcase_add_test(t, zero);
    tcase_add_test(t, long_bodies);
    tcase_add_test(t, out_of_memory);
    tcase_add_test(t, gzip_reads_it);
    tcase_add_test(t, gzip_empty_and_full);
    suite_add_tcase(s, t);
    return suite_run(s);
}
