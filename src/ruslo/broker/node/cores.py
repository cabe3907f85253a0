"""One broker per core: the properties of the processes that share a host.

The first process is the node of the property file. Each further one is a broker of its own, with an id, ports
and directories derived from the first one's, and with the host as its rack, so that the replicas of a
partition are placed on different hosts if there are several.

=================  ==========================  ===============================================
                   first                        n-th further
=================  ==========================  ===============================================
``node.id``        as given                     given + 1000 n
``process.roles``  as given                     broker
listeners          as given                     those of brokers, each port + n
metrics listener   as given                     its port + n
``log.dirs``       as given                     each with the suffix "-core-n"
``broker.rack``    as given, or the host name   the same
=================  ==========================  ===============================================
"""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.config.broker import BrokerConfig
from ruslo.config.listeners import Endpoint
from ruslo.config.validators import split_host_port
from ruslo.model.errors import ConfigError

ID_STEP = 1000
METRICS_KEY = "ruslo.metrics.listener"
_DIRECTORY_KEYS = ("log.dirs", "log.dir", "metadata.log.dir")


def core_properties(properties: Mapping[str, str], cores: int, host_name: str) -> list[dict[str, str]]:
    """The properties of each process. Raises ConfigError if those of the first cannot be shared."""
    first = dict(properties)
    first.setdefault("broker.rack", host_name)
    config = BrokerConfig.from_properties(first)
    if not config.is_broker:
        raise ConfigError("Several cores need the broker role: add broker to process.roles")
    if config.node_id >= ID_STEP:
        raise ConfigError(
            f"With several cores node.id must be below {ID_STEP}, because the id of each further core is "
            f"{ID_STEP} higher; it is {config.node_id}"
        )
    return [first, *(_derive(first, config, number) for number in range(1, cores))]


def _derive(first: Mapping[str, str], config: BrokerConfig, number: int) -> dict[str, str]:
    properties = dict(first)
    properties["node.id"] = str(config.node_id + ID_STEP * number)
    properties.pop("broker.id", None)
    properties["process.roles"] = "broker"
    properties["listeners"] = _shift_ports(config.broker_listeners, number)
    if "advertised.listeners" in properties:
        properties["advertised.listeners"] = _shift_ports(config.declared_broker_advertised, number)
    metrics = split_host_port(config.opt_str(METRICS_KEY) or "")
    if metrics is not None and metrics[1]:
        host, port = metrics
        properties[METRICS_KEY] = f"[{host}]:{port + number}" if ":" in host else f"{host}:{port + number}"
    for key in _DIRECTORY_KEYS:
        if properties.get(key):
            properties[key] = ",".join(
                f"{path.strip().rstrip('/')}-core-{number}" for path in properties[key].split(",")
            )
    return properties


def _shift_ports(endpoints: tuple[Endpoint, ...], number: int) -> str:
    """Port 0 stays: the kernel chooses a free one."""
    return ",".join(str(each._replace(port=each.port + number if each.port else 0)) for each in endpoints)
