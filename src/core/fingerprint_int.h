/* fingerprint_int.h - the parts of the fingerprint among each other. Not for other files. */
#ifndef CORE_FINGERPRINT_INT_H
#define CORE_FINGERPRINT_INT_H

#include "core/fingerprint.h"

#include <endian.h>
#include <string.h>

/* Classes of bytes. A chunk is a run of CH_CHUNK bytes; one whose bytes have none of CH_SLOW is copied as it is. */
enum {
	CH_ALPHA = 1, CH_DIGIT = 2, CH_HEX = 4, CH_WORD = 8 /* may stand inside a name: letters, digits, _ - $ */,
	CH_CHUNK = 16, CH_SPACE = 32, CH_SLASH = 64 /* also the backslash */, CH_AT = 128,
};
#define CH_SLOW (CH_DIGIT | CH_SLASH | CH_AT)
extern const uint8_t fp_class[256];
static inline bool fp_is(char c, unsigned mask)
{
	return fp_class[(uint8_t)c] & mask;
}
static inline bool fp_alnum(char c)
{
	return fp_is(c, CH_ALPHA | CH_DIGIT);
}

/* Past the ASCII letters at p, eight at a time while eight are left. */
static inline const char *fp_past_letters(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101ull;
	for (; end - p >= 8; p += 8) {
		uint64_t x;
		memcpy(&x, p, sizeof x);
		x = le64toh(x);
		/* The high bit of each byte: it is from 'a' on; it is past 'z'; it is no ASCII. */
		uint64_t low = (x | 0x20 * ones) & 0x7f * ones;
		uint64_t other = (~(low + (0x80 - 'a') * ones) | (low + (0x7f - 'z') * ones) | x) & 0x80 * ones;
		if (other)
			return p + ((unsigned)__builtin_ctzll(other) >> 3);
	}
	while (p < end && fp_is(*p, CH_ALPHA))
		p++;
	return p;
}
/* Past the chunk at p; adds the classes of its bytes, but for CH_HEX, to *flags. */
static inline const char *fp_chunk_end(const char *p, const char *end, unsigned *flags)
{
	unsigned c;
	while (p < end && ((c = fp_class[(uint8_t)*p]) & CH_CHUNK)) {
		*flags |= c;
		p = c & CH_ALPHA ? fp_past_letters(p + 1, end) : p + 1;
	}
	return p;
}

/* ---- what a text is; each returns the length of the match at the start of p, or 0 ---- */

size_t fp_other_digits(const char *p, const char *end); /* digits of any script, of which the first is no ASCII */
static inline size_t fp_digits(const char *p, const char *end) /* decimal digits, also full-width and Arabic ones */
{
	const char *q = p;
	while (q < end && fp_is(*q, CH_DIGIT))
		q++;
	size_t n = (size_t)(q - p);
	return q == end || (uint8_t)*q < 0x80 ? n : n + fp_other_digits(q, end);
}
size_t fp_uuid(const char *p, const char *end);
size_t fp_time(const char *p, const char *end);
size_t fp_ip4(const char *p, const char *end);
size_t fp_ip6(const char *p, const char *end); /* without brackets */
size_t fp_email(const char *p, const char *end);
size_t fp_placeholder(const char *p, const char *end); /* "<num>" and so on */
size_t fp_unit(const char *p, const char *end, bool *is_size); /* "ms", "KiB"; at the end of a word */
size_t fp_temp_path(const char *p, const char *end); /* the folder part that makes it temporary */
bool fp_program_path(const char *p, const char *end); /* of an installed program or its settings */
/* Whether the letters and digits of [p, end) look drawn by chance. after_prefix: it follows one such as "ch_". */
bool fp_random(const char *p, const char *end, bool after_prefix);
bool fp_port_known(unsigned port);
bool fp_code_prefix(const char *p, const char *end); /* ORA, CS, AADSTS, ...: numbers after it are part of the name */
bool fp_data_file(const char *p, const char *end);    /* ends like a file of data */

/* ---- words that say what the next number or quoted text is ---- */

enum { W_CODE = 1, W_ERROR = 2, W_HTTP = 4, W_NAME = 8, W_VALUE = 16, W_PARSE = 32, W_WITH = 64, W_NOT_CODE = 128, W_REPLY = 256,
       W_SCHEMA = 512, /* the next word is a name, whatever it looks like */ W_PROSE = 1024 /* a quoted message follows */ };
/* list: words, each after a byte with its length. */
bool fp_listed(const char *list, const char *p, size_t n);
unsigned fp_word(const char *p, size_t n); /* without regard to case; 0: says nothing */
bool fp_reason_phrase(const char *p, const char *end); /* " Not Found", " Service Unavailable" */

/* ---- the scanner ---- */

struct fp_scan {
	const char *start, *end; /* the text; handlers look back to start and never past the end of the line */
	char *out;
	size_t n, max;
	uint32_t rules;
	struct fingerprint_examples *examples;
	const char *kept;        /* past the last number kept as a code */
	const char *no_close[4]; /* per kind of quote: up to here none closes */
	int depth;               /* of quoted text that is read as a message itself */
	bool frame;              /* in a frame of a stack trace: all numbers vary */
	bool full;
};
void fp_put(struct fp_scan *s, const char *p, size_t n);
static inline void fp_put_byte(struct fp_scan *s, char c)
{
	if (s->full || s->n == s->max)
		s->full = true;
	else
		s->out[s->n++] = c;
}
/* The whole character at p, or its byte where it is none: what follows may be replaced, half of one may not stay. Returns where to go on. */
const char *fp_put_character(struct fp_scan *s, const char *p, const char *end);
void fp_note(struct fp_scan *s, enum fingerprint_rule r, const char *p, size_t n);
/* Writes the placeholder of r for the n bytes at p; merges lists of equal ones. */
void fp_replace(struct fp_scan *s, enum fingerprint_rule r, const char *p, size_t n);
const char *fp_rule_placeholder(enum fingerprint_rule r, size_t *n);
/* Normalises one line (no newline in it). */
void fp_line(struct fp_scan *s, const char *p, const char *end);
const char *fp_quoted(struct fp_scan *s, const char *p, const char *end); /* p: the opening quote; returns where to go on */
const char *fp_chunk(struct fp_scan *s, const char *p, const char *end, const char *line_end, unsigned flags);
/* The word before a number or quoted text, past spaces and at most a few signs. */
struct fp_before {
	const char *word; /* NULL: none */
	uint16_t kinds;   /* W_* */
	bool colon, equal; /* stand between */
};
struct fp_before fp_word_before(const struct fp_scan *s, const char *p);

#endif
