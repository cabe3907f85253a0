from __future__ import annotations

from ruslo.net.tls.certificate_facts import facts_of_pem
from ruslo.net.tls.development_ca import DevelopmentCa


def test_no_certificate_outlives_the_one_of_its_issuer() -> None:
    authority = DevelopmentCa.new(days=7)
    issued = facts_of_pem(authority.issue("broker", ["localhost"], days=30).chain)
    assert issued.not_after_ms == authority.expires_at_ms
    assert (
        facts_of_pem(authority.issue("broker", ["localhost"], days=1).chain).not_after_ms
        < issued.not_after_ms
    )
