# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of agentsh for bash. The tables are made by tools/gen_reference.py.

# generated: tables
_agentsh_commands=(
	'server stop'
	'server status'
	'server reload'
	'server logs'
	'server'
	'run'
	'session create'
	'session list'
	'session info'
	'session destroy'
	'exec'
	'output'
	'kill'
	'events'
	'cache list'
	'cache purge'
	'trash list'
	'trash restore'
	'trash purge'
	'policy list'
	'policy show'
	'policy reload'
	'policy validate'
	'policy test'
	'policy sets'
	'config show'
	'config validate'
	'config keys'
	'doctor'
	'detect'
	'version'
	'help'
)
declare -gA _agentsh_options=(
	['server status']='--json'
	['server']='--config=FILE --log-level=debug|info|warn|error --auto --ready-fd=N --set=KEY=VALUE --accept-loss'
	['run']='--workspace=DIR --policy=NAME --output=shell|text|json --script=TEXT --timeout=DURATION --env=NAME=VALUE --quiet'
	['session create']='--workspace=DIR --policy=NAME --id=ID --timeout=DURATION --idle-timeout=DURATION --background=end|keep --env=NAME=VALUE --json'
	['session list']='--all --json'
	['session info']='--json'
	['session destroy']='--json'
	['exec']='--output=text|json|shell --script=TEXT --json=REQUEST --timeout=DURATION --stream --detach --no-queue --argv0=NAME --working-dir=DIR --env=NAME=VALUE --command-id=ID --idempotency-key=KEY --create --quiet'
	['output']='--stream=stdout|stderr --offset=BYTES --limit=BYTES --json'
	['kill']='--signal=NAME --grace=DURATION --json'
	['events']='--type=A,B --after=SEQ'
	['cache list']='--json'
	['cache purge']='--all --json'
	['trash list']='--session=ID --json'
	['trash restore']='--session=ID --all --json'
	['trash purge']='--session=ID --all --json'
	['policy list']='--config=FILE --set=KEY=VALUE --json'
	['policy show']='--effective --config=FILE --set=KEY=VALUE --json'
	['policy reload']='--json'
	['policy validate']='--strict --config=FILE --set=KEY=VALUE --json'
	['policy test']='--policy=NAME --made --config=FILE --set=KEY=VALUE --json'
	['policy sets']='--refresh --config=FILE --set=KEY=VALUE --json'
	['config show']='--config=FILE --set=KEY=VALUE --json'
	['config validate']='--config=FILE --set=KEY=VALUE --json'
	['config keys']='--json'
	['doctor']='--config=FILE --json'
	['detect']='--config=FILE --json'
	['version']='--json'
)
declare -gA _agentsh_operands=(
	['server']='[--config FILE] [--log-level debug|info|warn|error] [--auto] [--ready-fd N] [--set KEY=VALUE]... [--accept-loss]'
	['run']='[OPTIONS] -- CMD [ARG...]'
	['session create']='[OPTIONS]'
	['session info']='SESSION'
	['session destroy']='SESSION'
	['exec']='SESSION [OPTIONS] -- CMD [ARG...]'
	['output']='COMMAND'
	['kill']='[SESSION] COMMAND'
	['events']='SESSION'
	['cache purge']='[--all] [CACHE]...'
	['trash restore']='[--all] [ENTRY]...'
	['trash purge']='[--all] [ENTRY]...'
	['policy show']='NAME | --effective [SESSION]'
	['policy validate']='[NAME|FILE]...'
	['policy test']='[OPTIONS] file OP PATH | exec CMD [ARG...] | net HOST:PORT | dns NAME'
	['policy sets']='[NAME]'
	['config validate']='[FILE]'
	['help']='[COMMAND]'
)
_agentsh_everywhere='--server=ADDR --api-key=KEY --help'
# end: tables

# Sessions that have not ended; a server is never started for it.
_agentsh_sessions() {
	AGENTSH_NO_AUTO=1 "${1:-agentsh}" session list 2>/dev/null | awk 'NR > 1 { print $1 }'
}

# The words that may stand for a value: "a|b" is one of these, DIR and FILE are paths.
_agentsh_value() {
	case "$1" in
	*\|*) compgen -W "${1//|/ }" -- "$2" ;;
	DIR) compgen -d -- "$2" ;;
	FILE) compgen -f -- "$2" ;;
	esac
}

# The value's name of an option in a table; fails for a flag and for what is not there.
_agentsh_takes() {
	local word
	for word in $2; do
		if [[ $word == "$1="* ]]; then
			printf '%s' "${word#*=}"
			return 0
		fi
	done
	return 1
}

# The next words of the commands that begin with these.
_agentsh_next() {
	local command rest words=()
	for command in "${_agentsh_commands[@]}"; do
		if [[ -z $1 ]]; then
			words+=("${command%% *}")
		elif [[ $command == "$1 "* ]]; then
			rest=${command#"$1 "}
			words+=("${rest%% *}")
		fi
	done
	compgen -W "${words[*]}" -- "$2" | sort -u
}

# readline cuts words at "=" and ":"; puts them together again.
_agentsh_words() {
	local word join=''
	words=()
	for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
		if [[ ${#words[@]} -gt 0 && (-n $join || $word == [:=]) ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		join=''
		[[ $word == [:=] ]] && join=1
	done
}

# What stands before the cursor: sets found (the command), name (its words so far), operands, and wants (the name of
# the value that comes next). Returns 1 behind the dashes of exec and run; rest counts the words from there.
_agentsh_look() {
	local i word command last=$((${#words[@]} - 1))
	for ((i = 1; i < last; i++)); do
		word=${words[i]}
		wants=''
		if [[ $word == -- && ($found == exec || $found == run) ]]; then
			rest=$((last - i))
			return 1
		elif [[ $word == -* ]]; then
			if wants=$(_agentsh_takes "$word" "$_agentsh_everywhere ${_agentsh_options[${found:-none}]-}"); then
				((++i < last)) && wants=''
			fi
		elif [[ -n $found && -z $(_agentsh_next "$found" "$word") ]]; then
			((++operands))
		else
			name="${name:+$name }$word"
			for command in "${_agentsh_commands[@]}"; do
				[[ $command == "$name" ]] && found=$name
			done
		fi
	done
	return 0
}

_agentsh() {
	local cur=${COMP_WORDS[COMP_CWORD]} words=() name='' found='' operands=0 wants='' rest=0 options word
	_agentsh_words
	[[ $cur == [:=] ]] && cur=''
	COMPREPLY=()
	if ! _agentsh_look; then
		# a command of its own
		mapfile -t COMPREPLY < <(if ((rest == 1)); then compgen -c -- "$cur" | sort -u; else compgen -f -- "$cur"; fi)
		return
	fi
	options="$_agentsh_everywhere ${_agentsh_options[${found:-none}]-}"
	word=${words[-1]}
	if [[ $word == --*=* ]]; then
		wants=$(_agentsh_takes "${word%%=*}" "$options") || return
	fi
	if [[ -n $wants ]]; then
		mapfile -t COMPREPLY < <(_agentsh_value "$wants" "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(for word in $options; do compgen -W "${word%%=*}" -- "$cur"; done | sort)
	elif [[ $found == help ]]; then
		mapfile -t COMPREPLY < <(_agentsh_next "${words[*]:2:operands}" "$cur")
	elif [[ -z $found || $found == server ]]; then
		mapfile -t COMPREPLY < <(_agentsh_next "$name" "$cur")
	elif [[ ${_agentsh_operands[$found]-} =~ ^\[?SESSION && $operands == 0 ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_agentsh_sessions "${words[0]}")" -- "$cur")
	elif [[ ${_agentsh_operands[$found]-} == "[FILE]" && $operands == 0 || ${_agentsh_operands[$found]-} == *"|FILE]..." ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _agentsh agentsh
