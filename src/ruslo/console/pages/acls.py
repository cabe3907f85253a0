"""ACLs: the list, forms to create and delete them, and the explanation of a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.acl_explanation import Explanation, explain
from ruslo.client.views.acl_text import (
    Pattern,
    new_rules,
    parse_operation,
    parse_pattern,
    resource_text,
    shown,
)
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import FormResult, console_of, form_of
from ruslo.console.formats import plural
from ruslo.console.forms import Form, FormError, paged
from ruslo.console.render import link
from ruslo.console.security_lists import listed_or_reason
from ruslo.model.acls import (
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ruslo.model.principals import parse_principal

_PER_PAGE = 100
_NAMES_MAX = 50
PATH = "/security/acls"
RESOURCE_TYPES = [shown(each) for each in OPERATIONS]
ALL_OPERATIONS = [shown(each) for each in Operation if each > Operation.ANY]


class AclRow(NamedTuple):
    principal: str
    permission: str
    operation: str
    resource: str
    host: str
    query: dict[str, str]
    """Names this ACL in a URL."""


def _row(acl: Acl) -> AclRow:
    permission, operation = Permission(acl.permission), Operation(acl.operation)
    return AclRow(
        acl.principal,
        shown(permission),
        shown(operation),
        resource_text(acl.resource_type, acl.resource_name, acl.pattern_type),
        acl.host,
        {
            "principal": acl.principal,
            "permission": permission.name,
            "operation": operation.name,
            "type": ResourceType(acl.resource_type).name,
            "name": acl.resource_name,
            "pattern": PatternType(acl.pattern_type).name,
            "host": acl.host,
        },
    )


async def acls(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    principal, resource = query.text("principal"), query.text("resource")
    found = await listed_or_reason(console.admin.acls.list(), "ACLs", "describe")
    rows = [
        _row(each)
        for each in found.rows
        if principal.lower() in each.principal.lower() and _is_about(each, resource)
    ]
    rows.sort(key=lambda row: (row.principal, row.resource, row.permission, row.operation, row.host))
    return console.page(
        request,
        "acls.html",
        status=found.status,
        shown=paged(rows, query, _PER_PAGE),
        principal=principal,
        resource=resource,
        unavailable=found.reason,
    )


def _is_about(acl: Acl, resource: str) -> bool:
    """Whether the ACL applies to the resource; for text that names none, whether it contains the text."""
    if resource.lower() in resource_text(acl.resource_type, acl.resource_name, acl.pattern_type).lower():
        return True
    try:
        pattern = parse_pattern(resource, literal=True)
    except ValueError:
        return False
    return AclFilter(pattern.type, pattern.name, PatternType.MATCH).matches(acl)


async def create(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    result = FormResult()
    if request.method == "POST":
        with result:
            rules = _new_rules(form)
            existing = set(await console.admin.acls.list(AclFilter(principal=rules[0].principal)))
            if is_confirmed(form):
                await console.admin.acls.create(rules)
                created = f"{plural(len(rules), 'ACL')} of {rules[0].principal}"
                return console.done(
                    link(PATH, principal=rules[0].principal),
                    f"{created} {'was' if len(rules) == 1 else 'were'} created.",
                )
            result.preview = _creation(form, rules, existing)
    query = Form.of_query(request.query_params)
    return console.form_page(
        request,
        "acl_create.html",
        result,
        form=form if request.method == "POST" else query,
        resource_types=RESOURCE_TYPES,
        operations=ALL_OPERATIONS,
    )


def _new_rules(form: Form) -> list[Acl]:
    operations = form.all("operation")
    if not operations:
        raise FormError("Operations: choose at least one.")
    permission = Permission.DENY if form.text("permission") == "deny" else Permission.ALLOW
    pattern = _pattern(form)
    if form.text("pattern") == "prefix" and pattern.name != WILDCARD:
        pattern = pattern._replace(pattern_type=PatternType.PREFIXED)
    try:
        return new_rules(
            permission, form.text("principal"), operations, pattern, form.text("host") or WILDCARD
        )
    except ValueError as error:
        raise FormError(f"{error}.") from None


def _pattern(form: Form) -> Pattern:
    """The resource of the fields ``type`` and ``name``."""
    kind = form.text("type") or "topic"
    try:
        return parse_pattern("cluster" if kind == "cluster" else f"{kind}:{form.text('name')}", literal=True)
    except ValueError as error:
        raise FormError(f"Resource: {error}.") from None


def _creation(form: Form, rules: Sequence[Acl], existing: set[Acl]) -> Preview:
    rows = [_row(each) for each in rules]
    warnings = []
    if rules[0].permission == Permission.DENY:
        warnings.append("A DENY takes precedence over every ALLOW, of other principals' ACLs too.")
    if rules[0].principal == WILDCARD_PRINCIPAL:
        warnings.append("User:* is every user, also one that is not authenticated.")
    return Preview(
        title=f"{rows[0].permission.capitalize()} {rules[0].principal}",
        facts=[("Resource", rows[0].resource), ("Host", "any" if rows[0].host == WILDCARD else rows[0].host)],
        headings=("Operation", "Now"),
        rows=[
            (row.operation, "exists already" if rule in existing else "does not exist")
            for row, rule in zip(rows, rules, strict=True)
        ],
        warning=" ".join(warnings) or None,
        button=f"Create {plural(len(rules), 'ACL')}",
        form=form,
    )


async def delete(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    query = {name: request.query_params.get(name, "") for name in _row(_ANY_ACL).query}
    result = FormResult()
    with result:
        wanted = _exact_filter(query)
        found = await console.admin.acls.list(wanted)
        if not found:
            raise FormError("This ACL does not exist (any more).")
        row = _row(found[0])
        if request.method == "POST" and is_confirmed(form):
            await console.admin.acls.delete([wanted])
            return console.done(PATH, f"The ACL was deleted: {found[0]}.")
        result.preview = Preview(
            title=f"Delete an ACL of {row.principal}",
            facts=[
                ("Permission", row.permission),
                ("Operation", row.operation),
                ("Resource", row.resource),
                ("Host", "any" if row.host == WILDCARD else row.host),
            ],
            warning="Clients that need this ACL are denied from then on, on open connections too."
            if found[0].permission == Permission.ALLOW
            else "What this ACL denies is allowed from then on, if another ACL allows it.",
            button="Delete the ACL",
            form=form,
            back=PATH,
        )
    return console.form_page(
        request,
        "security_confirm.html",
        result,
        action=link(f"{PATH}/delete", **query),
        parent=(PATH, "ACLs"),
    )


_ANY_ACL = Acl(ResourceType.TOPIC, "", PatternType.LITERAL, "", WILDCARD, Operation.ALL, Permission.ALLOW)


def _exact_filter(query: dict[str, str]) -> AclFilter:
    try:
        return AclFilter(
            ResourceType[query["type"]],
            query["name"],
            PatternType[query["pattern"]],
            query["principal"],
            query["host"],
            Operation[query["operation"]],
            Permission[query["permission"]],
        )
    except KeyError as error:
        raise FormError(f"The link names no ACL: {error} is unknown.") from None


async def explain_decision(request: Request) -> Response:
    """Whether a principal may perform an operation, and why."""
    console, query = console_of(request), Form.of_query(request.query_params)
    found = await listed_or_reason(console.admin.acls.list(), "ACLs", "describe")
    explanation: Explanation | None = None
    form_error = None
    if query.text("principal") and found.reason is None:
        try:
            explanation = _explain(found.rows, query)
        except FormError as error:
            form_error = str(error)
    return console.page(
        request,
        "acl_explain.html",
        status=422 if form_error else found.status,
        query=query,
        explanation=explanation,
        form_error=form_error,
        unavailable=found.reason,
        principals=sorted({each.principal for each in found.rows})[:_NAMES_MAX],
        resource_types=RESOURCE_TYPES,
        operations=[each for each in ALL_OPERATIONS if each != shown(Operation.ALL)],
    )


def _explain(rules: Sequence[Acl], query: Form) -> Explanation:
    pattern = _pattern(query)
    try:
        principal = parse_principal(query.text("principal"))
        operation = parse_operation(query.text("operation") or "read")
    except ValueError as error:
        raise FormError(f"{error}.") from None
    return explain(rules, principal, query.text("host") or WILDCARD, operation, pattern)
