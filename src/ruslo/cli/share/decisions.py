"""What ``ruslo share consume`` does with a record that it has printed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ruslo.client.share.async_share_consumer import CommitResult
    from ruslo.client.share.share_consumer import ShareConsumer
    from ruslo.client.share.share_record import ShareRecord

_QUESTION = "[a]ccept, [r]elease, re[j]ect, re[n]ew, [q]uit"
_WORDS = {"a": "accept", "r": "release", "j": "reject", "n": "renew", "q": "quit"}


class Decision:
    """Acknowledges each record in the same way."""

    is_over = False
    """Whether the user has asked to stop."""

    def __init__(self, kind: str, consumer: ShareConsumer) -> None:
        self._accepts = kind == "accept"
        self._consumer = consumer

    def decide(self, records: list[ShareRecord]) -> None:
        for record in records:
            if self._accepts:
                record.accept()
            else:
                record.reject()

    def finish(self) -> None:
        """Send what is left before the group is left."""
        report(self._consumer.commit())


class ReleaseAtEnd(Decision):
    """Keeps records locked until the end: released at once, the same records would come again."""

    def __init__(self, consumer: ShareConsumer) -> None:
        super().__init__("release", consumer)
        self._held: list[ShareRecord] = []
        self._renewed_s = time.monotonic()

    def decide(self, records: list[ShareRecord]) -> None:
        self._held += records
        lock_ms = self._consumer.acquisition_lock_timeout_ms
        is_due = lock_ms is not None and time.monotonic() - self._renewed_s > lock_ms / 3000
        for record in self._held if is_due else records:
            record.renew()
        if is_due:
            self._renewed_s = time.monotonic()
        if is_due or records:
            report(self._consumer.commit())

    def finish(self) -> None:
        for record in self._held:
            record.release()
        super().finish()


class Ask(Decision):
    """Asks about each record, and sends the decision at once."""

    def __init__(self, consumer: ShareConsumer) -> None:
        super().__init__("ask", consumer)

    def decide(self, records: list[ShareRecord]) -> None:
        for record in records:
            self._ask(record)

    def _ask(self, record: ShareRecord) -> None:
        where = (
            f"{record.topic}-{record.partition} at offset {record.offset}, delivery {record.delivery_count}"
        )
        while not self.is_over:
            match _answer(f"{where}: {_QUESTION}"):
                case "accept":
                    record.accept()
                case "release":
                    record.release()
                case "reject":
                    record.reject()
                case "renew":
                    record.renew()
                    report(self._consumer.commit())
                    continue
                case _:
                    # The record is not acknowledged, so leaving the group releases it.
                    self.is_over = True
                    return
            report(self._consumer.commit())
            return

    def finish(self) -> None:
        pass


def new_decision(kind: str, consumer: ShareConsumer) -> Decision:
    if kind == "ask":
        return Ask(consumer)
    return ReleaseAtEnd(consumer) if kind == "release" else Decision(kind, consumer)


def report(result: CommitResult) -> None:
    for partition, error in result.items():
        if error is not None:
            click.echo(f"Records of {partition} will be delivered again: {error}", err=True)


def _answer(question: str) -> str:
    while True:
        try:
            text = click.prompt(question, err=True, prompt_suffix=" > ").strip().lower()
        except click.Abort:
            return "quit"
        word = _WORDS.get(text, text)
        if word in _WORDS.values():
            return word
        click.echo(f"{text!r} is not one of {', '.join(_WORDS.values())}.", err=True)
