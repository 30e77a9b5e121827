"""fabricmon(1), written from the tree of the command line, in the macros of man(7)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from fabricmon import __version__
from fabricmon.commands.table import COMMANDS, groups, module_of
from fabricmon.commands.tree import Option, Verb, verbs

ABOUT = (
    "An agent on every node reads what the kernel, the drivers and NVML know of its links. A centre follows all "
    "agents, works out which one thing is broken, and tells that once, with the readings that prove it. The commands "
    "below run both, ask the centre, and look at a node without it."
)
SHARED = "the centre"
"""Title of the group of options that many commands have; they are told once."""
ENVIRONMENT = (
    ("FABRICMON_CENTRE", "The address of the centre that is asked, such as http://centre:9791."),
    ("FABRICMON_TOKEN_FILE", "A file with the bearer token by which the centre lets one in; no agent is shown it."),
    ("FABRICMON_USER_FILE", "A file with USER:PASSWORD, where it wants these."),
    ("FABRICMON_CA_FILE", "Certificates of who may vouch for the centre, in place of the system's."),
    ("FABRICMON_CERT_FILE, FABRICMON_KEY_FILE", "The certificate by which one shows oneself, and its key."),
    ("FABRICMON_CONFIG", "The centre's configuration that notify reads, else /etc/fabricmon/central.yaml."),
    ("NO_COLOR", "Set to anything: no colours."),
    ("COLUMNS", "How wide output is that goes to no terminal; without it nothing is cut off there."),
)
FILES = (
    ("/etc/fabricmon/agent.yaml, /etc/fabricmon/central.yaml", "Where systemd's units look for the configuration."),
    ("/var/lib/fabricmon", "Where the centre keeps incidents, silences and what is still to be told."),
)
CODES = (
    ("0", "Done; of status and check: pass."),
    (
        "1",
        "It could not be done, or what was asked for is not there; of status and check: warning. Of topology --strict: "
        "something is odd. Of replay: a decision is another than it was. Of scenario and demo --once: not all came as "
        "expected.",
    ),
    (
        "2",
        "A wrong command line or configuration; of status and check: critical. Of topology: the centre cannot be asked "
        "or a file not be used. Of replay and scenario: a recording or a file cannot be used.",
    ),
    (
        "3",
        "Of status and check: unknown, which is never a pass. Of fabric: part of the fabric did not answer in time.",
    ),
    ("130", "Ended by Ctrl-C."),
)


def page() -> str:
    """The source."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.\\" Written by `fabricmon man --source` from the command line itself; edit that instead.'
    yield f'.TH FABRICMON 1 "" "fabricmon {__version__}" "User Commands"'
    yield ".SH NAME"
    yield "fabricmon \\- fabric telemetry and health monitoring for GPU clusters"
    yield ".SH SYNOPSIS"
    yield ".B fabricmon"
    yield ".I COMMAND"
    yield ".RI [ OPTIONS ]"
    yield ".SH DESCRIPTION"
    yield _text(ABOUT)
    tree = list(verbs())
    for title, names in groups():
        yield f".SH {title.upper()}"
        for name in names:
            yield from _command(name, [verb for verb in tree if verb.path[0] == name])
    yield ".SH OPTIONS BY WHICH A CENTRE IS ASKED"
    for option in next(verb for verb in tree if verb.path == ("status",)).options:
        if option.group == SHARED:
            yield from _told(option)
    yield from _pairs("EXIT STATUS", CODES)
    yield from _pairs("ENVIRONMENT", ENVIRONMENT)
    yield from _pairs("FILES", FILES)
    yield ".SH SEE ALSO"
    yield _text("The documents that come with fabricmon: install, api, rules, topology.")


def _command(name: str, below: list[Verb]) -> Iterator[str]:
    yield f'.SS "{_escape(f"fabricmon {name}")}"'
    module = module_of(name)
    for number, paragraph in enumerate(inspect.cleandoc(module.__doc__ or COMMANDS[name][1]).split("\n\n")):
        if number:
            yield ".PP"
        yield _text(paragraph)
    for verb in below:
        if verb.options or verb.operands:
            yield from _synopsis(verb)
    if examples := getattr(module, "EXAMPLES", ""):
        yield ".PP"
        yield "Examples:"
        yield ".PP"
        yield ".nf"
        yield ".RS"
        yield from (_escape(line) for line in examples.splitlines())
        yield ".RE"
        yield ".fi"


def _synopsis(verb: Verb) -> Iterator[str]:
    words = " ".join(("fabricmon", *verb.path))
    operands = " ".join(f"\\fI{_escape('|'.join(choices) or metavar)}\\fR" for metavar, choices in verb.operands)
    yield ".PP"
    yield f"\\fB{_escape(words)}\\fR [OPTIONS] {operands}".rstrip()
    if verb.about and len(verb.path) > 1:
        yield ".br"
        yield _text(verb.about[0].upper() + verb.about[1:] + ".")
    for option in verb.options:
        if option.flags != ("-h", "--help") and option.group != SHARED:
            yield from _told(option)
    if any(option.group == SHARED for option in verb.options):
        yield ".PP"
        yield "Besides, the options by which a centre is asked, below."


def _told(option: Option) -> Iterator[str]:
    yield ".TP"
    yield _flags(option)
    yield _text(option.help or "see its name")


def _flags(option: Option) -> str:
    value = "|".join(option.choices) or option.value
    said = f" \\fI{_escape(value)}\\fR" if value else ""
    return ", ".join(f"\\fB{_escape(flag)}\\fR{said}" for flag in option.flags)


def _pairs(title: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {title}"
    for name, text in rows:
        yield ".TP"
        yield f".B {_escape(name)}"
        yield _text(text)


def _text(text: str) -> str:
    return _escape(" ".join(text.split()))


def _escape(text: str) -> str:
    said = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga")
    said = said.replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{said}" if said[:1] in (".", "'") else said
