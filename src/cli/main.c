/* main.c - the entry, and nothing else: tests link the rest. */
#include <string.h>

#include "cli/cli.h"
#include "jq/jq_child.h"

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "jq-child") == 0) /* started by jq/jq.c alone */
		return jq_child_main();
	return cli_main(argc, argv);
}
