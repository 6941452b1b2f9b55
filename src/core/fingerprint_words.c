/* The words that say what the next number or quoted text is, by first letter. */
#include "core/fingerprint_int.h"

#include <string.h>

struct word {
	const char *w;
	uint8_t n;
	uint16_t kinds;
};
#define W(text, kinds) {text, sizeof(text) - 1, kinds}
#define LETTER(l) [(l) - 'a'] = (const struct word[])

static const struct word *const words[26] = {
	LETTER('a') {W("account", W_VALUE), W("address", W_VALUE), W("answered", W_REPLY), W("area", W_NOT_CODE),
	             W("argument", W_NAME), W("attribute", W_NAME), W("actual", W_VALUE), W("assertion", W_PROSE), {0}},
	LETTER('b') {W("bank", W_NOT_CODE), W("bar", W_NOT_CODE), W("barcode", W_VALUE), {0}},
	LETTER('c') {W("class", W_NAME), W("client", W_VALUE), W("code", W_CODE), W("column", W_NAME | W_SCHEMA),
	             W("constraint", W_NAME | W_SCHEMA), W("cause", W_PROSE),
	             W("convert", W_PARSE), W("cast", W_PARSE), W("country", W_VALUE | W_NOT_CODE), W("coupon", W_VALUE | W_NOT_CODE),
	             W("currency", W_NOT_CODE), W("customer", W_VALUE), W("city", W_VALUE), W("curl", W_CODE), {0}},
	LETTER('d') {W("database", W_NAME), W("decode", W_PARSE), W("deserialize", W_PARSE), W("destination", W_VALUE),
	             W("discount", W_NOT_CODE), W("desc", W_PROSE), W("description", W_PROSE), {0}},
	LETTER('e') {W("email", W_VALUE), W("entry", W_VALUE), W("enum", W_NAME), W("errno", W_CODE), W("error", W_ERROR | W_PROSE),
	             W("err", W_ERROR | W_PROSE), W("exception", W_PROSE), W("exit", W_CODE), W("exited", W_REPLY), W("element", W_NAME), {0}},
	LETTER('f') {W("field", W_NAME | W_SCHEMA), W("fields", W_NAME), W("function", W_NAME), W("failed", W_REPLY), W("file", W_VALUE), {0}},
	LETTER('g') {W("got", W_HTTP | W_VALUE), W("guid", W_VALUE), {0}},
	LETTER('h') {W("header", W_NAME), W("http", W_CODE), W("https", W_CODE), W("hresult", W_CODE), W("host", W_NAME), W("hostname", W_NAME),
	             {0}},
	LETTER('i') {W("id", W_VALUE), W("identifier", W_NAME), W("index", W_NAME), W("input", W_VALUE | W_PARSE),
	             W("invoice", W_VALUE), W("item", W_VALUE), {0}},
	LETTER('k') {W("key", W_NAME), W("keyword", W_NAME), {0}},
	LETTER('l') {W("literal", W_VALUE | W_PARSE), W("login", W_VALUE), {0}},
	LETTER('m') {W("mail", W_VALUE), W("member", W_NAME), W("method", W_NAME), W("message", W_PROSE), W("module", W_NAME),
	             W("msg", W_CODE | W_PROSE), {0}},
	LETTER('n') {W("named", W_NAME), W("name", W_NAME), W("ntstatus", W_CODE), {0}},
	LETTER('o') {W("object", W_NAME), W("option", W_NAME), W("order", W_VALUE), {0}},
	LETTER('p') {W("package", W_NAME), W("param", W_NAME), W("parameter", W_NAME), W("parse", W_PARSE | W_VALUE),
	             W("parsing", W_PARSE | W_VALUE), W("parsed", W_PARSE | W_VALUE), W("password", W_VALUE), W("payment", W_VALUE),
	             W("phone", W_VALUE), W("product", W_VALUE | W_NOT_CODE), W("promo", W_VALUE | W_NOT_CODE),
	             W("property", W_NAME), W("postal", W_NOT_CODE), W("post", W_NOT_CODE), {0}},
	LETTER('r') {W("rc", W_CODE), W("reading", W_NAME), W("reason", W_PROSE), W("received", W_HTTP | W_VALUE), W("recipient", W_VALUE),
	             W("relation", W_NAME), W("responded", W_HTTP | W_REPLY), W("response", W_HTTP), W("returned", W_HTTP | W_REPLY),
	             W("replied", W_HTTP | W_REPLY), W("rejected", W_REPLY), W("role", W_NAME), {0}},
	LETTER('s') {W("schema", W_NAME), W("setting", W_NAME), W("signal", W_CODE), W("sku", W_VALUE), W("sort", W_NOT_CODE),
	             W("sqlcode", W_CODE), W("sqlstate", W_CODE), W("status", W_CODE), W("string", W_VALUE), W("symbol", W_NAME),
	             W("security", W_NOT_CODE), W("server", W_NAME), W("service", W_NAME), {0}},
	LETTER('t') {W("table", W_NAME), W("tenant", W_VALUE), W("text", W_VALUE), W("token", W_VALUE), W("type", W_NAME),
	             W("topic", W_NAME), {0}},
	LETTER('u') {W("user", W_VALUE), W("username", W_VALUE), W("uuid", W_VALUE), W("url", W_VALUE), {0}},
	LETTER('v') {W("value", W_VALUE), W("values", W_VALUE), W("variable", W_NAME), W("verification", W_NOT_CODE),
	             W("voucher", W_VALUE | W_NOT_CODE), {0}},
	LETTER('w') {W("was", W_VALUE), W("with", W_WITH), {0}},
	LETTER('z') {W("zip", W_NOT_CODE), {0}},
};

unsigned fp_word(const char *p, size_t n)
{
	if (n < 2 || !fp_is(*p, CH_ALPHA))
		return 0;
	const struct word *w = words[(*p | 0x20) - 'a'];
	for (; w && w->n; w++) {
		size_t i = 2;
		if (w->n != n || w->w[1] != (p[1] | 0x20))
			continue;
		while (i < n && (p[i] | 0x20) == w->w[i])
			i++;
		if (i == n)
			return w->kinds;
	}
	return 0;
}

bool fp_listed(const char *list, const char *p, size_t n)
{
	for (; *list; list += 1 + *list)
		if ((size_t)*list == n && list[1] == *p && !memcmp(list + 1, p, n))
			return true;
	return false;
}

/* Oracle, .NET, TypeScript, WebLogic, WildFly, Hibernate, Entra, MongoDB, Rust, IBM; and digests, charsets, standards. */
static const char *const code_prefixes[26] = {
	['a' - 'a'] = "\6" "AADSTS" "\3" "AES" "\3" "aes" "\3" "AMQ" "\6" "ARJUNA",
	['b' - 'a'] = "\4" "base" "\4" "Base" "\2" "BC" "\3" "BEA",
	['c' - 'a'] = "\2" "CA" "\3" "COM" "\2" "CS" "\3" "CVE" "\3" "CWE" "\4" "CWWK",
	['d' - 'a'] = "\3" "DPI" "\3" "DPY" "\4" "DSRA",
	['e' - 'a'] = "\1" "E" "\2" "ER" "\3" "ERR" "\5" "ERROR" "\2" "ES" "\3" "EXP",
	['f' - 'a'] = "\5" "float",
	['h' - 'a'] = "\3" "HHH" "\2" "HS" "\4" "HTTP" "\5" "HTTPS" "\2" "HV" "\2" "HY",
	['i' - 'a'] = "\2" "IJ" "\2" "IM" "\3" "IMP" "\3" "int" "\3" "Int" "\3" "ISO" "\3" "iso",
	['j' - 'a'] = "\6" "JMSWMQ",
	['k' - 'a'] = "\3" "KUP",
	['l' - 'a'] = "\4" "LDAP",
	['m' - 'a'] = "\2" "MD" "\2" "md" "\4" "MQRC" "\3" "MSB" "\2" "MY",
	['n' - 'a'] = "\3" "NJS" "\2" "NU",
	['o' - 'a'] = "\3" "OCI" "\3" "ORA",
	['p' - 'a'] = "\2" "PG" "\3" "PLS" "\2" "PS",
	['r' - 'a'] = "\10" "RESTEASY" "\3" "RFC" "\4" "RMAN" "\2" "RS" "\3" "RSA" "\3" "rsa",
	['s' - 'a'] = "\3" "SHA" "\3" "sha" "\3" "Sha" "\4" "SMTP" "\3" "SQL" "\4" "SRVE" "\3" "SSL",
	['t' - 'a'] = "\3" "TLS" "\3" "TNS" "\2" "TS",
	['u' - 'a'] = "\4" "uint" "\3" "UTF" "\3" "utf",
	['w' - 'a'] = "\4" "WELD" "\7" "WFLYCTL" "\7" "WFLYSRV" "\3" "win" "\3" "WSA",
	['x' - 'a'] = "\1" "X" "\1" "x" "\2" "XX",
};

bool fp_code_prefix(const char *p, const char *end)
{
	if (p >= end || end - p > 8 || !fp_is(*p, CH_ALPHA))
		return false;
	const char *list = code_prefixes[(*p | 0x20) - 'a'];
	return list && fp_listed(list, p, (size_t)(end - p));
}

bool fp_reason_phrase(const char *p, const char *end)
{
	static const char *const phrases[] = {"Bad Request", "Bad Gateway", "Not Found", "Unauthorized", "Forbidden", "Conflict", "Gone",
		"Too Many", "Internal Server", "Internal server", "Service Unavailable", "Service Temporarily", "Gateway Time", "Request Time",
		"Request Entity", "Unprocessable", "Method Not", "Not Acceptable", "Not Implemented", "Payload Too", "Payment Required",
		"Precondition", "Unsupported Media", "Client Error", "Server Error", "Too Large", "Locked", "Unavailable"};
	if (p == end || *p++ != ' ')
		return false;
	if (p < end && *p == '(')
		p++;
	for (size_t i = 0; i < ARRAY_LEN(phrases); i++) {
		size_t n;
		if (p < end && *p == phrases[i][0] && (size_t)(end - p) >= (n = strlen(phrases[i])) && !memcmp(p, phrases[i], n))
			return true;
	}
	return false;
}
