#include <curl/curl.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>

#include "cli/client.h"

/* The layers below name their own libraries; these are what the process really runs with. */
static int run(struct cli *c)
{
	const char *curl = curl_version_info(CURLVERSION_NOW)->version;

	if (c->json) {
		json_t *v = json_pack("{s:s, s:{s:s, s:s, s:s}}", "version", DLQ_VERSION, "libraries", "libcurl", curl, "jansson",
				      jansson_version_str(), "libmicrohttpd", MHD_get_version());

		json_line(v);
		json_decref(v);
		return 0;
	}
	printf("dlq %s\nlibcurl %s\njansson %s\nlibmicrohttpd %s\n", DLQ_VERSION, curl, jansson_version_str(), MHD_get_version());
	return 0;
}

const struct command cmd_version = {
	.name = "version",
	.synopsis = "",
	.summary = "show the version, and those of the libraries",
	.run = run,
};
