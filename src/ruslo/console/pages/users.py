"""SCRAM users: the list, and forms to set a password and to delete a user.

A password is typed in the step that confirms the change, so no page ever carries it to the browser.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ruslo.client.admin.users import ScramUser, is_missing
from ruslo.console.confirmation import PASSWORD_AGAIN_FIELD, PASSWORD_FIELD, Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.formats import count, listed
from ruslo.console.forms import Form, FormError, paged
from ruslo.console.render import link
from ruslo.console.security_lists import listed_or_reason
from ruslo.model.acls import AclFilter
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.scram import MAX_ITERATIONS, MECHANISM_OF, MIN_ITERATIONS, ScramMechanism
from ruslo.model.secret import Secret

_PER_PAGE = 100
PATH = "/security/users"


async def security(request: Request) -> Response:
    return RedirectResponse(PATH, 303)


async def users(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    search = query.text("q")
    found = await listed_or_reason(console.admin.users.list(), "users", "describe")
    rows = [each for each in found.rows if search.lower() in each.name.lower()]
    return console.page(
        request,
        "users.html",
        status=found.status,
        shown=paged(rows, query, _PER_PAGE),
        search=search,
        unavailable=found.reason,
    )


async def set_password(request: Request) -> Response:
    """Create a user, or replace the password."""
    console, form = console_of(request), form_of(request)
    result = FormResult()
    if request.method == "POST":
        with result:
            name, mechanisms = form.text("name"), _mechanisms(form)
            if not name:
                raise FormError("User: enter a name.")
            iterations = (
                form.number("iterations", "Iterations", least=MIN_ITERATIONS, most=MAX_ITERATIONS)
                or MIN_ITERATIONS
            )
            user = await _find(console, name)
            result.preview = _preview(form, name, user, mechanisms, iterations)
            if is_confirmed(form):
                password = _new_password(form)
                for mechanism in mechanisms:
                    await console.admin.users.set_password(name, password, mechanism, iterations=iterations)
                done = "The password of {} was changed." if user else "User {} was created."
                return console.done(PATH, done.format(name))
    return console.form_page(
        request,
        "user_password.html",
        result,
        form=form,
        name=form.text("name") or request.query_params.get("name", ""),
        mechanisms=list(MECHANISM_OF),
        chosen=form.all("mechanism") if request.method == "POST" else list(MECHANISM_OF),
        least=MIN_ITERATIONS,
        most=MAX_ITERATIONS,
    )


def _mechanisms(form: Form) -> list[ScramMechanism]:
    found = [MECHANISM_OF[name] for name in form.all("mechanism") if name in MECHANISM_OF]
    if not found:
        raise FormError("Mechanisms: choose at least one.")
    return found


async def _find(console: Console, name: str) -> ScramUser | None:
    try:
        (user,) = await console.admin.users.list([name])
    except KafkaError as error:
        if is_missing(error):
            return None
        raise
    return user


def _preview(
    form: Form, name: str, user: ScramUser | None, mechanisms: list[ScramMechanism], iterations: int
) -> Preview:
    kept = [] if user is None else [each.sasl_name for each in user.iterations if each not in mechanisms]
    warning = None
    if kept:
        warning = f"The old password stays valid for {listed(kept)}, which you did not choose."
    elif user is not None:
        warning = "Clients that use the old password cannot connect again. Open connections stay."
    return Preview(
        title=f"Create user {name}" if user is None else f"Replace the password of {name}",
        facts=[
            ("Mechanisms", listed(each.sasl_name for each in mechanisms)),
            ("Iterations", count(iterations)),
        ],
        button="Create the user" if user is None else "Replace the password",
        form=form,
        warning=warning,
        asks_new_password=True,
    )


def _new_password(form: Form) -> Secret:
    password = Secret(form.raw(PASSWORD_FIELD))
    if not password:
        raise FormError("Nothing was changed: enter a password.")
    if password != Secret(form.raw(PASSWORD_AGAIN_FIELD)):
        raise FormError("Nothing was changed: the passwords differ. Enter the same one twice.")
    return password


async def delete(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    name = request.query_params.get("name", "")
    result = FormResult()
    with result:
        user = await _find(console, name)
        if user is None:
            raise FormError(f"{name!r} has no SCRAM credentials.")
        if request.method == "POST" and is_confirmed(form, name):
            await console.admin.users.delete(name, list(user.iterations))
            return console.done(PATH, f"User {name} was deleted.")
        result.preview = Preview(
            title=f"Delete user {name}",
            facts=[
                ("Mechanisms", listed(each.sasl_name for each in user.iterations)),
                ("ACLs", await _acl_count(console, name)),
            ],
            button="Delete the user",
            form=form,
            warning="The password cannot be restored, and the user cannot log in again. ACLs and quotas of "
            "the user stay.",
            must_type=name,
            back=PATH,
        )
    return console.form_page(
        request,
        "security_confirm.html",
        result,
        action=link(f"{PATH}/delete", name=name),
        parent=(PATH, "Users"),
    )


async def _acl_count(console: Console, name: str) -> str:
    try:
        return count(len(await console.admin.acls.list(AclFilter(principal=f"User:{name}"))))
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return "the cluster has no authorizer"
        raise
