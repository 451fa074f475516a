/* test-random.c: the generators against published outputs and a plain implementation.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/random.h"
#include "suite.h"

#include <check.h>
#include <stdlib.h>

/* Outputs for the seed 1234567 that circulate with ports of splitmix64. */
START_TEST(split_mix_gives_the_published_outputs)
{
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    uint64_t state = 1234567;
    for (unsigned i = 0; i < 5; i++) ck_assert_uint_eq(random_split_mix(&state), expected[i]);
}
END_TEST

/* xoshiro128+ word for word as its authors describe it, one stream. */
static uint32_t plain_next(uint32_t s[4])
{
    uint32_t result = s[0] + s[3];
    uint32_t t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 11) | (s[3] >> (32 - 11));
    return result;
}

/* Outputs from the state 1, 2, 3, 4, worked out by hand for the first three: 1 + 4 = 5; the state
   is then 7, 0, 0x402, 0x3000, whose sum of first and last is 0x3007. */
START_TEST(streams_step_as_the_reference_does)
{
    struct random_streams r;
    uint32_t s[4] = {1, 2, 3, 4}, to[RANDOM_STREAMS];
    for (unsigned k = 0; k < 4; k++)
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) r.s[k][i] = s[k];
    static const uint32_t expected[] = {5, 0x3007};
    for (unsigned n = 0; n < 1000; n++) {
        random_batch(&r, to);
        uint32_t x = plain_next(s);
        if (n < 2) ck_assert_uint_eq(x, expected[n]);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) ck_assert_uint_eq(to[i], x);
    }
}
END_TEST

START_TEST(each_stream_is_seeded_and_goes_its_own_way)
{
    struct random_streams r;
    uint32_t s[RANDOM_STREAMS][4], to[RANDOM_STREAMS];
    uint64_t state = 99;
    for (unsigned i = 0; i < RANDOM_STREAMS; i++) {
        uint64_t a = random_split_mix(&state), b = random_split_mix(&state);
        s[i][0] = (uint32_t)a;
        s[i][1] = (uint32_t)(a >> 32);
        s[i][2] = (uint32_t)b;
        s[i][3] = (uint32_t)(b >> 32);
    }
    random_seed(&r, 99);
    for (unsigned n = 0; n < 1000; n++) {
        random_batch(&r, to);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++) ck_assert_uint_eq(to[i], plain_next(s[i]));
    }
}
END_TEST

/* Every bit of the outputs is set about half the time: 64 * 4096 trials a bit have the standard
   deviation 256; 5 of them, for 32 bits, is a chance of 2e-5, and the seed is fixed. */
START_TEST(bits_are_balanced)
{
    struct random_streams r;
    uint32_t to[RANDOM_STREAMS];
    int64_t ones[32] = {0};
    random_seed(&r, 7);
    for (unsigned n = 0; n < 4096; n++) {
        random_batch(&r, to);
        for (unsigned i = 0; i < RANDOM_STREAMS; i++)
            for (unsigned b = 0; b < 32; b++) ones[b] += to[i] >> b & 1;
    }
    for (unsigned b = 0; b < 32; b++) ck_assert_int_lt(llabs(ones[b] - 64 * 2048), 5 * 256);
}
END_TEST

/* Streams do not follow each other: neighbours' outputs agree in a bit half the time. */
START_TEST(streams_are_not_correlated)
{
    struct random_streams r;
    uint32_t to[RANDOM_STREAMS];
    int64_t agree[RANDOM_STREAMS - 1] = {0};
    random_seed(&r, 8);
    for (unsigned n = 0; n < 4096; n++) {
        random_batch(&r, to);
        for (unsigned i = 0; i + 1 < RANDOM_STREAMS; i++)
            agree[i] += __builtin_popcount(~(to[i] ^ to[i + 1]));
    }
    for (unsigned i = 0; i + 1 < RANDOM_STREAMS; i++) /* deviation: sqrt(4096 * 32) / 2 = 181 */
        ck_assert_int_lt(llabs(agree[i] - 4096 * 16), 5 * 181);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("random");
    TCase *t = tcase_create("random");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, split_mix_gives_the_published_outputs);
    tcase_add_test(t, streams_step_as_the_reference_does);
    tcase_add_test(t, each_stream_is_seeded_and_goes_its_own_way);
    tcase_add_test(t, bits_are_balanced);
    tcase_add_test(t, streams_are_not_correlated);
    suite_add_tcase(s, t);
    return suite_run(s);
}
