from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.console.https_certificate import HttpsCertificate
from ruslo.model.errors import ConfigError
from tests.support.network.certificates import authority


def test_changed_files_replace_the_certificate_and_invalid_ones_do_not(tmp_path: Path) -> None:
    file = tmp_path / "console.pem"
    first, second = (authority().issue(name, ("localhost",)) for name in ("first", "second"))
    file.write_text(first.key.reveal() + first.chain)
    certificate = HttpsCertificate(str(file), str(file))
    assert not certificate.replace_if_changed()
    file.write_text("not a certificate")
    with pytest.raises(ConfigError, match="not a certificate and its key"):
        certificate.replace_if_changed()
    file.write_text(second.key.reveal() + second.chain)
    assert certificate.replace_if_changed()
