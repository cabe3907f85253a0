from __future__ import annotations

import io

import click
import pytest

from ruslo.cli.arguments.options import Amount, confirm


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def confirm_with(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    confirm("Delete it?", yes=False)


def test_yes_confirms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    confirm_with(monkeypatch, "y\n")
    assert capsys.readouterr().out == ""


def test_no_changes_nothing_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(click.exceptions.Exit) as caught:
        confirm_with(monkeypatch, "n\n")
    assert caught.value.exit_code == 1
    assert "Nothing was changed." in capsys.readouterr().err


def test_end_of_input_at_the_question_acts_like_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(click.exceptions.Exit) as caught:
        confirm_with(monkeypatch, "")
    assert caught.value.exit_code == 130


def test_without_a_terminal_yes_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(click.UsageError, match="Add --yes"):
        confirm("Delete it?", yes=False)
    confirm("Delete it?", yes=True)


@pytest.mark.parametrize("word", ["nan", "inf", "-1"])
def test_an_amount_is_a_finite_number(word: str) -> None:
    with pytest.raises(click.BadParameter):
        Amount(0).convert(word, None, None)
    assert Amount(0).convert("2.5", None, None) == 2.5
