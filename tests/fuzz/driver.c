/*
 * driver.c - runs a fuzz target without libFuzzer: every file of a corpus folder as it is, then mutations of them with one
 * seed. The same target, under the fuzz preset, is driven by libFuzzer instead.
 *
 *   fuzz_NAME CORPUS-FOLDER        DLQ_FUZZ_RUNS mutations (20000), from DLQ_FUZZ_SEED (by default the time)
 *   fuzz_NAME FILE                 that input alone, to look at a failure
 *
 * A target fails by a signal; the input is then in ./fuzz-failure (or $DLQ_FUZZ_FAILURE) and the seed on stderr.
 */
#include "base/rnd.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536
#define CORPUS_MAX 1000

struct input {
	uint8_t *p;
	size_t n;
};
static struct input corpus[CORPUS_MAX];
static size_t corpus_n;
static struct input current; /* what is being run, for the report of a failure */
static const char *failure_path = "fuzz-failure";

/* Async-signal-safe: writes the input that failed, then lets the signal end the process. */
static void on_failure(int sig)
{
	int fd = open(failure_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd >= 0) {
		ssize_t n = write(fd, current.p, current.n);
		(void)n;
		close(fd);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

static void run(const uint8_t *p, size_t n)
{
	/* Its own block of exactly n bytes, so that a sanitizer sees a read past the end. */
	current = (struct input){malloc(n ? n : 1), n};
	ASSERT(current.p);
	if (n)
		memcpy(current.p, p, n);
	LLVMFuzzerTestOneInput(current.p, n);
	free(current.p);
}

static bool load_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f || corpus_n == CORPUS_MAX) {
		fprintf(stderr, "%s: cannot be read, or more than %d files\n", path, CORPUS_MAX);
		return false;
	}
	struct input in = {malloc(INPUT_MAX), 0};
	ASSERT(in.p);
	in.n = fread(in.p, 1, INPUT_MAX, f);
	fclose(f);
	corpus[corpus_n++] = in;
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In the order of names: the order of the folder is not the same everywhere, and one seed must give one run. */
static bool load_folder(const char *path)
{
	DIR *dir = opendir(path);
	char *names[CORPUS_MAX];
	size_t n = 0;
	bool good = true;
	if (!dir) {
		fprintf(stderr, "%s: no such folder\n", path);
		return false;
	}
	for (struct dirent *e; n < CORPUS_MAX && (e = readdir(dir));)
		if (e->d_name[0] != '.')
			names[n++] = mem_strdup(str_of(e->d_name));
	closedir(dir);
	qsort(names, n, sizeof names[0], by_name);
	for (size_t i = 0; i < n; i++) {
		char full[4096];
		snprintf(full, sizeof full, "%s/%s", path, names[i]);
		good = good && load_file(full);
		mem_free(names[i]);
	}
	return good && n > 0;
}

/* Values that are often special. */
static uint8_t special(struct rnd *r)
{
	static const uint8_t bytes[] = {0, '\n', '"', '\\', '{', '}', '[', ']', ':', ',', '0', '9', '-', ' ', 0x7f, 0x80, 0xc3, 0xff};
	return bytes[rnd_below(r, sizeof bytes)];
}

/* One change to p of n bytes; room for INPUT_MAX. Returns the new length. */
static size_t mutate_once(struct rnd *r, uint8_t *p, size_t n)
{
	size_t at = (size_t)rnd_below(r, n + 1), len = (size_t)rnd_below(r, 1 + (n - at < 32 ? n - at : 32));
	const struct input *other = &corpus[rnd_below(r, corpus_n)];
	size_t from = (size_t)rnd_below(r, other->n + 1);
	switch (rnd_below(r, 6)) {
	case 0: /* flip a bit */
		if (at < n)
			p[at] ^= (uint8_t)(1u << rnd_below(r, 8));
		return n;
	case 1: /* set a byte */
		if (at < n)
			p[at] = rnd_below(r, 2) ? special(r) : (uint8_t)rnd_u64(r);
		return n;
	case 2: /* take some out */
		memmove(p + at, p + at + len, n - at - len);
		return n - len;
	case 3: /* put one in */
		if (n == INPUT_MAX)
			return n;
		memmove(p + at + 1, p + at, n - at);
		p[at] = special(r);
		return n + 1;
	case 4: /* repeat some */
		if (n + len > INPUT_MAX)
			return n;
		memmove(p + at + len, p + at, n - at);
		return n + len;
	default: /* the rest of another input */
		len = other->n - from < INPUT_MAX - at ? other->n - from : INPUT_MAX - at;
		memcpy(p + at, other->p + from, len);
		return at + len;
	}
}

static uint64_t number(const char *name, uint64_t absent)
{
	const char *z = getenv(name);
	return z && *z ? strtoull(z, NULL, 10) : absent;
}

int main(int argc, char **argv)
{
	struct stat st;
	if (argc != 2 || stat(argv[1], &st) != 0) {
		fprintf(stderr, "usage: %s CORPUS-FOLDER | FILE\n", argv[0]);
		return 2;
	}
	bool folder = S_ISDIR(st.st_mode);
	if (!(folder ? load_folder(argv[1]) : load_file(argv[1])))
		return 2;
	uint64_t runs = folder ? number("DLQ_FUZZ_RUNS", 20000) : 0;
	uint64_t seed = number("DLQ_FUZZ_SEED", (uint64_t)time(NULL));
	if (getenv("DLQ_FUZZ_FAILURE"))
		failure_path = getenv("DLQ_FUZZ_FAILURE");
	signal(SIGABRT, on_failure);
	signal(SIGSEGV, on_failure);
	fprintf(stderr, "%zu inputs, %llu mutations, DLQ_FUZZ_SEED=%llu\n", corpus_n, (unsigned long long)runs,
	        (unsigned long long)seed);
	for (size_t i = 0; i < corpus_n; i++)
		run(corpus[i].p, corpus[i].n);
	struct rnd r;
	rnd_seed(&r, seed);
	uint8_t *work = malloc(INPUT_MAX);
	ASSERT(work);
	for (uint64_t i = 0; i < runs; i++) {
		const struct input *in = &corpus[rnd_below(&r, corpus_n)];
		size_t n = in->n;
		memcpy(work, in->p, n);
		for (uint64_t k = 1 + rnd_below(&r, 5); k > 0; k--)
			n = mutate_once(&r, work, n);
		run(work, n);
	}
	free(work);
	for (size_t i = 0; i < corpus_n; i++)
		free(corpus[i].p);
	return 0;
}
