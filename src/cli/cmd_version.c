#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/client.h"

/* The libraries of this layer, as the process really runs with them; those below are not visible from here. */
static int run(struct cli *c)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
	const char *tls = curl->ssl_version ? curl->ssl_version : "none";

	if (c->json) {
		json_t *v = json_pack("{s:s, s:{s:s, s:s, s:s}}", "version", DLQ_VERSION, "libraries", "libcurl", curl->version,
				      "tls", tls, "jansson", jansson_version_str());

		json_line(v);
		json_decref(v);
		return 0;
	}
	printf("dlq %s\nlibcurl %s (%s)\njansson %s\n", DLQ_VERSION, curl->version, tls, jansson_version_str());
	return 0;
}

const struct command cmd_version = {
	.name = "version",
	.synopsis = "",
	.summary = "show the version, and those of the libraries",
	.run = run,
};
