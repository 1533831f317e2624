"""Which simple commands only read: the table of programs, and the question asked of it.

An entry is the flags and operands with which GNU, busybox and the usual other implementation of a program only
read and print. Everything else, unlisted programs above all, is not known to be read-only. Entries were written
from the manuals of coreutils 9, findutils 4.9, grep 3.8, ripgrep 14, sed 4.9, diffutils 3.8, util-linux 2.38,
file 5.44, tree 2.1, jq 1.7, binutils 2.40 and busybox 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codeagent.approval import formats, git, jq, scripts
from codeagent.approval.flags import Program, Refused, parse
from codeagent.approval.grammar import Command, Word

_LS = (
    "-aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I: -T# -w# --all --almost-all --author --escape --block-size= "
    "--ignore-backups --color? --directory --dired --classify? --file-type --format= --full-time "
    "--group-directories-first --no-group --human-readable --si --dereference-command-line "
    "--dereference-command-line-symlink-to-dir --hide= --hyperlink? --indicator-style= --inode --ignore= --kibibytes "
    "--dereference --numeric-uid-gid --literal --hide-control-chars --show-control-chars --quote-name "
    "--quoting-style= --reverse --recursive --size --sort= --time= --time-style= --tabsize= --width= --context --zero"
)
_GREP = (
    "-abcEFGhHiIlLnoPqRrsTuUvVwxyzZ -# -A# -B# -C# -m# -d: -D: -e! -f: --extended-regexp --fixed-strings "
    "--basic-regexp --perl-regexp --regexp= --file= --ignore-case --no-ignore-case --word-regexp --line-regexp "
    "--null-data --no-messages --invert-match --max-count= --byte-offset --line-number --line-buffered "
    "--with-filename --no-filename --label= --only-matching --quiet --silent --binary-files= --text --directories= "
    "--devices= --recursive --dereference-recursive --include= --exclude= --exclude-from= --exclude-dir= "
    "--files-without-match --files-with-matches --count --initial-tab --null --before-context= --after-context= "
    "--context= --color? --colour? --binary --group-separator= --no-group-separator"
)
# Left out: --pre, --pre-glob, --hostname-bin and -z (--search-zip), which start programs.
_RG = (
    "-abcFHIiLlNnoPpqSsUuvVwx0. -A# -B# -C# -E: -e! -f: -g: -j# -m# -M# -d# -r: -t: -T: --after-context= "
    "--before-context= --context= --auto-hybrid-regex --binary --block-buffered --byte-offset --case-sensitive "
    "--color= --colors= --column --no-column --context-separator= --no-context-separator --count --count-matches "
    "--crlf --dfa-size-limit= --encoding= --engine= --field-context-separator= --field-match-separator= --file= "
    "--files --files-with-matches --files-without-match --fixed-strings --no-fixed-strings --follow --no-follow "
    "--glob= --glob-case-insensitive --heading --no-heading --hidden --no-hidden --iglob= --ignore-case "
    "--ignore-file= --ignore-file-case-insensitive --include-zero --invert-match --json --line-buffered "
    "--line-number --line-regexp --max-columns= --max-columns-preview --max-count= --max-depth= --maxdepth= "
    "--max-filesize= --mmap --no-mmap --multiline --multiline-dotall --no-config --no-filename --no-ignore "
    "--no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages "
    "--no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --no-pcre2-unicode --no-pre --no-require-git "
    "--no-search-zip --no-unicode --null --null-data --one-file-system --only-matching --passthru --passthrough "
    "--path-separator= --pcre2 --pretty --quiet --regex-size-limit= --regexp= --replace= --smart-case --sort= "
    "--sortr= --sort-files --stats --stop-on-nonmatch --text --threads= --trim --type= --type-add= --type-clear= "
    "--type-list --type-not= --unrestricted --vimgrep --with-filename --word-regexp"
)
# Left out: -l and --paginate, which start pr.
_DIFF = (
    "-abBcdeEiNnpPqrstTuwyZ -C# -U# -D: -F: -I: -L: -S: -W# -x: -X: --normal --brief --report-identical-files "
    "--context? --unified? --ed --rcs --side-by-side --width= --left-column --suppress-common-lines "
    "--show-c-function --show-function-line= --label= --expand-tabs --initial-tab --tabsize= --suppress-blank-empty "
    "--recursive --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case "
    "--no-ignore-file-name-case --exclude= --exclude-from= --starting-file= --from-file= --to-file= --ignore-case "
    "--ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines "
    "--ignore-matching-lines= --text --strip-trailing-cr --minimal --horizon-lines= --speed-large-files --color? "
    "--palette="
)
_SUMS = "-bctwz --binary --check --text --tag --ignore-missing --quiet --status --strict --warn --zero"
_PATHS = (
    "-eEfLmnPqsvz --canonicalize --canonicalize-existing --canonicalize-missing --logical --physical --quiet "
    "--silent --strip --no-symlinks --no-newline --verbose --zero"
)
_VERSION_ALONE = ("--version", "--help")

PROGRAMS: dict[str, Program] = {
    "ls": Program(_LS),
    "dir": Program(_LS),
    "vdir": Program(_LS),
    "cat": Program(
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting"
    ),
    "head": Program("-qvz -# -n# -c# --lines= --bytes= --quiet --silent --verbose --zero-terminated"),
    "tail": Program(
        "-fFqvz -# -n# -c# -s# --lines= --bytes= --follow? --quiet --silent --verbose --zero-terminated --retry "
        "--sleep-interval= --pid= --max-unchanged-stats="
    ),
    "wc": Program("-cmlLw --bytes --chars --lines --max-line-length --words --total="),
    "nl": Program(
        "-p -b: -d: -f: -h: -i# -l# -n: -s: -v# -w# --body-numbering= --section-delimiter= --footer-numbering= "
        "--header-numbering= --line-increment= --join-blank-lines= --number-format= --no-renumber "
        "--number-separator= --starting-line-number= --number-width="
    ),
    "stat": Program("-Lft -c: --dereference --file-system --format= --printf= --terse --cached="),
    # Left out: -C writes a compiled magic file, -m and -f read what to do from files, -p sets times, -z and -Z
    # start programs.
    "file": Program(
        "-bhikLnNr0 -F: -e: --brief --mime --mime-type --mime-encoding --no-dereference --dereference --keep-going "
        "--no-buffer --no-pad --raw --print0 --separator= --exclude= --extension"
    ),
    "grep": Program(_GREP),
    "egrep": Program(_GREP),
    "fgrep": Program(_GREP),
    "rg": Program(_RG),
    # Left out: -o, --compress-program, -T (writes there), --files0-from and --random-source.
    "sort": Program(
        "-bdfghiMnRrVsuzcCm -k: -t: -S: --ignore-leading-blanks --dictionary-order --ignore-case "
        "--general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort "
        "--reverse --sort= --version-sort --batch-size= --check? --debug --key= --merge --stable --buffer-size= "
        "--field-separator= --parallel= --unique --zero-terminated"
    ),
    "uniq": Program(
        "-cdDuiz -f# -s# -w# --count --repeated --all-repeated? --group? --skip-fields= --ignore-case --skip-chars= "
        "--unique --zero-terminated --check-chars=",
        most=1,
    ),
    "cut": Program(
        "-nsz -b: -c: -d: -f: --bytes= --characters= --delimiter= --fields= --complement --only-delimited "
        "--output-delimiter= --zero-terminated"
    ),
    "tr": Program("-cCdst --complement --delete --squeeze-repeats --truncate-set1", least=1, most=2),
    "diff": Program(_DIFF),
    "cmp": Program("-bls -i: -n# --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent"),
    "comm": Program("-123z --check-order --nocheck-order --output-delimiter= --total --zero-terminated"),
    "paste": Program("-sz -d: --delimiters= --serial --zero-terminated"),
    "column": Program(
        "-dexLtJ -c# -s: -o: -N: -R: -T: -H: -O: -W: --table --separator= --output-separator= --output-width= "
        "--table-columns= --table-right= --table-truncate= --table-hide= --fillrows --json"
    ),
    "join": Program(
        "-iz -a: -e: -j: -o: -t: -v: -1: -2: --ignore-case --check-order --nocheck-order --header --zero-terminated"
    ),
    "od": Program(
        "-abcdfilosxv -A: -j: -N: -t: -w? --address-radix= --skip-bytes= --read-bytes= --format= --width? --endian= "
        "--output-duplicates"
    ),
    "hexdump": Program(
        "-bcCdovx -n# -s# -e: --canonical --length= --skip= --no-squeezing", values=formats.OF_HEXDUMP
    ),
    "hd": Program("-bcCdovx -n# -s#"),
    "strings": Program(
        "-afdw -# -n# -t: -e: -s: --all --data --bytes= --print-file-name --radix= --encoding= "
        "--include-all-whitespace --output-separator=",
        check=scripts.no_response_file,
    ),
    "du": Program(
        "-0abchHklLmPsSx -B: -d# -t: -X: --null --all --apparent-size --block-size= --bytes --total "
        "--dereference-args --max-depth= --human-readable --inodes --dereference --no-dereference --separate-dirs "
        "--si --summarize --threshold= --time? --time-style= --exclude-from= --exclude= --one-file-system"
    ),
    "df": Program("-ahHiklPT -B: -t: -x: --all --human-readable --si --inodes --portability --print-type --total"),
    # Left out: -o writes, -R writes 00Tree.html files, --fromfile.
    "tree": Program(
        "-aAcCdDfFghiJlnNpqQrsStuUvxX -L# -I: -P: --dirsfirst "
        "--filesfirst --du --gitignore --ignore-case --inodes --device --matchdirs --metafirst --noreport --prune "
        "--si --charset= --filelimit= --timefmt= --sort=",
        glued=False,
    ),
    "basename": Program("-az -s: --multiple --suffix= --zero"),
    "dirname": Program("-z --zero"),
    "realpath": Program(_PATHS + " --relative-to= --relative-base="),
    "readlink": Program(_PATHS),
    "md5sum": Program(_SUMS),
    "sha1sum": Program(_SUMS),
    "sha224sum": Program(_SUMS),
    "sha256sum": Program(_SUMS),
    "sha384sum": Program(_SUMS),
    "sha512sum": Program(_SUMS),
    "b2sum": Program(_SUMS + " -l# --length="),
    "cksum": Program(_SUMS + " -a: -l# --algorithm= --length= --untagged --raw --base64 --debug"),
    "sum": Program("-rs --sysv"),
    "base64": Program("-di -w# --decode --ignore-garbage --wrap=", most=1),
    "base32": Program("-di -w# --decode --ignore-garbage --wrap=", most=1),
    "cd": Program("-LP", most=1),
    "pwd": Program("-LP", most=0),
    "rev": Program(""),
    "tac": Program("-br -s: --before --regex --separator="),
    "fold": Program("-bs -w# --bytes --spaces --width="),
    "fmt": Program("-cstu -p: -w# -g# --crown-margin --split-only --tagged-paragraph --uniform-spacing --width="),
    "expand": Program("-i -t: --initial --tabs="),
    "unexpand": Program("-a -t: --all --first-only --tabs="),
    "seq": Program("-w -# -f: -s: --equal-width --format= --separator=", least=1, values=formats.OF_SEQ),
    "date": Program(
        "-uR -d: -r: -I? --utc --universal --date= --reference= --iso-8601? --rfc-3339= --rfc-email --rfc-2822",
        most=1,
        check=scripts.date_format,
    ),
    "which": Program("-as", least=1),
    "type": Program("-aftpP", least=1),
    "id": Program("-agGnruzZ --context --group --groups --name --real --user --zero", most=1),
    "groups": Program("", most=1),
    "whoami": Program("", most=0),
    "hostname": Program("-dfiIs", most=0),
    "arch": Program("", most=0),
    "nproc": Program("--all --ignore=", most=0),
    "uptime": Program("-ps", most=0),
    "free": Program("-bkmghltw", most=0),
    "uname": Program(
        "-aimnoprsv --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor "
        "--hardware-platform --operating-system",
        most=0,
    ),
    "nm": Program(
        "-aABCDgnopPrSuv -t: -f: --debug-syms --print-file-name --demangle? --dynamic --extern-only --numeric-sort "
        "--portability --no-sort --print-size --size-sort --reverse-sort --radix= --format= --undefined-only "
        "--defined-only",
        check=scripts.no_response_file,
    ),
    "objdump": Program(
        "-adDfhprRsStTxCwz -j: -M: --disassemble? --disassemble-all --all-headers --syms --dynamic-syms "
        "--section-headers --headers --file-headers --private-headers --full-contents --reloc --section= --source "
        "--no-show-raw-insn --demangle? --wide",
        check=scripts.no_response_file,
    ),
    "readelf": Program(
        "-ahlSgtesnruVdAIW -p: -x: --all --file-header --program-headers --segments --section-headers --sections "
        "--section-groups --section-details --headers --symbols --syms --dyn-syms --notes --relocs --unwind "
        "--dynamic --version-info --arch-specific --histogram --wide --string-dump= --hex-dump=",
        check=scripts.no_response_file,
    ),
    "size": Program("-ABdotx --format= --radix= --totals --common", check=scripts.no_response_file),
}


def _anything(_words: Sequence[Word]) -> None:
    """The program prints or compares its operands and can do nothing else."""


_OWN_READERS: dict[str, Callable[[Sequence[Word]], None]] = {
    "echo": _anything,
    "true": _anything,
    "false": _anything,
    ":": _anything,
    "expr": _anything,
    "exit": scripts.leave,
    "command": scripts.command,
    "find": scripts.find,
    "git": git.git,
    "jq": jq.jq,
    "printf": scripts.printf,
    "ps": scripts.ps,
    "sed": scripts.sed,
    "sleep": scripts.sleep,
    "test": scripts.test,
    "[": scripts.bracket,
    "xxd": scripts.xxd,
}

# Programs of which only the version is harmless. Left out on purpose: those that read the repository's own
# configuration before they print it (mvn, gradle, cargo and rustc by rustup, pytest, yarn, php; go, which runs the
# toolchain that go.mod names).
_VERSIONS: dict[str, tuple[str, ...]] = {
    "python3": ("--version", "-V"),
    "python": ("--version", "-V"),
    "node": ("--version", "-v"),
    "nodejs": ("--version", "-v"),
    "java": ("-version", "--version"),
    "javac": ("-version", "--version"),
    "gcc": ("--version",),
    "g++": ("--version",),
    "cc": ("--version",),
    "c++": ("--version",),
    "clang": ("--version",),
    "clang++": ("--version",),
    "make": ("--version",),
    "cmake": ("--version",),
    "perl": ("--version", "-v"),
    "ruby": ("--version", "-v"),
    "bash": ("--version",),
}


def require_read_only(command: Command) -> None:
    """Raises Refused, whose message names the program and the part that is not known to be harmless."""
    name, words = command.words[0], command.words[1:]
    if not name.bare or name.glob is not None:
        raise Refused(f"the program's name is not written plainly ({name.text})")
    program, own = PROGRAMS.get(name.text), _OWN_READERS.get(name.text)
    if name.text in _VERSIONS:
        if len(words) != 1 or words[0].text not in _VERSIONS[name.text]:
            raise Refused(f"{name.text} may do anything; only its version flag alone is known to be harmless")
    elif program is None and own is None:
        raise Refused(f"{name.text} is not known to be read-only")
    elif name.text != "git" and len(words) == 1 and words[0].text in _VERSION_ALONE:
        return
    else:
        try:
            _judge(program, own, words)
        except Refused as refusal:
            told = str(refusal)
            raise Refused(told if told.startswith(f"{name.text} ") else f"{name.text}: {told}") from None


def _judge(program: Program | None, own: Callable[[Sequence[Word]], None] | None, words: Sequence[Word]) -> None:
    if own is not None:
        _no_leading_pattern(own, words)
        own(words)
    elif program is not None:
        parse(program, words)


def _no_leading_pattern(own: Callable[[Sequence[Word]], None], words: Sequence[Word]) -> None:
    """A word like `*` may become anything; only readers that go by `--` know where it cannot be an option."""
    if own not in (git.git, scripts.sed):
        for word in words:
            if word.glob == "":
                raise Refused(f"the pattern {word.text} may become an option")


def known_programs() -> set[str]:
    """The names of all programs in the table."""
    return {*PROGRAMS, *_OWN_READERS, *_VERSIONS}
