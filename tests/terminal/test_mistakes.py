"""A mistake on the command line is one line that says what was meant."""

from __future__ import annotations

import pytest

from fabricmon import cli
from fabricmon.commands.remote import _with_scheme_and_port


@pytest.mark.parametrize(("words", "said"), [
    ("top -n 5", "options: --ca-file"),
    ("incidents --sinec 1h", "did you mean --since?"),
    ("silence add --for 1h kind=x --coment y", "did you mean --comment?"),
    ("silence add --form 1h kind=x", "required: --for"),
    ("schema confg", "invalid choice: 'confg'"),
    ("rules export --rule link_dwn", "rules are link_down, "),
    ("scenario run s99", "fabricmon scenario list"),
    ("incidnets", "did you mean incidents?"),
])  # fmt: skip
def test_one_line_names_the_mistake(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(words.split())
    except SystemExit as ended:
        code = int(str(ended.code))
    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1), error
    assert said in error


def test_a_capture_that_cannot_be_written_names_the_file_that_was_asked_for(tmp_path, capsys) -> None:
    (tmp_path / "smi.xml").write_text("<nvidia_smi_log></nvidia_smi_log>")
    output = tmp_path / "none" / "x.host"
    assert cli.main(["capture", "--nvidia-smi", str(tmp_path / "smi.xml"), "-o", str(output)]) == 1
    assert f"cannot write {output}: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "meant"), [
    ("head", "http://head:9791"), ("head:80", "http://head:80"), ("[::1]", "http://[::1]:9791"),
    ("[::1]:9", "http://[::1]:9"), ("head/fabric", "http://head:9791/fabric"), ("https://head", "https://head"),
])  # fmt: skip
def test_an_address_without_a_port_means_the_servers(typed: str, meant: str) -> None:
    assert _with_scheme_and_port(typed) == meant
