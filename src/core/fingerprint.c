/* Lines, stack traces, and the hash over queue, type and normalised form. */
#include "core/fingerprint_int.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

#define STACK_READ_MAX 16384 /* bytes of a stack that are looked at */
#define FRAME_MAX 512        /* bytes of a frame that count */

static const struct {
	const char *name, *placeholder, *text;
	size_t n; /* bytes of the placeholder */
} rules[FP_RULE_COUNT] = {
	[FP_NUM] = {"num", "<num>", "numbers are variables", 5},
	[FP_ID] = {"id", "<id>", "random and counted ids are variables, also as part of a name", 4},
	[FP_UUID] = {"uuid", "<uuid>", "UUIDs are variables", 6},
	[FP_HEX] = {"hex", "<hex>", "hexadecimal addresses are variables", 5},
	[FP_IP] = {"ip", "<ip>", "IP addresses are variables; the port of a service stays", 4},
	[FP_EMAIL] = {"email", "<email>", "e-mail addresses are variables", 7},
	[FP_TIME] = {"time", "<time>", "dates and times are variables", 6},
	[FP_DUR] = {"dur", "<dur>", "durations are variables, whatever their unit", 5},
	[FP_SIZE] = {"size", "<size>", "sizes in bytes are variables, whatever their unit", 6},
	[FP_PATH] = {"path", "<path>", "temporary and quoted files are variables", 6},
	[FP_STR] = {"str", "<str>", "quoted values are variables", 5},
	[FP_CODE] = {"code", "", "error codes, HTTP statuses, SQLSTATEs and exit codes stay", 0},
	[FP_NAME] = {"name", "", "quoted names of fields, constraints, tables and methods stay", 0},
	[FP_STACK] = {"stack", "", "only the top frames of a stack trace count, without line numbers", 0},
	[FP_CUT] = {"cut", "", "only the start of a long message counts", 0},
	[FP_GIVEN] = {"given", "", "set by the worker or by a rule of the policy", 0},
};

const char *fp_rule_placeholder(enum fingerprint_rule r, size_t *n)
{
	*n = rules[r].n;
	return rules[r].placeholder;
}

const char *fingerprint_rule_name(enum fingerprint_rule r)
{
	ASSERT(r < FP_RULE_COUNT);
	return rules[r].name;
}

const char *fingerprint_rule_text(enum fingerprint_rule r)
{
	ASSERT(r < FP_RULE_COUNT);
	return rules[r].text;
}

/* ---- stack traces ---- */

struct line {
	const char *p, *end; /* without the newline, CR and spaces at its end */
	bool indented;
};

static const char *next_line(const char *p, const char *end, struct line *l)
{
	const char *nl = memchr(p, '\n', (size_t)(end - p));
	*l = (struct line){p, nl ? nl : end, false};
	while (l->end > l->p && fp_is(l->end[-1], CH_SPACE)) /* also NUL and its like */
		l->end--;
	while (l->p < l->end && fp_is(*l->p, CH_SPACE))
		l->p++;
	l->indented = l->p > p && l->p < l->end;
	return nl ? nl + 1 : end;
}

static bool starts(const struct line *l, const char *z)
{
	size_t n = strlen(z);
	return (size_t)(l->end - l->p) >= n && !memcmp(l->p, z, n);
}

static bool has(const struct line *l, const char *z)
{
	return memmem(l->p, (size_t)(l->end - l->p), z, strlen(z)) != NULL;
}

/* Whether the line names a place in a file of this kind: "orders.go:12". */
static bool has_place(const struct line *l, const char *kind)
{
	const char *p = l->p;
	while (p < l->end && (p = memchr(p, ':', (size_t)(l->end - p)))) {
		if (p - l->p > 3 && !memcmp(p - 3, kind, 3))
			return true;
		p++;
	}
	return false;
}

static bool is_frame(const struct line *l)
{
	size_t n;
	if (l->p == l->end)
		return false;
	switch (*l->p) {
	case 'a': /* Java, Node, .NET, Rust */
		return l->indented && starts(l, "at ") && (has(l, ".") || has(l, ":") || has(l, "("));
	case 'F': /* Python */
		return starts(l, "File \"") && has(l, ", line ");
	case 'f': /* Ruby */
		return starts(l, "from ") && has(l, ":in ");
	case '#': /* gdb, sanitizers, PHP */
		return l->end - l->p > 2 && (fp_is(l->p[1], CH_DIGIT) || l->p[1] == '<');
	default:
		break;
	}
	if (l->indented && (fp_is(*l->p, CH_DIGIT) || *l->p == '<')) { /* Rust: "  3: core::panicking::panic" */
		n = *l->p == '<' ? fp_placeholder(l->p, l->end) : fp_digits(l->p, l->end);
		return n && l->end - l->p > (ptrdiff_t)n + 2 && l->p[n] == ':' && l->p[n + 1] == ' ';
	}
	if (has_place(l, ".go")) /* Go: where; "main.run(0xc000012345)": what */
		return l->indented;
	if (has_place(l, ".rb") && has(l, ":in "))
		return true;
	return !l->indented && l->end[-1] == ')' && !has(l, ": ") && memchr(l->p, '(', (size_t)(l->end - l->p)) &&
	       !memchr(l->p, ' ', (size_t)((const char *)memchr(l->p, '(', (size_t)(l->end - l->p)) - l->p)) &&
	       memchr(l->p, '.', (size_t)(l->end - l->p)) && l->end - l->p > 6;
}

struct frames {
	struct line kept[FINGERPRINT_FRAMES];
	size_t seen;
	bool last_first; /* Python: the most recent call is the last */
};

static void frames_start(struct frames *f)
{
	f->seen = 0; /* says which of kept are set: most messages have no trace, and clearing them costs */
	f->last_first = false;
}

static void frame_add(struct frames *f, const struct line *l)
{
	if (f->seen < FINGERPRINT_FRAMES || f->last_first)
		f->kept[f->seen % FINGERPRINT_FRAMES] = *l;
	f->seen++;
}

static void newline(struct fp_scan *s)
{
	while (s->n && s->out[s->n - 1] == ' ')
		s->n--;
	if (s->n && s->out[s->n - 1] != '\n')
		fp_put_byte(s, '\n');
}

static void put_line(struct fp_scan *s, const struct line *l, bool frame)
{
	newline(s);
	if (l->indented && s->n)
		fp_put_byte(s, ' ');
	s->frame = frame;
	struct str line = {l->p, (size_t)(l->end - l->p)};
	if (frame)
		line = str_cut(line, FRAME_MAX);
	if (line.n)
		fp_line(s, line.p, line.p + line.n);
	s->frame = false;
}

static void frames_put(struct fp_scan *s, struct frames *f)
{
	if (!f->seen)
		return;
	size_t n = f->seen < FINGERPRINT_FRAMES ? f->seen : FINGERPRINT_FRAMES;
	size_t first = f->last_first ? f->seen - n : 0;
	fp_note(s, FP_STACK, f->kept[0].p, (size_t)(f->kept[0].end - f->kept[0].p));
	for (size_t i = 0; i < n; i++)
		put_line(s, &f->kept[(first + i) % FINGERPRINT_FRAMES], true);
	f->seen = 0;
}

/* All lines but those of a trace below its top. Returns whether there was a trace. */
static bool put_message(struct fp_scan *s, const char *p, const char *end)
{
	struct frames f;
	bool first = true, traced = false;
	frames_start(&f);
	while (p < end && !s->full) {
		struct line l;
		p = next_line(p, end, &l);
		if ((!first || l.indented) && is_frame(&l)) {
			frame_add(&f, &l);
			traced = true;
		} else if (f.seen && (l.indented || l.p == l.end)) {
			continue; /* "... 12 more", a line of source */
		} else {
			frames_put(s, &f);
			f.last_first = starts(&l, "Traceback (most");
			if (l.p < l.end)
				put_line(s, &l, false);
		}
		first = first && l.p == l.end;
	}
	frames_put(s, &f);
	return traced;
}

/* The frames of the first trace in a text of anything. */
static void put_stack(struct fp_scan *s, const char *p, const char *end)
{
	struct frames f;
	bool last_first = false;
	frames_start(&f);
	while (p < end) {
		struct line l;
		p = next_line(p, end, &l);
		if (is_frame(&l)) {
			f.last_first = last_first;
			frame_add(&f, &l);
		} else if (f.seen && !l.indented && l.p < l.end) {
			break;
		}
		last_first |= starts(&l, "Traceback (most");
	}
	frames_put(s, &f);
}

/* ---- the whole ---- */

/* Takes spaces off the end, and the start of a character that no longer fitted. */
static void finish(struct fp_scan *s)
{
	size_t lead = s->n;
	while (s->full && lead && s->n - lead < 3 && ((uint8_t)s->out[lead - 1] & 0xc0) == 0x80)
		lead--;
	if (s->full && lead && (uint8_t)s->out[lead - 1] >= 0xc0 && !utf8_sequence(s->out + lead - 1, s->n - lead + 1))
		s->n = lead - 1;
	while (s->n && (s->out[s->n - 1] == ' ' || s->out[s->n - 1] == '\n'))
		s->n--;
}

size_t fingerprint_normalise(struct str message, struct str stack, char out[FINGERPRINT_NORMAL_MAX], uint32_t *rules_out,
                             struct fingerprint_examples *examples)
{
	struct fp_scan s = {.start = message.p, .end = message.p + message.n, .out = out, .max = FINGERPRINT_MESSAGE_MAX,
	                    .examples = examples};
	if (examples)
		memset(examples, 0, sizeof *examples);
	bool traced = message.n && put_message(&s, message.p, message.p + message.n);
	finish(&s);
	bool cut = s.full;
	if (!traced && stack.n) {
		stack = str_cut(stack, STACK_READ_MAX);
		s.start = stack.p;
		s.end = stack.p + stack.n;
		s.max = FINGERPRINT_NORMAL_MAX;
		s.full = false;
		s.kept = NULL;
		memset(s.no_close, 0, sizeof s.no_close);
		put_stack(&s, stack.p, stack.p + stack.n);
		finish(&s);
	}
	if (cut || s.full)
		s.rules |= 1u << FP_CUT;
	if (rules_out)
		*rules_out = s.rules;
	return s.n;
}

/* What is hashed: the version, then each part after its length as four bytes, least significant first. */
#define PART_MAX 256
struct hashed {
	size_t n;
	char p[1 + 3 * 4 + 2 * PART_MAX + FINGERPRINT_NORMAL_MAX];
};

static void hash_length(struct hashed *h, size_t n)
{
	uint32_t le = htole32((uint32_t)n);
	memcpy(h->p + h->n, &le, sizeof le);
	h->n += sizeof le;
}

static void hash_part(struct hashed *h, struct str part, size_t max)
{
	size_t n = part.n < max ? part.n : max;
	hash_length(h, n);
	if (n)
		memcpy(h->p + h->n, part.p, n);
	h->n += n;
}

static void hash_start(struct hashed *h, char version, struct str queue)
{
	h->p[0] = version;
	h->n = 1;
	hash_part(h, queue, PART_MAX);
}

/* Eight digits for 32 bits, all at once: a digit per byte of x. */
static void hex32(char out[8], uint32_t v)
{
	const uint64_t ones = 0x0101010101010101ull;
	uint64_t x = ((uint64_t)v << 16 | v) & 0x0000ffff0000ffffull;
	x = (x << 8 | x) & 0x00ff00ff00ff00ffull;
	x = (x << 4 | x) & 0x0f0f0f0f0f0f0f0full;
	x += ones * '0' + (((x + 6 * ones) >> 4) & ones) * ('a' - '9' - 1);
	x = htobe64(x);
	memcpy(out, &x, sizeof x);
}

static void hash_end(const struct hashed *h, int version, uint32_t rules_used, struct fingerprint *fp)
{
	XXH128_hash_t x = XXH3_128bits(h->p, h->n);
	fp->hi = x.high64;
	fp->lo = x.low64;
	fp->rules = rules_used;
	fp->version = version;
	hex32(fp->text, (uint32_t)(x.high64 >> 32));
	hex32(fp->text + 8, (uint32_t)x.high64);
	hex32(fp->text + 16, (uint32_t)(x.low64 >> 32));
	hex32(fp->text + 24, (uint32_t)x.low64);
	fp->text[FINGERPRINT_TEXT_LEN] = '\0';
}

void fingerprint_of_normal(struct str queue, struct str type, struct str normal, uint32_t rules_used, struct fingerprint *fp)
{
	struct hashed h;
	hash_start(&h, FINGERPRINT_VERSION, queue);
	hash_part(&h, type, PART_MAX);
	hash_part(&h, normal, FINGERPRINT_NORMAL_MAX);
	hash_end(&h, FINGERPRINT_VERSION, rules_used, fp);
}

void fingerprint_make(struct str queue, struct str type, struct str message, struct str stack, struct fingerprint *fp)
{
	struct hashed h;
	uint32_t used;
	hash_start(&h, FINGERPRINT_VERSION, queue);
	hash_part(&h, type, PART_MAX);
	size_t n = fingerprint_normalise(message, stack, h.p + h.n + 4, &used, NULL); /* where hash_part would copy it to */
	hash_length(&h, n);
	h.n += n;
	hash_end(&h, FINGERPRINT_VERSION, used, fp);
}

void fingerprint_of_given(struct str queue, struct str given, struct fingerprint *fp)
{
	struct hashed h;
	hash_start(&h, 0, queue); /* no version of the rules is 0 */
	hash_part(&h, given, FINGERPRINT_GIVEN_MAX);
	hash_end(&h, 0, 1u << FP_GIVEN, fp);
}

bool fingerprint_text_valid(struct str s)
{
	if (s.n != FINGERPRINT_TEXT_LEN)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!fp_is(s.p[i], CH_HEX) || (s.p[i] >= 'A' && s.p[i] <= 'F'))
			return false;
	return true;
}
