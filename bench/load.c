/* dlq-bench-load: puts load on dlq, Redis Streams or beanstalkd and prints one JSON line.
 * The same engine drives all three; see README.md. */
#include "engine.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct driver *const drivers[] = {&driver_http, &driver_redis, &driver_beanstalk};
static const char *const workloads[] = {"send", "cycle", "fill", "get"};

static const char usage[] =
	"usage: dlq-bench-load --proto http|redis|beanstalk --to HOST:PORT [options]\n"
	"  --work send|cycle|fill|get   what to do (send)\n"
	"      send   one message per request, the next one when it is answered\n"
	"      cycle  send, receive and settle a batch; a message counts when settled\n"
	"      fill   like cycle, settled as permanent: makes dead letters (http)\n"
	"      get    one GET of --path per request (http)\n"
	"  --connections N  (1)      --seconds S  (5)     --warmup S (0), not in the figures\n"
	"  --count N    stop after N messages or GETs instead of after --seconds\n"
	"  --body N     bytes (512)  --batch N  (cycle 10, fill 100)\n"
	"  --queue NAME (bench)      --token TOKEN | --token-file FILE\n"
	"  --path PATH  --follow     walk the pages behind PATH by their cursor\n"
	"  --causes N   fill: number of different errors (8)\n"
	"  --tenants N  fill: messages carry the header `tenant`, with so many values (0: no header)\n"
	"  --read-each  redis: N XREADGROUP COUNT 1 instead of one COUNT N\n"
	"  --ack-one    redis: one XACK with N ids instead of N XACK\n";

static _Noreturn void bad_usage(void)
{
	fputs(usage, stderr);
	exit(2);
}

static uint64_t number(const char *s, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 10);

	if (end == s || *end || *s == '-' || v < min || v > max)
		die("%s: want a whole number from %llu to %llu", s, (unsigned long long)min,
		    (unsigned long long)max);
	return v;
}

static double seconds(const char *s)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end || !(v >= 0 && v <= 86400))
		die("%s: want seconds from 0 to 86400", s);
	return v;
}

static unsigned word_index(const char *s, const char *const *words, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(s, words[i]))
			return i;
	bad_usage();
}

static void parse_address(char *s, struct options *o)
{
	char *colon = strrchr(s, ':');

	if (!colon)
		die("%s: want HOST:PORT", s);
	*colon = '\0';
	o->host = s;
	o->port = (uint16_t)number(colon + 1, 1, 65535);
}

/* The first line of the file; the caller owns it. */
static char *read_token(const char *file)
{
	char line[256] = "";
	FILE *f = fopen(file, "r");

	if (!f || !fgets(line, sizeof line, f))
		die("%s: cannot read a token", file);
	fclose(f);
	line[strcspn(line, "\r\n")] = '\0';
	char *token = strdup(line);
	if (!token)
		die("out of memory");
	return token;
}

enum {
	OPT_PROTO = 'a', OPT_TO, OPT_WORK, OPT_CONNECTIONS, OPT_SECONDS, OPT_WARMUP, OPT_COUNT,
	OPT_BODY, OPT_BATCH, OPT_QUEUE, OPT_TOKEN, OPT_TOKEN_FILE, OPT_PATH, OPT_FOLLOW,
	OPT_CAUSES, OPT_TENANTS, OPT_READ_EACH, OPT_ACK_ONE
};

static const struct option long_options[] = {
	{"proto", 1, NULL, OPT_PROTO}, {"to", 1, NULL, OPT_TO},
	{"work", 1, NULL, OPT_WORK}, {"connections", 1, NULL, OPT_CONNECTIONS},
	{"seconds", 1, NULL, OPT_SECONDS}, {"warmup", 1, NULL, OPT_WARMUP},
	{"count", 1, NULL, OPT_COUNT}, {"body", 1, NULL, OPT_BODY},
	{"batch", 1, NULL, OPT_BATCH}, {"queue", 1, NULL, OPT_QUEUE},
	{"token", 1, NULL, OPT_TOKEN}, {"token-file", 1, NULL, OPT_TOKEN_FILE},
	{"path", 1, NULL, OPT_PATH}, {"follow", 0, NULL, OPT_FOLLOW},
	{"causes", 1, NULL, OPT_CAUSES}, {"tenants", 1, NULL, OPT_TENANTS},
	{"read-each", 0, NULL, OPT_READ_EACH}, {"ack-one", 0, NULL, OPT_ACK_ONE}, {0}};

static const struct driver *find_driver(const char *name)
{
	for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
		if (!strcmp(drivers[i]->name, name))
			return drivers[i];
	bad_usage();
}

static const struct driver *parse(int argc, char **argv, struct options *o)
{
	const struct driver *d = NULL;

	for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		switch (c) {
		case OPT_PROTO: d = find_driver(optarg); break;
		case OPT_TO: parse_address(optarg, o); break;
		case OPT_WORK: o->work = word_index(optarg, workloads, 4); break;
		case OPT_CONNECTIONS: o->connections = (unsigned)number(optarg, 1, 50000); break;
		case OPT_SECONDS: o->seconds = seconds(optarg); break;
		case OPT_WARMUP: o->warmup = seconds(optarg); break;
		case OPT_COUNT: o->count = number(optarg, 1, UINT64_MAX / 2); break;
		case OPT_BODY: o->body_bytes = (unsigned)number(optarg, 1, 1 << 20); break;
		case OPT_BATCH: o->batch = (unsigned)number(optarg, 1, 1000); break;
		case OPT_QUEUE: o->queue = optarg; break;
		case OPT_TOKEN: o->token = optarg; break;
		case OPT_TOKEN_FILE: o->token = read_token(optarg); break;
		case OPT_PATH: o->path = optarg; break;
		case OPT_FOLLOW: o->follow = true; break;
		case OPT_CAUSES: o->causes = (unsigned)number(optarg, 1, 1000000); break;
		case OPT_TENANTS: o->tenants = (unsigned)number(optarg, 1, 1000); break;
		case OPT_READ_EACH: o->read_each = true; break;
		case OPT_ACK_ONE: o->ack_one = true; break;
		default: bad_usage();
		}
	}
	if (!d || !o->port || optind != argc || (o->work == WORK_GET && !o->path))
		bad_usage();
	if (o->count)
		o->seconds = 0;
	if (!o->batch)
		o->batch = o->work == WORK_FILL ? 100 : 10;
	return d;
}

/* Printable bytes that do not compress, the same in every run. */
static char *make_body(unsigned n)
{
	static const char alphabet[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	char *body = malloc(n);
	uint64_t x = 88172645463325252u;

	if (!body)
		die("out of memory");
	for (unsigned i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		body[i] = alphabet[x >> 58];
	}
	return body;
}

static double us(const struct hist *h, double share)
{
	return (double)hist_quantile(h, share) / 1e3;
}

static void print(const struct options *o, const struct driver *d, const struct figures *f)
{
	double t = f->elapsed > 0 ? f->elapsed : 1e-9;
	const struct hist *h = &f->latency;

	printf("{\"proto\":\"%s\",\"work\":\"%s\",\"connections\":%u,\"body\":%u,\"batch\":%u,", d->name,
	       workloads[o->work], o->connections, o->body_bytes,
	       o->work == WORK_CYCLE || o->work == WORK_FILL ? o->batch : 1);
	printf("\"elapsed_s\":%.3f,\"messages\":%llu,\"messages_per_s\":%.0f,", t,
	       (unsigned long long)f->messages, (double)f->messages / t);
	printf("\"requests\":%llu,\"requests_per_s\":%.0f,", (unsigned long long)f->requests,
	       (double)f->requests / t);
	printf("\"p50_us\":%.0f,\"p90_us\":%.0f,\"p99_us\":%.0f,\"p999_us\":%.0f,\"max_us\":%.0f,",
	       us(h, 0.5), us(h, 0.9), us(h, 0.99), us(h, 0.999), (double)h->max / 1e3);
	printf("\"longest_gap_ms\":%.1f,\"connect_ms\":%.1f,", (double)f->longest_gap_ns / 1e6,
	       f->connect_seconds * 1e3);
	printf("\"generator_cpu\":%.3f,\"generator_cpu_us_per_request\":%.2f,", f->cpu_seconds / t,
	       f->requests ? f->cpu_seconds * 1e6 / (double)f->requests : 0.0);
	printf("\"unanswered\":%llu,\"errors\":%llu,\"errors_by_status\":{",
	       (unsigned long long)f->unanswered, (unsigned long long)f->errors_total);
	for (int i = 0; i < ERROR_KINDS && f->errors[i].count; i++)
		printf("%s\"%s\":%llu", i ? "," : "", f->errors[i].label,
		       (unsigned long long)f->errors[i].count);
	printf("}}\n");
}

int main(int argc, char **argv)
{
	struct options o = {.connections = 1, .seconds = 5, .body_bytes = 512, .queue = "bench",
			    .token = "none", .causes = 8};
	static struct figures f;
	const struct driver *d = parse(argc, argv, &o);
	char *body = make_body(o.body_bytes);

	d->init(&o, body);
	engine_run(&o, d, &f);
	print(&o, d, &f);
	free(body);
	return 0;
}
