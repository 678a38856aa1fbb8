// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/shell/completion.h"

// Each script asks the program how the words of the command line go on (complete()), so it stays right when commands or
// keys are added.

namespace llmtrain::app {
namespace {

constexpr const char* bash_script = R"script(# bash completion of llmtrain: source <(llmtrain completion bash)
_llmtrain() {
  local line=${COMP_LINE:0:COMP_POINT} text help
  local -a words files
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current=${words[-1]} before=""
  # Where bash ends a word at "=", it replaces only what follows it.
  [[ $COMP_WORDBREAKS == *=* && $current == *=* ]] && before=${current%"${current##*=}"}
  COMPREPLY=()
  while IFS=$'\t' read -r text help; do
    case $text in
      :files | :folders)
        compopt -o filenames
        mapfile -t files < <(compgen -"$([[ $text == :files ]] && echo f || echo d)" -- "${current#"$before"}")
        COMPREPLY+=("${files[@]}")
        ;;
      *)
        [[ $text == *= ]] && compopt -o nospace
        COMPREPLY+=("${text#"$before"}")
        ;;
    esac
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _llmtrain llmtrain
)script";

constexpr const char* zsh_script = R"script(#compdef llmtrain
# zsh completion of llmtrain: source <(llmtrain completion zsh), after compinit
_llmtrain() {
  local line text files
  local -a lines with_value complete_words
  lines=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    text="${${line%%$'\t'*}//:/\\:}"
    case $line in
      '') ;;
      :files | :folders) files=$line ;;
      *=$'\t'*) with_value+=("$text:${line#*$'\t'}") ;;
      *) complete_words+=("$text:${line#*$'\t'}") ;;
    esac
  done
  (( $#complete_words )) && _describe 'llmtrain' complete_words
  (( $#with_value )) && _describe 'key' with_value -S ''
  [[ $files == :files ]] && { compset -P '*='; _files; }
  [[ $files == :folders ]] && _files -/
  return 0
}
if [[ ${funcstack[1]} == _llmtrain ]]; then
  _llmtrain "$@"
else
  compdef _llmtrain llmtrain
fi
)script";

constexpr const char* fish_script = R"script(# fish completion of llmtrain: llmtrain completion fish | source
function __llmtrain_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete $words "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end
complete -c llmtrain -f -a '(__llmtrain_complete)'
)script";

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "zsh") return zsh_script;
  return shell == "fish" ? fish_script : bash_script;
}

}  // namespace llmtrain::app
