"""The completion scripts, generated from the tree of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fabricmon.commands.table import COMMANDS
from fabricmon.commands.tree import FILES, NAMES, Option, Verb, verbs

INCIDENTS = ("explain", "acknowledge")
"""Commands whose ID is an incident id."""
HEAD = "# Written by `fabricmon completion {shell}`; do not edit.\n"


def script(shell: str) -> str:
    """The script for one of SHELLS."""
    first = "#compdef fabricmon\n" if shell == "zsh" else ""  # zsh requires it in the first line
    return first + HEAD.format(shell=shell) + {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](tuple(verbs()))


def _kind(metavar: str, choices: Sequence[str]) -> str:
    """How a value is completed: "words", "file", "dir", "ids", "nodes", or "" for no completion."""
    if choices:
        return "words"
    if metavar in FILES:
        return "file" if metavar == "FILE" else "dir"
    return NAMES.get(metavar, "")


def _operand(verb: Verb) -> tuple[str, tuple[str, ...]]:
    """How the operands are completed, and the words allowed. Only ids of incidents are completed."""
    if verb.verbs:
        return "", ()
    choices = tuple(choice for _, some in verb.operands for choice in some)
    kinds = [kind for metavar, some in verb.operands if (kind := _kind(metavar, some)) not in ("", "words")]
    kind = kinds[0] if kinds else "words" if choices else ""
    return ("" if kind == "ids" and verb.path[0] not in INCIDENTS else kind), choices


# compgen -W would expand $(...) in its words; file names are taken as they are, also with blanks and stars.
_BASH = r"""_fabricmon_list() {
    local word about
    while IFS=$'\t' read -r word about; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$(printf %q "$word")")
    done < <(fabricmon completion "$1" 2>/dev/null)
}
_fabricmon_files() {
    local name
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen "$1" -- "$cur")
}
_fabricmon() {
    local cur prev path word i
    cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" path=""
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        case "$path $word" in"""


def _bash(found: Sequence[Verb]) -> str:
    lines = [_BASH]
    lines += [f"            {shlex.quote(' ' + ' '.join(verb.path))}) path=\"$path $word\" ;;" for verb in found]
    lines += ["        esac", "    done", '    case "$path $prev" in']
    for verb in found:
        for option in verb.options:
            if option.value:
                patterns = "|".join(shlex.quote(f" {' '.join(verb.path)} {flag}") for flag in option.flags)
                lines.append(f"        {patterns}) {_bash_value(option)}; return ;;")
    first = shlex.quote(" ".join([*COMMANDS, "--help", "--version"]))
    lines += ["    esac", '    case "$path" in', f"        '') COMPREPLY=($(compgen -W {first} -- \"$cur\")) ;;"]
    for verb in found:
        lines += _bash_words(verb)
    return "\n".join([*lines, "    esac", "}", "complete -F _fabricmon fabricmon"]) + "\n"


def _bash_words(verb: Verb) -> list[str]:
    flags = " ".join(flag for option in verb.options for flag in option.flags)
    kind, choices = _operand(verb)
    words = " ".join([*(name for name, _ in verb.verbs), *choices]) or flags
    lines = [
        f"        {shlex.quote(' ' + ' '.join(verb.path))})",
        "            if [[ $cur == -* ]]; then",
        f'                COMPREPLY=($(compgen -W {shlex.quote(flags)} -- "$cur"))',
        "            else",
    ]
    if verb.verbs or choices or not kind:
        lines.append(f'                COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$cur"))')
    if kind not in ("", "words"):
        lines.append(f"                {_bash_more(kind)}")
    return [*lines, "            fi", "            ;;"]


def _bash_value(option: Option) -> str:
    kind = _kind(option.value, option.choices)
    if kind == "words":
        return f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.choices))} -- "$cur"))'
    return _bash_more(kind) if kind else "COMPREPLY=()"


def _bash_more(kind: str) -> str:
    if kind in ("file", "dir"):
        return f"_fabricmon_files -{kind[0]}"
    return f"_fabricmon_list {kind}"


# _describe needs a backslash before every backslash and colon of a word.
_ZSH = r"""
_fabricmon_list() {
    local -a found
    local word about
    while IFS=$'\t' read -r word about; do
        word=${word//\\/\\\\}
        found+=("${word//:/\\:}:$about")
    done < <(fabricmon completion $1 2>/dev/null)
    (( $#found )) && _describe -t $1 $1 found
}
"""


def _zsh(found: Sequence[Verb]) -> str:
    lines = [_ZSH]
    for verb in found:
        lines += [f"{_function(verb.path)}() {{"]
        if verb.verbs:
            lines += _zsh_verbs(verb.verbs, verb.path)
        else:
            arguments = [_zsh_option(option) for option in verb.options]
            arguments += [_zsh_operand(verb)]
            lines += ["    _arguments -s -S \\"]
            lines += ["        " + " \\\n        ".join(shlex.quote(argument) for argument in arguments if argument)]
        lines += ["}", ""]
    lines += ["_fabricmon() {", *_zsh_verbs([(name, line) for name, (_, line) in COMMANDS.items()], ()), "}", ""]
    lines += ['if [[ $funcstack[1] == _fabricmon ]]; then _fabricmon "$@"; else compdef _fabricmon fabricmon; fi']
    return "\n".join(lines) + "\n"


def _function(path: Sequence[str]) -> str:
    return "_fabricmon_" + "_".join(path).replace("-", "_")


def _zsh_verbs(below: Sequence[tuple[str, str]], path: tuple[str, ...]) -> list[str]:
    rows = [f"        {shlex.quote(name + ':' + line.replace(':', ' -'))}" for name, line in below]
    cases = [f"            {name}) {_function((*path, name))} ;;" for name, _ in below]
    return [
        "    local -a words_here",
        "    words_here=(",
        *rows,
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe -t commands command words_here",
        "    else",
        "        shift words; (( CURRENT-- ))",
        "        case $words[1] in",
        *cases,
        "        esac",
        "    fi",
    ]


def _zsh_value(metavar: str, choices: Sequence[str]) -> str:
    kind = _kind(metavar, choices)
    if kind == "words":
        return f"({' '.join(choices)})"
    # a blank before a function: it is called with these words alone
    lists = {"ids": " _fabricmon_list ids", "nodes": " _fabricmon_list nodes"}
    return {"file": "_files", "dir": "_files -/", **lists}.get(kind, " ")


def _zsh_option(option: Option) -> str:
    about = "".join(" " if c in "[]:" else c for c in option.help)
    flag = next((flag for flag in option.flags if flag.startswith("--")), option.flags[0])
    value = f":{option.value}:{_zsh_value(option.value, option.choices)}" if option.value else ""
    return f"*{flag}[{about}]{value}"


def _zsh_operand(verb: Verb) -> str:
    kind, choices = _operand(verb)
    if not kind:
        return ""
    metavars = [metavar for metavar, some in verb.operands if _kind(metavar, some) == kind]
    return f"*:{metavars[0]}:{_zsh_value(metavars[0], choices if kind == 'words' else ())}"


_FISH = """function __fabricmon_words
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or echo $word
    end
end
function __fabricmon_at
    set -l here (__fabricmon_words)
    test "$here" = "$argv"
end
function __fabricmon_below
    set -l here (__fabricmon_words)
    set -l n (count $argv)
    test (count $here) -ge $n; and test "$here[1..$n]" = "$argv"
end
complete -c fabricmon -f"""


def _fish(found: Sequence[Verb]) -> str:
    lines = [_FISH]
    first = "not __fish_seen_subcommand_from " + " ".join(COMMANDS)
    for name, (_, about) in COMMANDS.items():
        lines.append(f"complete -c fabricmon -n {shlex.quote(first)} -a {name} -d {shlex.quote(about)}")
    for verb in found:
        where = "__fabricmon_at" if verb.verbs else "__fabricmon_below"
        here = f"complete -c fabricmon -n {shlex.quote(where + ' ' + ' '.join(verb.path))}"
        lines += [f"{here} -a {name} -d {shlex.quote(line)}" for name, line in verb.verbs]
        for option in verb.options:
            flags = "".join(
                f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in option.flags
            )
            lines.append(f"{here}{flags}{_fish_value(option.value, option.choices)} -d {shlex.quote(option.help)}")
        kind, choices = _operand(verb)
        kinds = dict.fromkeys((kind, "words" if choices else ""))
        lines += [f"{here}{_fish_words(one, choices)}" for one in kinds if one]
    return "\n".join(lines) + "\n"


def _fish_value(metavar: str, choices: Sequence[str]) -> str:
    kind = _kind(metavar, choices)
    needs = "-r" if kind in ("file", "dir") else "-x"
    return f" {needs}{_fish_words(kind, choices)}" if metavar else ""


def _fish_words(kind: str, choices: Sequence[str]) -> str:
    if kind == "words":
        return f" -a {shlex.quote(' '.join(choices))}"
    if kind in ("file", "dir"):
        return " -F"
    return f" -a '(fabricmon completion {kind} 2>/dev/null)'" if kind else ""
