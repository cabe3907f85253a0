"""Errors of a log-in by OpenID Connect. The messages are for the person who logs in."""

from __future__ import annotations

from ruslo.model.errors import RusloError


class OpenIdError(RusloError):
    """The log-in failed; the message says why."""


class LoginRefused(OpenIdError):
    """The identity provider refused: the person, the code or the refresh token."""


class ProviderUnreachable(OpenIdError):
    """The identity provider did not respond as expected; a later attempt may succeed."""
