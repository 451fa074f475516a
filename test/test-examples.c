/* test-examples.c: the examples under Gleaner: in the growth between two profiles of the running
   program the function that its comment names stands on top, and the cache holds what grows.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "command.h"
#include "suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS 4000

struct service {
    pid_t pid;
    FILE *to, *from;
};

static struct service start(const char *program, const char *sample)
{
    int in[2], out[2];
    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(out), 0);
    struct service s = {.pid = fork()};
    if (s.pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execl(gleaner(), gleaner(), "run", "-s", sample, "-c", "seed:3", "-o",
              in_folder("end.pb.gz"), program, NULL);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    s.to = fdopen(in[1], "w");
    s.from = fdopen(out[0], "r");
    return s;
}

/* One request at a time: when its answer is there, the service has done its work. */
static void ask(struct service *s, const char *request)
{
    char answer[512];
    fputs(request, s->to);
    fflush(s->to);
    ck_assert_msg(fgets(answer, sizeof answer, s->from), "no answer to %s", request);
}

static void dump(struct service *s, const char *file)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)s->pid);
    struct ran ran = run_program((const char *[]){gleaner(), "dump", number, "-o", file, NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ran_free(&ran);
}

static void end(struct service *s)
{
    int status;
    fclose(s->to);
    fclose(s->from);
    ck_assert_int_eq(waitpid(s->pid, &status, 0), s->pid);
    ck_assert_int_eq(status, 0);
}

static void leaky_request(char *to, size_t bytes, int i)
{
    if (i % 3 == 0)
        snprintf(to, bytes, "PUT /big/%d 100000\n", i); /* refused, and forgotten */
    else
        snprintf(to, bytes, "GET /page/%d\n", i);
}

static void cache_request(char *to, size_t bytes, int i)
{
    snprintf(to, bytes, "%d\n", 1000 + i);
}

#define REFUSED 40000 /* of 16 KiB each, five times what the service may have */

/* Requests until it dies, or all are served; how many were. */
static int until_it_ends(struct service *s)
{
    char answer[64];
    int served = 0;
    signal(SIGPIPE, SIG_IGN);
    for (; served < REFUSED; served++) {
        fputs("POST /\n", s->to);
        if (fflush(s->to) != 0 || !fgets(answer, sizeof answer, s->from)) break;
    }
    return served;
}

static struct service start_limited(const char *reclaim, const char *conf)
{
    int in[2], out[2];
    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(out), 0);
    struct service s = {.pid = fork()};
    if (s.pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execl(gleaner(), gleaner(), "run", reclaim, "-c", conf, "-o", in_folder("limited.pb.gz"), getenv("GLEANER_LIMITED"), NULL);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    s.to = fdopen(in[1], "w");
    s.from = fdopen(out[0], "r");
    return s;
}

/* It dies of its leak, and lives with reclaim; the report says how much came back, and whose it was. */
START_TEST(a_leak_and_a_limit)
{
    int status;
    struct service s = start_limited("-sall", "collect:off");
    int served = until_it_ends(&s);
    ck_assert_int_lt(served, 128 * 1024 / 16);
    fclose(s.to);
    fclose(s.from);
    ck_assert_int_eq(waitpid(s.pid, &status, 0), s.pid);
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    s = start_limited("--reclaim", "reclaim_delay:0");
    served = until_it_ends(&s);
    ck_assert_int_eq(served, REFUSED);
    end(&s);
    struct ran ran = run_program((const char *[]){gleaner(), "report", "--show", "lost", in_folder("limited.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    double bytes = 0;
    const char *line = strstr(ran.out, "    reclaimed: ");
    ck_assert_msg(line && sscanf(line, "    reclaimed: %lf bytes", &bytes) == 1, "%s", ran.out);
    ck_assert_double_gt(bytes, 0.8 * REFUSED * 16000); /* the last are in quarantine, or not yet looked for */
    const char *of = strstr(ran.out, "\nReclaimed: ");
    ck_assert_ptr_nonnull(of);
    expect_part(of, " in parse_request ");
    expect_part(ran.out, "vetoes: 0\n");
    ran_free(&ran);
}
END_TEST

static const struct {
    const char *variable;
    void (*request)(char *, size_t, int);
    const char *top;    /* must be in the first stack that grew */
    const char *sample; /* every block, and few of them */
} examples[] = {
    {"GLEANER_LEAKY", leaky_request, " in parse_request ", "all"},
    {"GLEANER_LEAKY", leaky_request, " in parse_request ", "16K"},
    {"GLEANER_CACHE", cache_request, " in compute_answer ", "all"},
    {"GLEANER_CACHE", cache_request, " in compute_answer ", "16K"},
};

START_TEST(top_of_the_growth)
{
    struct service s = start(getenv(examples[_i].variable), examples[_i].sample);
    char request[128];
    for (int i = 0; i < 2 * REQUESTS; i++) {
        if (i == 100) dump(&s, in_folder("1.pb.gz")); /* past the start */
        examples[_i].request(request, sizeof request, i);
        ask(&s, request);
    }
    dump(&s, in_folder("2.pb.gz"));
    end(&s);
    struct ran ran = run_program((const char *[]){gleaner(), "diff", "--top", "1",
                                                  in_folder("1.pb.gz"), in_folder("2.pb.gz"), NULL});
    ck_assert_int_eq(ran.status, 0);
    char *grew = strstr(ran.out, "\nGrew: ");
    ck_assert_msg(grew, "%s", ran.out);
    char *second_frame = strstr(grew, "\n    #1 ");
    ck_assert_msg(second_frame, "%s", ran.out);
    char *next = strchr(second_frame + 1, '\n');
    if (next) *next = 0; /* the allocation's own function, or its caller */
    expect_part(grew, examples[_i].top);
    ran_free(&ran);
}
END_TEST

/* The verdict that `report PID --show survival` gives the stack whose innermost function this is. */
static void expect_verdict(const char *table, const char *function, const char *verdict)
{
    char place[64], row[32];
    snprintf(place, sizeof place, "\n      %s ", function);
    snprintf(row, sizeof row, "\n%s ", verdict);
    const char *at = strstr(table, place);
    ck_assert_msg(at, "no %s in %s", function, table);
    while (at > table && at[-1] != '\n') at--;
    ck_assert_msg(at > table && !strncmp(at - 1, row, strlen(row)), "%s is not %s in %s", function, verdict, table);
}

/* Cache or leak?  Asked of the running service. */
START_TEST(cache_or_leak)
{
    static const struct {
        int example;
        const char *function, *verdict;
    } answers[] = {{0, "parse_request", "lost"}, {1, "parse_request", "lost"},
                   {2, "compute_answer", "growing"}, {3, "compute_answer", "growing"}};
    int i = answers[_i].example;
    struct service s = start(getenv(examples[i].variable), examples[i].sample);
    char request[128], number[16];
    for (int n = 0; n < 2 * REQUESTS; n++) {
        examples[i].request(request, sizeof request, n);
        ask(&s, request);
    }
    snprintf(number, sizeof number, "%d", (int)s.pid);
    struct ran ran = run_program((const char *[]){gleaner(), "report", number, "--show", "survival", "--top", "0", NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    expect_verdict(ran.out, answers[_i].function, answers[_i].verdict);
    expect_no_part(ran.out, "no collection yet");
    ran_free(&ran);
    end(&s);
}
END_TEST

/* The cache's answers are held by its table, and by nothing else. */
START_TEST(holder_of_the_cache)
{
    struct service s = start(getenv("GLEANER_CACHE"), "all");
    char request[128], number[16];
    for (int i = 0; i < REQUESTS; i++) {
        cache_request(request, sizeof request, i);
        ask(&s, request);
    }
    snprintf(number, sizeof number, "%d", (int)s.pid);
    struct ran ran = run_program((const char *[]){gleaner(), "report", "--holders", "compute_answer", number, NULL});
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    expect_part(ran.out, "\n64 of 64 held by variable `cache` in growing-cache at +");
    expect_part(ran.out, ", and by nothing else\n    -> 1 to ");
    expect_part(ran.out, " in add_to_cache ");
    ran_free(&ran);
    end(&s);
}
END_TEST

/* Runs an example on the lines of a shell command's output, sampling off. */
static struct ran example_on(const char *lines, const char *variable)
{
    char command[1024];
    snprintf(command, sizeof command, "(%s) | %s run -s 0 -o %s -c collect:report -- %s", lines, gleaner(), in_folder("e.pb.gz"),
             getenv(variable));
    struct ran ran = run_program((const char *[]){"sh", "-c", command, NULL});
    ck_assert_msg(ran.status == 0, "%s%s", ran.out, ran.err);
    return ran;
}

/* Of the blocks that a tracker sees the sessions die old, and nothing else. */
START_TEST(deaths_of_old_blocks)
{
    struct ran ran = example_on("echo open a; seq 250; echo open b; echo close b; echo close a; seq 250", "GLEANER_OLD_DEATHS");
    const char *death = strstr(ran.out, "an old block");
    ck_assert_msg(death != NULL, "%s", ran.out);
    expect_part(death, " died after ");
    expect_part(death, " allocated in open_session+");
    ck_assert_ptr_null(strstr(death + 1, "an old block")); /* b died young, and so did all answers */
    ran_free(&ran);
}
END_TEST

/* 3000 nodes of 64 bytes are held: 192000 bytes, of whose words one in twenty was sampled (deviation 5400). */
START_TEST(pool_by_caller)
{
    struct ran ran = example_on("i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo few words are as long as incomprehensibilities-$i; done",
                                "GLEANER_ARENA");
    /* The sites stand in the order in which a first word of each was sampled, which chance decides. */
    static const char held[] = " bytes of the pool are held by nodes from take_long_word+";
    double bytes = 0;
    const char *line = strstr(ran.err, held);
    expect_part(ran.err, "about 0 bytes of the pool are held by nodes from take_word+");
    ck_assert_msg(line != NULL, "%s", ran.err);
    while (line > ran.err && line[-1] != '\n') line--;
    ck_assert_msg(sscanf(line, "about %lf bytes", &bytes) == 1, "%s", ran.err);
    ck_assert_msg(bytes > 192000 - 5 * 5400 && bytes < 192000 + 5 * 5400, "%g bytes", bytes);
    ran_free(&ran);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("examples");
    TCase *t = tcase_create("all");
    signal(SIGPIPE, SIG_IGN);
    test_folder();
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, top_of_the_growth, 0, (int)(sizeof examples / sizeof *examples));
    tcase_add_test(t, a_leak_and_a_limit);
    tcase_add_loop_test(t, cache_or_leak, 0, 4);
    tcase_add_test(t, holder_of_the_cache);
    tcase_add_test(t, deaths_of_old_blocks);
    tcase_add_test(t, pool_by_caller);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
