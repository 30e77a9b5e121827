"""Reading a configuration: what is accepted, and that every mistake is named with its place."""

from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from fabricmon import cli, config
from fabricmon.commands.config import duration_text, rate_text
from fabricmon.config.decode import Decoder
from fabricmon.config.source import ConfigError, parse
from fabricmon.model import Severity
from fabricmon.senders import CONFIGS
from fabricmon.units import Duration, Rate


@pytest.fixture
def write(tmp_path):
    def made(text):
        path = tmp_path / "fabricmon.yaml"
        path.write_text(text)
        return str(path)

    return made


def problems(path, overrides=None, **more):
    with pytest.raises(ConfigError) as caught:
        config.load(path, overrides, **more)
    return [str(p).replace(str(path), "F") for p in caught.value.problems]


# --- what is accepted


def test_no_file_and_an_empty_file_mean_the_defaults(write):
    nothing = config.load(None)
    for text in ("", "# only a comment\n", "{}", "collect:\nrules:\n"):
        root = config.load(write(text))
        assert (root.agent, root.collect, root.central, root.rules) == (
            nothing.agent, nothing.collect, nothing.central, nothing.rules,
        )  # fmt: skip


def test_values_of_a_file_reach_their_structs(write):
    root = config.load(
        write(
            "collect: {infiniband: {interval: 1m30s}, ethernet_phy: {exclude: [eno9]}}\n"
            "rules: {link_down: {hold: 0s}, link_errors: {target_50g: 1e-12},\n"
            "  link_degraded: {expected: {compute: 400Gb/s}}}\n"
            "senders: {ops: {kind: webhook, url: 'http://h.example/x', min_severity: info}}\n"
            "central: {listen: ['[::]:9791'], dns: [{name: a.example, type: SRV}]}\n"
        )
    )
    assert root.collect["infiniband"].interval == 90.0
    assert root.collect["ethernet_phy"].exclude == ("eno9",)
    assert root.rules["link_down"].hold == 0.0
    assert root.rules["link_degraded"].expected == {"compute": 50e9}
    assert root.rules["link_errors"].target_50g == 1e-12
    assert (root.senders["ops"].kind, root.senders["ops"].config.min_severity) == ("webhook", Severity.INFO)
    assert root.central.dns[0].type == "SRV"


def test_an_override_replaces_what_the_file_says(write):
    path = write("central: {listen: ['127.0.0.1:1'], targets: [a]}\n")
    root = config.load(path, {"central.listen": ["127.0.0.1:2"], "log.level": "debug"})
    assert root.central.listen == ("127.0.0.1:2",)
    assert root.central.targets == ("a",)
    assert root.log.level == "debug"


def test_sections_a_program_does_not_use_are_left_out(write):
    root = config.load(write("log: {level: error}\n"), uses=("agent", "log"))
    assert root.agent is not None
    assert (root.central, root.senders, root.rules) == (None, {}, {})


def test_aliases_are_followed(write):
    root = config.load(write("agent: {listen: &here [':1']}\ncentral: {listen: *here}\n"))
    assert root.central.listen == root.agent.listen == (":1",)


# --- what is refused, and how that is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("collect:\n  infiniband:\n    intervall: 10s\n",
         "F:3: collect.infiniband.intervall: unknown key, did you mean 'interval'?"),
        ("colect: {}\n", "F:1: colect: unknown section, did you mean 'collect'?"),
        ("collect:\n  infinband: {}\n", "F:2: collect.infinband: unknown collector, did you mean 'infiniband'?"),
        ("rules: {link_up: {hold: 3s}}\n", "F:1: rules.link_up: unknown rule, did you mean 'link_down'?"),
        ("central:\n  tick: 10\n",
         "F:2: central.tick: expected a duration such as 250ms, 10s, 5m, 2h, 1d, got 10"),
        ("central:\n  tick: 10 parsecs\n",
         "F:2: central.tick: expected a duration such as 250ms, 10s, 5m, 2h, 1d, got '10 parsecs'"),
        ("rules:\n  link_degraded:\n    expected:\n      compute: 400\n",
         "F:4: rules.link_degraded.expected.compute: expected a rate such as 400Gb/s or 25Gb/s, got 400"),
        ("central: {listen: ':1'}\n", "F:1: central.listen: expected a list, got ':1'"),
        ("central:\n  targets:\n    - a\n    - 7\n", "F:4: central.targets[1]: expected 'str', got 'int'"),
        ("central: []\n", "F:1: central: expected keys and values, got a list"),
        ("agent: {evaluate: 'yes'}\n", "F:1: agent.evaluate: expected 'bool', got 'str'"),
        ("log: {level: wraning}\n",
         "F:1: log.level: expected one of debug, info, warning, error, got 'wraning', did you mean 'warning'?"),
        ("central: {pull: {connecting: 0}}\n", "F:1: central.pull.connecting: expected at least 1, got 0"),
        ("central: {dns: [{type: A}]}\n", "F:1: central.dns[0]: 'name' is missing"),
        ("central: {pull: {slow_after: 20s}}\n",
         "F:1: central.pull: 'slow_after' must be above 0 and below 'lost_after'"),
        ("senders: {ops: {url: 'http://x/'}}\n",
         f"F:1: senders.ops: 'kind' is missing, one of: {', '.join(sorted(CONFIGS))}"),
        ("senders:\n  ops:\n    kind: webhok\n",
         "F:3: senders.ops.kind: unknown kind 'webhok', did you mean 'webhook'?"),
        ("senders: {ops: {kind: webhook}}\n", "F:1: senders.ops: 'url' is missing"),
        ("log: {level: info}\nlog: {level: info}\n", "F:2: log: stands twice, first on line 1"),
        ("1: 2\n", "F:1: a key must be text, got '1'"),
        ("agent: {node: [}\n", "F:1: did not find expected node content"),
        ("agent: {node: 2026-01-31}\n", "F:1: agent.node: expected 'str', got 'date'"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(write, text, said):
    found = problems(write(text))
    assert len(found) == 1
    assert found[0] == said or (": did not find" in said and found[0].startswith("F:"))


def test_all_mistakes_are_named_at_once(write):
    found = problems(write("agent: {nod: x}\ncentral: {tick: 5, listen: 3}\nlog: {level: loud}\nwhat: {}\n"))
    assert len(found) == 5


def test_a_mistake_of_the_command_line_says_so(write):
    assert problems(write(""), {"central.tick": "soon"})[0].startswith(
        "command line: central.tick: expected a duration"
    )
    assert problems(None, {"topology.flie": "x"}) == ["command line: topology.flie: unknown key, did you mean 'file'?"]


def test_an_unreadable_secret_file_is_a_mistake_of_who_uses_it(write, tmp_path):
    gone = tmp_path / "gone"
    path = write(
        f"central:\n  token_file: {gone}\nsenders: {{o: {{kind: webhook, url: 'http://x/', secret_file: {gone}}}}}\n"
    )
    assert problems(path) == [
        f"F:2: central.token_file: {gone} cannot be read: No such file or directory",
        f"F:3: senders.o.secret_file: {gone} cannot be read: No such file or directory",
    ]
    config.load(path, uses=("agent", "collect", "log"))


def test_a_file_that_is_not_there_not_text_or_too_large(tmp_path):
    path = tmp_path / "c.yaml"
    assert problems(path) == ["F: cannot be read: No such file or directory"]
    path.write_bytes(b"agent:\n  node: \xff\n")
    assert problems(path) == ["F:2: is not UTF-8 text"]
    path.write_text('central:\n  fabric: "a\\ud800b"\n')
    assert problems(path) == ["F:2: found invalid Unicode character escape code"]
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    assert problems(path) == ["F: larger than 1048576 bytes"]


def test_an_alias_bomb_and_endless_depth_stop():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(ConfigError, match="more than 100000 values"):
        parse(bomb, "F")
    with pytest.raises(ConfigError, match="32 levels"):
        parse("[" * 40 + "]" * 40, "F")
    with pytest.raises(ConfigError, match="stands for nothing before it"):
        parse("a: &a {b: *a}", "F")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_reason(text):
    try:
        tree = parse(text, "F")
    except ConfigError as error:
        tree, said = None, str(error)
    assert tree is not None or said.startswith("F")


# --- the types a section may use


class Inner(Struct, forbid_unknown_fields=True):
    rate: Rate
    names: frozenset[str] = frozenset()


class Example(Struct, forbid_unknown_fields=True):
    mode: Literal["a", "b"] = "a"
    severity: Severity = Severity.INFO
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    maybe: Duration | None = None
    inner: Inner | None = None
    many: dict[str, list[Inner]] = {}


def decode(text):
    decoder = Decoder("F")
    return decoder.struct(parse(text, "F"), Example, "x"), [str(p) for p in decoder.problems]


def test_optional_nested_and_collected_values():
    made, wrong = decode("{maybe: 3s, inner: {rate: 8b/s, names: [q]}, many: {k: [{rate: 1Gb/s}]}, share: 1}")
    assert wrong == []
    assert (made.maybe, made.inner.rate, made.many["k"][0].rate, made.share) == (3.0, 1.0, 125e6, 1.0)
    assert decode("{maybe: null, inner: null}")[0] == Example()


def test_limits_choices_and_numbers_that_are_none():
    assert decode("share: 2")[1] == ["F:1: x.share: expected at most 1, got 2"]
    assert decode("share: .nan")[1] == ["F:1: x.share: expected a finite number, got nan"]
    assert decode("severity: critcal")[1] == [
        "F:1: x.severity: expected one of info, warning, critical, got 'critcal', did you mean 'critical'?"
    ]
    assert decode("many: {k: [{rate: 1Gb/s}, {rte: 1}]}")[1] == [
        "F:1: x.many.k[1].rte: unknown key, did you mean 'rate'?", "F:1: x.many.k[1]: 'rate' is missing",
    ]  # fmt: skip


@given(st.integers(0, 40 * 86_400_000))
def test_a_duration_shown_reads_back_the_same(milliseconds):
    assert Duration.parse(duration_text(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@given(st.sampled_from([1, 10, 25, 40, 50, 100, 200, 400, 800, 1600]))
def test_a_rate_shown_reads_back_the_same(gigabits):
    assert Rate.parse(rate_text(gigabits * 125e6)) == gigabits * 125e6


# --- the verb


def test_check_says_ok_or_names_the_mistake_and_exits_two(write, capsys):
    assert cli.main(["config", "check", write("log: {level: info}\n")]) == 0
    assert capsys.readouterr().out.endswith(": OK\n")
    assert cli.main(["config", "check", write("log: {level: 7}\n")]) == 2
    assert ":1: log.level:" in capsys.readouterr().err


def test_what_show_prints_is_a_configuration_of_the_same_meaning(write, capsys):
    path = write("central: {tick: 750ms}\nsenders: {a: {kind: alertmanager, urls: ['http://am:9093']}}\n")
    assert cli.main(["config", "show", path]) == 0
    shown = capsys.readouterr().out
    again = config.load(write(shown))
    first = config.load(write("central: {tick: 750ms}\nsenders: {a: {kind: alertmanager, urls: ['http://am:9093']}}\n"))
    for section in config.ORDER:
        assert getattr(again, section) == getattr(first, section)


def test_daemons_do_not_start_on_a_bad_configuration(write, tmp_path, capsys):
    path = write("central: {tik: 1s}\nagent: {nod: x}\n")
    state = tmp_path / "state"
    assert cli.main(["central", "--config", path, "--state", str(state)]) == 2
    assert not state.exists()
    assert cli.main(["agent", "--config", path]) == 2
    assert "did you mean 'tick'?" in capsys.readouterr().err
