"""Transactions: open and hanging ones, and forms to abort them."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.transactions import OPEN_STATES, TransactionDescription
from ruslo.client.views.hanging_transactions import HangingTransaction, find_hanging_transactions
from ruslo.client.views.partition_lists import shown_by_topic, shown_partitions
from ruslo.client.views.txn_abort_plan import described_for_abort, plan_marker
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.formats import ago
from ruslo.console.forms import Form, FormError
from ruslo.console.render import link
from ruslo.model.topics import TopicPartition

_SHOWN_MAX = 300
_HANGING_MIN_AGE_MS = 15 * 60 * 1000
"""Kafka's default of transaction.max.timeout.ms: younger transactions may still be verified."""


async def transactions(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    show_all, search = query.flag("all"), query.text("q")
    listed = await console.admin.transactions.list(states=() if show_all else OPEN_STATES)
    listed = [each for each in listed if search.lower() in each.transactional_id.lower()]
    described = await console.admin.transactions.describe(
        each.transactional_id for each in listed[:_SHOWN_MAX]
    )
    rows = [each for each in described.values() if isinstance(each, TransactionDescription)]
    rows.sort(key=lambda row: float("inf") if row.start_ms is None else row.start_ms)
    return console.page(
        request,
        "transactions.html",
        rows=[(row, shown_by_topic(row.partitions)) for row in rows],
        left=max(0, len(listed) - _SHOWN_MAX),
        show_all=show_all,
        search=search,
        searched=query.flag("hanging"),
        hanging=await _hanging(console) if query.flag("hanging") else [],
    )


async def _hanging(console: Console) -> list[HangingTransaction]:
    snapshot = await console.sampler.fresh(0)
    return await find_hanging_transactions(
        console.admin, list(snapshot.ends), written_before_ms=round(time.time() * 1000) - _HANGING_MIN_AGE_MS
    )


async def abort(request: Request) -> Response:
    """Abort the open transaction of a transactional id."""
    console, form = console_of(request), form_of(request)
    transactional_id = request.query_params.get("id", "")
    result = FormResult()
    with result:
        found = await described_for_abort(console.admin, transactional_id)
        if not found.is_open:
            raise FormError(f"{transactional_id} has no open transaction ({found.state}).")
        if request.method == "POST" and is_confirmed(form):
            await console.admin.transactions.fence(transactional_id, found.timeout_ms)
            return console.done("/transactions", f"The transaction of {transactional_id} was aborted.")
        result.preview = Preview(
            title=f"Abort the transaction of {transactional_id}",
            facts=[
                ("State", found.state),
                ("Started", ago(found.start_ms)),
                ("Partitions", shown_partitions(found.partitions) or "none"),
                ("Producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
            ],
            warning="Consumers with isolation.level=read_committed never see its records. Its producer is "
            "fenced: it gets a fatal error and must be restarted.",
            button="Abort the transaction",
            form=form,
            back="/transactions",
        )
    action = link("/transactions/abort", id=transactional_id)
    return console.form_page(request, "transaction_confirm.html", result, action=action)


async def end_hanging(request: Request) -> Response:
    """Write an abort marker for a hanging transaction."""
    console, form = console_of(request), form_of(request)
    query = Form.of_query(request.query_params)
    topic, number = query.text("topic"), query.number("partition", "Partition", least=0) or 0
    offset = query.number("offset", "Offset", least=0) or 0
    result = FormResult()
    with result:
        marker = await plan_marker(console.admin, TopicPartition(topic, number), offset, False)
        if request.method == "POST" and is_confirmed(form):
            await console.admin.transactions.write_abort_marker(
                marker.partition, marker.producer, marker.coordinator_epoch
            )
            return console.done(
                "/transactions?hanging=1",
                f"The transaction at offset {offset} of {marker.partition} was aborted.",
            )
        result.preview = Preview(
            title=f"Abort the hanging transaction in {marker.partition}",
            facts=[
                ("Start offset", offset),
                ("Producer", f"{marker.producer.producer_id}, epoch {marker.producer.producer_epoch}"),
                ("Coordinator epoch", marker.coordinator_epoch),
            ],
            warning="The abort marker unblocks consumers with isolation.level=read_committed. They never see "
            "the records of the transaction.",
            button="Write the abort marker",
            form=form,
            back="/transactions?hanging=1",
        )
    action = link("/transactions/end-hanging", topic=topic, partition=str(number), offset=str(offset))
    return console.form_page(request, "transaction_confirm.html", result, action=action)
