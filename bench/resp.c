#include "resp.h"

#include <stdlib.h>
#include <string.h>

ssize_t resp_value(const char *p, size_t n, resp_bulk_fn *on_bulk, void *arg)
{
	const char *at = p;
	const char *end = p + n;
	unsigned position = 0;

	for (long left = 1; left > 0; left--) {
		const char *eol = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
		if (!eol)
			return 0;
		long v = 0;
		switch (*at) {
		case '+':
		case '-':
		case ':':
			break;
		case '*':
			v = strtol(at + 1, NULL, 10);
			left += v > 0 ? v : 0;
			break;
		case '$':
			v = strtol(at + 1, NULL, 10);
			if (v < 0)
				break;
			if (end - eol - 1 < v + 2)
				return 0;
			if (on_bulk)
				on_bulk(arg, position, eol + 1, (size_t)v);
			position++;
			eol += v + 2;
			break;
		default:
			return -1;
		}
		at = eol + 1;
	}
	return at - p;
}
