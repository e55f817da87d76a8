# bash completion of cllm
_cllm() {
  local cur="${COMP_WORDS[COMP_CWORD]}" command='' words=''
  if ((COMP_CWORD > 1)); then command="${COMP_WORDS[1]}"; fi
  case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
    # GROUPS
  esac
  case "$command" in
    # CASES
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if ((${#COMPREPLY[@]} == 0)); then COMPREPLY=($(compgen -f -- "$cur")); fi
}
complete -o filenames -F _cllm cllm
