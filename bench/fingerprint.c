/* dlq-bench-fingerprint FILE [SECONDS]: how fast messages become fingerprints on one core. FILE: tests/vectors/fingerprint-corpus.json.
 * Prints a JSON line for all of its messages, and one for those of 150 bytes and more; CPU time counts. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/fingerprint.h"

struct sample {
	struct str type, message;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(const char *name, const struct sample *s, int n, double seconds)
{
	struct fingerprint fp;
	double start = now_s(), t = 0;
	uint64_t bytes = 0, times = 0, seen = 0;

	while ((t = now_s() - start) < seconds)
		for (int i = 0; i < n; i++) {
			fingerprint_make(STR("bench"), s[i].type, s[i].message, (struct str){0}, &fp);
			bytes += s[i].message.n;
			seen ^= fp.lo;
			times++;
		}
	printf("{\"work\":\"fingerprint\",\"set\":\"%s\",\"messages\":%d,\"bytes_each\":%.0f,\"mb_per_s\":%.0f,\"ns_each\":%.0f,\"check\":\"%016llx\"}\n",
	       name, n, (double)bytes / (double)times, (double)bytes / t / 1e6, t * 1e9 / (double)times, (unsigned long long)seen);
}

int main(int argc, char **argv)
{
	enum { MAX = 10000 };
	static struct sample all[MAX], longer[MAX];
	int n = 0, n_longer = 0;
	json_error_t e;
	json_t *doc = argc > 1 ? json_load_file(argv[1], 0, &e) : NULL, *group, *message;
	size_t i, k;

	if (!doc) {
		fprintf(stderr, "usage: dlq-bench-fingerprint FILE [SECONDS]\n%s\n", argc > 1 ? e.text : "");
		return 2;
	}
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	json_array_foreach(json_object_get(doc, "groups"), i, group)
		json_array_foreach(json_object_get(group, "messages"), k, message)
			if (n < MAX && json_is_string(message))
				all[n++] = (struct sample){str_of(json_string_value(json_object_get(group, "error_type"))),
							   {json_string_value(message), json_string_length(message)}};
	for (int j = 0; j < n; j++)
		if (all[j].message.n >= 150)
			longer[n_longer++] = all[j];
	if (n)
		measure("corpus", all, n, seconds);
	if (n_longer)
		measure("of 150 bytes and more", longer, n_longer, seconds);
	json_decref(doc);
	return 0;
}
