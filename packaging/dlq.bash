# bash completion for dlq. Made by `dlq completion bash`.
_dlq()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts words files commands
	commands="serve demo send receive work queues groups list show edit redrive redrives discard archive restore export import audit token config version help completion"
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "$commands --help --version" -- "$cur"))
		return
	fi
	case ${COMP_WORDS[1]} in
	serve)
		opts="--config --data --listen --log-level --log-format --tls-cert --tls-key --json --help"
		words=""
		files="-|--config|--data|--tls-cert|--tls-key"
		;;
	demo)
		opts="--standalone --orders --bad --fast --queue --url --data --json --help"
		words=""
		files="-|--data"
		;;
	send)
		opts="--id --key --delay --ttl --header --content-type --file --batch --lines --url --data --json --help"
		words=""
		files="-|--file|--data"
		;;
	receive)
		opts="--max --wait --visibility-timeout --worker --ack --nack --error-type --error --retry-after --url --data --json --help"
		words=""
		files="-|--data"
		;;
	work)
		opts="--concurrency --worker --worker-version --timeout --visibility-timeout --until-empty --url --data --json --help"
		words=""
		files="-|--data"
		;;
	queues)
		opts="--file --settings --max-attempts --backoff --jitter --visibility-timeout --crash-limit --ttl --retention --max-redrives --ordered --dedup-window --max-messages --max-bytes --max-in-flight --push --concurrency --push-timeout --on-dead-letter --url --data --json --help"
		words="list show create put delete pause resume"
		files="-|--file|--data"
		;;
	groups)
		opts="--queue --status --dead --limit --reason --for --deaths --owner --url --data --json --help"
		words="list show ack resolve reopen mute note merge split"
		files="-|--data"
		;;
	list)
		opts="--state --reason --from --to --limit --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words=""
		files="-|--data"
		;;
	show)
		opts="--body --original --url --data --json --help"
		words=""
		files="-|--data"
		;;
	edit)
		opts="--jq --set-header --remove-header --preview --show --reason --yes --override --no-wait --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words=""
		files="-|--data"
		;;
	redrive)
		opts="--first --stop-at --rate --canary-wait --jq --set-header --remove-header --body --to --override --reason --yes --dry-run --no-wait --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words=""
		files="-|--body|--data"
		;;
	redrives)
		opts="--items --url --data --json --help"
		words="list show pause resume cancel"
		files="-|--data"
		;;
	discard)
		opts="--reason --yes --dry-run --no-wait --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words=""
		files="-|--data"
		;;
	archive)
		opts="--from --to --limit --reason --yes --dry-run --no-wait --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words="list show give-up"
		files="-|--data"
		;;
	restore)
		opts="--undo --reason --yes --dry-run --no-wait --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words=""
		files="-|--data"
		;;
	export)
		opts="--output --zstd --force --state --reason --from --to --limit --queue --group --dead-reason --error-type --key --id --header --redrive --died-from --died-to --expires-within --expires-soon --text --where --url --data --json --help"
		words=""
		files="-|--output|-o|--data"
		;;
	import)
		opts="--queue --reason --yes --dry-run --url --data --json --help"
		words=""
		files="-|--data"
		;;
	audit)
		opts="--limit --export --url --data --json --help"
		words="verify"
		files="-|--data"
		;;
	token)
		opts="--role --queue --expires-in --url --data --json --help"
		words="list create revoke"
		files="-|--data"
		;;
	config)
		opts="--config --data --listen --log-level --log-format --tls-cert --tls-key --json --help"
		words="show check"
		files="-|--config|--data|--tls-cert|--tls-key"
		;;
	version)
		opts="--json --help"
		words=""
		files="-"
		;;
	help)
		opts="--json --help"
		words=""
		files="-"
		;;
	completion)
		opts="--json --help"
		words="bash man commands"
		files="-"
		;;
	*) return ;;
	esac
	[ "${COMP_WORDS[1]}" = help ] && words=$commands
	case "|$files|" in
	*"|$prev|"*) COMPREPLY=($(compgen -f -- "$cur")); return ;;
	esac
	case $cur in
	-*) COMPREPLY=($(compgen -W "$opts" -- "$cur")) ;;
	*) if [ "$COMP_CWORD" -eq 2 ] && [ -n "$words" ]; then
			COMPREPLY=($(compgen -W "$words" -- "$cur"))
		else
			COMPREPLY=($(compgen -f -- "$cur"))
		fi ;;
	esac
}
complete -o filenames -F _dlq dlq
