"""git's sub-commands that only read, each with its harmless flags (git 2.39 and its neighbours).

What is left out on purpose: everything that starts a program (`--ext-diff`, `--textconv`, `--filters`, `-O` and
`--open-files-in-pager` of grep, `--show-signature` with gpg, `help`), writes (`--output`, `--remerge-diff`, `describe
--dirty`, which refreshes the index), asks a network, or follows a submodule into its own configuration. What of this
a format, a sort key or another value can name is left out in `formats`.
"""

from __future__ import annotations

from collections.abc import Sequence

from codeagent.approval import formats
from codeagent.approval.flags import Parsed, Program, Refused, parse
from codeagent.approval.grammar import Word

_DIFF = (
    "-u -p -s -U? -W -w -b -a -z -R -B? -M? -C? -D -l# -S: -G: -X? --patch --no-patch --unified= --raw "
    "--patch-with-raw --patch-with-stat --stat? --stat-width= --stat-name-width= --stat-count= --stat-graph-width= "
    "--numstat --shortstat --compact-summary --summary --name-only --name-status --dirstat? "
    "--cumulative --minimal --patience --histogram --anchored= --diff-algorithm= --indent-heuristic "
    "--no-indent-heuristic --color? --no-color --color-moved? --no-color-moved --color-moved-ws= --word-diff? "
    "--word-diff-regex= --color-words? --no-renames --rename-empty --no-rename-empty --check --full-index --binary "
    "--abbrev? --no-abbrev --break-rewrites? --find-renames? --find-copies? --find-copies-harder "
    "--irreversible-delete --diff-filter= --pickaxe-all --pickaxe-regex --relative? --no-relative --text "
    "--ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines "
    "--ignore-matching-lines= --inter-hunk-context= --function-context --exit-code --quiet --no-ext-diff "
    "--no-textconv --ignore-submodules? --src-prefix= --dst-prefix= --no-prefix --line-prefix= "
    "--ita-invisible-in-index --output-indicator-new= --output-indicator-old= --output-indicator-context= "
)
_REVISIONS = (
    "-# -n# -i -E -F -P -g --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= "
    "--grep-reflog= --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings "
    "--perl-regexp --merges --no-merges --min-parents= --max-parents= --no-min-parents --no-max-parents "
    "--first-parent --exclude-first-parent-only --not --all --branches? --tags? --remotes? --glob= --exclude= "
    "--reflog --walk-reflogs --cherry-pick --cherry-mark --cherry --left-only --right-only --left-right --boundary "
    "--simplify-by-decoration --show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path? "
    "--date-order --author-date-order --topo-order --reverse --no-walk? --do-walk --pretty? --format= --oneline "
    "--abbrev-commit --no-abbrev-commit --encoding= --expand-tabs? --no-expand-tabs --notes? --no-notes "
    "--relative-date --date= --parents --children --graph --show-linear-break? --count --ignore-missing "
    "--single-worktree --merge "
)
_LOG = (
    _DIFF + _REVISIONS + "-L: -c -m -t -q --cc --follow --no-decorate --decorate? --decorate-refs= "
    "--decorate-refs-exclude= --source --mailmap --no-mailmap --use-mailmap --full-diff --log-size "
    "--combined-all-paths --diff-merges= --no-diff-merges --clear-decorations "
)
_GREP = (
    "-# -A# -B# -C# -m# -e! -f: -a -I -i -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -W -q -r --cached --untracked "
    "--no-index --exclude-standard --no-exclude-standard --text --no-textconv --ignore-case --max-depth= "
    "--recursive --no-recursive --word-regexp --invert-match --full-name --extended-regexp --basic-regexp "
    "--perl-regexp --fixed-strings --line-number --column --files-with-matches --name-only --files-without-match "
    "--null --only-matching --count --color? --no-color --break --heading --show-function --context= "
    "--after-context= --before-context= --function-context --max-count= --threads= --and --or --not --all-match "
    "--quiet"
)
_REF_FILTERS = (
    "--contains~ --no-contains~ --merged~ --no-merged~ --points-at= --sort= --format= --color? --no-color "
    "--column? --no-column --abbrev? --no-abbrev -i --ignore-case --omit-empty"
)


def _config(parsed: Parsed) -> None:
    if not parsed.has("--get", "--get-all", "--get-regexp", "--list", "-l"):
        raise Refused("only --get and --list are known to be harmless")


def _reflog(parsed: Parsed) -> None:
    if parsed.operands and parsed.operands[0].text not in ("show", "HEAD"):
        raise Refused(f"{parsed.operands[0].text} is not known to be harmless")
    if acting := _REFLOG_ACTING & {value for _, value in parsed.options}:
        raise Refused(f"{min(acting)} may be taken for a sub-command")


def _stash_show(parsed: Parsed) -> None:
    """git sorts these words by their first letter, whatever `--` says."""
    for operand in parsed.operands:
        if operand.text.startswith("-"):
            raise Refused(f"{operand.text} may be taken for an option")


def _branch(parsed: Parsed) -> None:
    if parsed.operands and not parsed.has("--list"):
        raise Refused(f"{parsed.operands[0].text} would be created")


def _tag(parsed: Parsed) -> None:
    if parsed.operands and not parsed.has("--list", "-l"):
        raise Refused(f"{parsed.operands[0].text} would be created")


COMMANDS: dict[str, Program] = {
    "log": Program(_LOG, values=formats.OF_COMMITS),
    "show": Program(_LOG, values=formats.OF_COMMITS),
    "whatchanged": Program(_LOG, values=formats.OF_COMMITS),
    "diff": Program(_DIFF + "--cached --staged --merge-base --no-index -0 -1 -2 -3 --base --ours --theirs --cc -c"),
    "diff-tree": Program(_DIFF + _REVISIONS + "-r -t -m -c --cc --root --no-commit-id", values=formats.OF_COMMITS),
    "rev-list": Program(
        _REVISIONS + "--objects --header --timestamp --disk-usage? --no-commit-header", values=formats.OF_COMMITS
    ),
    "status": Program(
        "-s -b -v -u? -z --short --branch --show-stash --porcelain? --long --verbose --untracked-files? "
        "--ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames "
        "--no-renames --find-renames?"
    ),
    "blame": Program(
        "-b -c -f -n -p -s -e -l -t -w -L: -M? -C? -S: --root --show-stats --show-name --show-number --show-email "
        "--porcelain --line-porcelain --incremental --encoding= --contents= --date= --since= --until= --first-parent "
        "--reverse --ignore-rev= --ignore-revs-file= --color-lines --color-by-age --abbrev= --score-debug "
        "--no-progress"
    ),
    "ls-files": Program(
        "-c -d -i -k -m -o -s -t -u -v -z -x: -X: --cached --deleted --modified --others --ignored --stage "
        "--unmerged --killed --directory --no-empty-directory --eol --deduplicate --exclude= --exclude-from= "
        "--exclude-per-directory= --exclude-standard --error-unmatch --with-tree= --full-name --abbrev? --debug "
        "--format=",
        values=formats.OF_ENTRIES,
    ),
    "ls-tree": Program(
        "-d -r -t -l -z --long --name-only --name-status --object-only --full-name --full-tree --abbrev? --format=",
        values=formats.OF_ENTRIES,
    ),
    "grep": Program(_GREP),
    "rev-parse": Program(
        "-q --verify --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --all --branches? --tags? "
        "--remotes? --show-toplevel --show-prefix --show-cdup --show-superproject-working-tree --git-dir "
        "--absolute-git-dir --git-common-dir --is-inside-git-dir --is-inside-work-tree --is-bare-repository "
        "--is-shallow-repository --show-object-format? --revs-only --no-revs --flags --no-flags --default= --not "
        "--since= --until= --git-path="
    ),
    "branch": Program(
        "-a -r -v -l --all --remotes --verbose --list --show-current " + _REF_FILTERS,
        check=_branch,
        values=formats.OF_REFS,
    ),
    "tag": Program("-l -n? --list " + _REF_FILTERS, check=_tag, values=formats.OF_REFS),
    "for-each-ref": Program("--count= --stdin " + _REF_FILTERS, values=formats.OF_REFS),
    "show-ref": Program(
        "-d -s? -q --head --heads --tags --branches --dereference --hash? --verify --abbrev? --quiet"
    ),
    "describe": Program(
        "--all --tags --contains --abbrev= --candidates= --exact-match --debug --long --match= --exclude= --always "
        "--first-parent"
    ),
    "name-rev": Program("--tags --refs= --exclude= --all --name-only --no-undefined --always"),
    "merge-base": Program("-a --all --octopus --independent --is-ancestor --fork-point", globs=False),
    "shortlog": Program(
        _REVISIONS + "-s -e -n -c -w? --numbered --summary --email --committer --group=", values=formats.OF_COMMITS
    ),
    "cat-file": Program(
        "-t -s -e -p --batch? --batch-check? --batch-all-objects --buffer --unordered --allow-unknown-type --mailmap",
        values=formats.OF_ENTRIES,
    ),
    "reflog": Program(_LOG, check=_reflog, values=formats.OF_COMMITS),
    "stash list": Program(_LOG, values=formats.OF_COMMITS),
    "stash show": Program(_DIFF, most=1, check=_stash_show),
    "remote": Program("-v --verbose", most=0),
    "remote get-url": Program("--all --push", least=1, most=1),
    "config": Program(
        "-l -z --get --get-all --get-regexp --list --null --name-only --show-origin --show-scope --local --global "
        "--system --worktree --type= --bool --int --includes --no-includes --default=",
        # With flags before operands: of `set a.b --get`, newer versions take --get for the value that is set.
        most=2,
        check=_config,
    ),
    "worktree list": Program("-v -z --porcelain --verbose", most=0),
    "count-objects": Program("-v -H --verbose --human-readable", most=0),
    "check-ignore": Program("-q -v -z -n --quiet --verbose --stdin --non-matching --no-index"),
    "check-attr": Program("-a -z --all --stdin --cached --source="),
    "cherry": Program("-v --verbose --abbrev?", globs=False),
    "version": Program("--build-options", most=0),
}
_REFLOG_ACTING = frozenset(("expire", "delete", "drop", "write"))
_NESTED = ("stash", "remote", "worktree")
_GLOBAL = frozenset(
    "--no-pager -P --no-optional-locks --no-replace-objects --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
    "--icase-pathspecs".split()
)


def git(words: Sequence[Word]) -> None:
    """`words` are what follows `git`. Raises Refused."""
    waiting = list(words)
    if [word.text for word in waiting] in (["--version"], ["-v"]):
        return
    while waiting and waiting[0].text.startswith("-"):
        flag = waiting.pop(0).text
        if flag == "-C" and waiting and waiting[0].glob is None and waiting[0].text[:1] != "-":
            waiting.pop(0)
        elif flag not in _GLOBAL:
            raise Refused(f"git {flag} is not known to be harmless")
    if not waiting:
        raise Refused("git lacks a sub-command")
    name = waiting.pop(0)
    if not name.bare:
        raise Refused("the sub-command is not written plainly")
    command = name.text
    if command in _NESTED and waiting and waiting[0].text[:1] != "-":
        command = f"{command} {waiting.pop(0).text}"
    program = COMMANDS.get(command)
    if program is None:
        raise Refused(f"git {command} is not known to be read-only")
    try:
        parse(program, waiting)
    except Refused as refusal:
        raise Refused(f"git {command}: {refusal}") from None
