// Completion for bash and zsh: the scripts contain the words of the tree, so that a key press
// starts penstock only for the names of pools.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>

#include "base/format.hpp"
#include "manual.hpp"

namespace penstock::tools {
namespace {

using base::shell_quote;

/// The kind of value that an option takes: "words ...", "pools", "files" or "program".
std::string kind_of(const OptionText& option) {
  if (const auto words = option.choices(); !words.empty())
    return fmt::format("words {}", fmt::join(words, " "));
  if (option.repeats && option.is_argument) return "program";
  if (option.value == "SPEC" || option.names.front() == "SPEC") return "pools";
  return "files";  // most values are files; for a number nothing is lost
}

std::string subcommands_of(const CommandText& command) {
  std::string words;
  for (const CommandText& below : command.subcommands)
    words += (words.empty() ? "" : " ") + below.words.back();
  return words;
}

std::string options_of(const CommandText& command) {
  std::string words;
  for (const OptionText& option : command.options) {
    if (option.is_argument) continue;
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

std::string arguments_of(const CommandText& command) {
  for (const OptionText& option : command.options)
    if (option.is_argument) return kind_of(option);
  return "";
}

constexpr const char* bash_functions = R"sh(
__penstock_pools() { penstock pool ls 2>/dev/null | sed 1d | cut -d' ' -f1; }

# CUR KIND: the words of this kind that begin with CUR. Those with a colon or = are completed from
# behind it, as the shell splits words there.
__penstock_complete() {
  local cur=$1 kind=${2%% *} words=${2#* } before
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
    pools) mapfile -t COMPREPLY < <(compgen -W "$(__penstock_pools)" -- "$cur"; compgen -f -- "$cur") ;;
    program) mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur") ;;
    files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    *) COMPREPLY=() ;;
  esac
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
    before=${cur%"${cur##*:}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
  fi
}

_penstock() {
  local line=${COMP_LINE:0:COMP_POINT} path="" given=0 i word cur subcommands options arguments value
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  cur=${words[-1]}
  __penstock_command "$path"
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    word=${words[i]}
    if [[ $word == -- ]] || [[ $arguments == program && $given == 1 ]]; then
      __penstock_complete "$cur" program
      return
    elif [[ $word == -* ]]; then
      [[ $word != *=* ]] && __penstock_value "$path" "$word" && i=$((i + 1))
    elif [[ " $subcommands " == *" $word "* ]]; then
      path=${path:+$path }$word
      __penstock_command "$path"
    else
      given=1
    fi
  done
  if ((i >= ${#words[@]})); then
    __penstock_value "$path" "${words[-2]}"
    __penstock_complete "$cur" "$value"
  elif [[ $cur == -*=* ]]; then
    if __penstock_value "$path" "${cur%%=*}"; then __penstock_complete "${cur#*=}" "$value"; fi
  elif [[ $arguments == program && $given == 1 ]]; then
    __penstock_complete "$cur" program
  elif [[ $cur == -* ]]; then
    __penstock_complete "$cur" "words $options"
  else
    __penstock_complete "$cur" "$arguments"
    [[ $given == 0 ]] && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$subcommands" -- "$cur")
  fi
}
complete -o filenames -F _penstock penstock
)sh";

/// Escapes text for 'single quotes' of _arguments, where [ ] : and \ have a meaning.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += std::string("\\") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh_action(const OptionText& option) {
  const std::string kind = kind_of(option);
  if (kind.starts_with("words ")) return fmt::format("({})", kind.substr(6));
  return kind == "pools" ? "_penstock_pools" : "_files";
}

std::string zsh_function_name(const CommandText& command) {
  std::string name = "_" + command.name('_');
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

std::string zsh_option(const OptionText& option) {
  std::string lines;
  for (const std::string& name : option.names) {
    std::string value;
    if (!option.value.empty()) {
      // --watch[=SECONDS] has its value in the same word, or has none.
      value = fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option));
    }
    const char* how = option.value.empty()        ? ""
                      : !option.takes_next_word() ? "=-"
                      : name.starts_with("--")    ? "="
                                                  : "+";
    lines += fmt::format("    '{}{}{}[{}]{}' \\\n", option.repeats ? "*" : "", name, how,
                         zsh_text(option.meaning),
                         option.takes_next_word() || value.empty() ? value : ":" + value);
  }
  return lines;
}

std::string zsh_function(const CommandText& command) {
  std::string text = fmt::format("{}() {{\n  local state line ret=1\n  _arguments -C -s \\\n",
                                 zsh_function_name(command));
  bool first = true;
  for (const OptionText& option : command.options) {
    if (!option.is_argument) {
      text += zsh_option(option);
    } else if (option.repeats) {
      const bool program = kind_of(option) == "program";
      text += fmt::format("    '*{}:{}:{}' \\\n", program ? ":" : "",
                          zsh_text(option.names.front()), program ? "_normal" : zsh_action(option));
    } else if (command.subcommands.empty()) {
      text += fmt::format("    '{}:{}:{}' \\\n", first ? "1" : "", zsh_text(option.names.front()),
                          zsh_action(option));
      first = false;
    }
  }
  if (command.subcommands.empty()) return text + "    && ret=0\n  return ret\n}\n\n";
  text += "    '1: :->word' '*:: :->below' && ret=0\n  case $state in\n    word)\n";
  text += "      local -a subcommands=(\n";
  for (const CommandText& below : command.subcommands)
    text += fmt::format("        '{}:{}'\n", below.words.back(), zsh_text(below.meaning));
  text += "      )\n      _describe -t commands subcommand subcommands && ret=0\n";
  if (!arguments_of(command).empty()) text += "      _penstock_pools && ret=0\n";
  text += "      ;;\n    below)\n      case $line[1] in\n";
  for (const CommandText& below : command.subcommands)
    text +=
        fmt::format("        {}) {} && ret=0 ;;\n", below.words.back(), zsh_function_name(below));
  return text + "      esac\n      ;;\n  esac\n  return ret\n}\n\n";
}

}  // namespace

std::string bash_completion(const CommandText& root) {
  std::string commands, values;
  for (const CommandText* command : all_of(root)) {
    const std::string path =
        command == &root ? "" : command->name(' ').substr(root.name(' ').size() + 1);
    commands += fmt::format("    {})\n      subcommands={} arguments={}\n      options={} ;;\n",
                            shell_quote(path), shell_quote(subcommands_of(*command)),
                            shell_quote(arguments_of(*command)), shell_quote(options_of(*command)));
    for (const OptionText& option : command->options) {
      if (option.is_argument || !option.takes_next_word()) continue;
      for (const std::string& name : option.names)
        values += fmt::format("    {}) value={} ;;\n", shell_quote(path + " " + name),
                              shell_quote(kind_of(option)));
    }
  }
  return fmt::format(
      "# bash completion for penstock: penstock completion bash\n\n"
      "# PATH: sets subcommands, arguments and options to what this command has.\n"
      "__penstock_command() {{\n  case $1 in\n{}  esac\n}}\n\n"
      "# PATH OPTION: sets value to the kind of its value; fails where it has none.\n"
      "__penstock_value() {{\n  case \"$1 $2\" in\n{}    *) return 1 ;;\n  esac\n}}\n{}",
      commands, values, bash_functions);
}

std::string zsh_completion(const CommandText& root) {
  std::string text =
      "#compdef penstock\n# zsh completion for penstock: penstock completion zsh\n\n"
      "_penstock_pools() {\n"
      "  local -a pools=(${(f)\"$(penstock pool ls 2>/dev/null | sed 1d | cut -d' ' -f1)\"})\n"
      "  _alternative \"pools:pool:compadd -a pools\" 'files:file:_files'\n}\n\n";
  for (const CommandText* command : all_of(root)) text += zsh_function(*command);
  return text +
         "if [[ $funcstack[1] == _penstock ]]; then\n  _penstock \"$@\"\nelse\n"
         "  compdef _penstock penstock\nfi\n";
}

}  // namespace penstock::tools
