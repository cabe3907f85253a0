"""Gives listeners new certificates when dynamic configs or the files change."""

from __future__ import annotations

import asyncio
from typing import Self

from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.node.listener_security import NodeSecurity

FILE_CHECK_INTERVAL_S = 5.0


class CertificateWatch:
    def __init__(self, security: NodeSecurity, dynamic_config: DynamicConfig) -> None:
        self._security = security
        self._timer: asyncio.TimerHandle | None = None
        dynamic_config.subscribe(security.reconfigure)

    def start(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(FILE_CHECK_INTERVAL_S, self._check_files)
        return self

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check_files(self) -> None:
        self._security.replace_changed_files()
        self.start()
