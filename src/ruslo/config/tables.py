"""All declared keys, one table for each kind of resource."""

from __future__ import annotations

from ruslo.config.broker_cluster import CLUSTER_KEYS
from ruslo.config.broker_group import GROUP_KEYS as BROKER_GROUP_KEYS
from ruslo.config.broker_log import LOG_KEYS
from ruslo.config.broker_network import NETWORK_KEYS
from ruslo.config.broker_quota import DYNAMIC_ONLY, QUOTA_KEYS
from ruslo.config.broker_remote import REMOTE_KEYS
from ruslo.config.broker_replication import REPLICATION_KEYS
from ruslo.config.broker_sasl import SASL_KEYS
from ruslo.config.broker_security import SECURITY_KEYS
from ruslo.config.broker_share import SHARE_KEYS
from ruslo.config.broker_ssl import SSL_KEYS
from ruslo.config.broker_transaction import TRANSACTION_KEYS
from ruslo.config.definition import ConfigTable
from ruslo.config.effects import (
    IMPLEMENTED_BROKER_KEYS,
    IMPLEMENTED_DYNAMIC_ONLY_KEYS,
    IMPLEMENTED_GROUP_KEYS,
    IMPLEMENTED_TOPIC_KEYS,
)
from ruslo.config.group_keys import GROUP_KEYS
from ruslo.config.topic_keys import TOPIC_KEYS

BROKER_SECTIONS = (
    ("Cluster", CLUSTER_KEYS),
    ("Network", NETWORK_KEYS),
    ("Logs", LOG_KEYS),
    ("Replication", REPLICATION_KEYS),
    ("Groups", BROKER_GROUP_KEYS),
    ("Share groups", SHARE_KEYS),
    ("Transactions", TRANSACTION_KEYS),
    ("Tiered storage", REMOTE_KEYS),
    ("Quotas and metrics", QUOTA_KEYS),
    ("Security", SECURITY_KEYS),
    ("TLS", SSL_KEYS),
    ("SASL", SASL_KEYS),
)

BROKER = ConfigTable("broker", (key for _, keys in BROKER_SECTIONS for key in keys), IMPLEMENTED_BROKER_KEYS)
# What DescribeConfigs and AlterConfigs know of a broker beyond its property file.
BROKER_DYNAMIC_ONLY = ConfigTable("broker", DYNAMIC_ONLY, IMPLEMENTED_DYNAMIC_ONLY_KEYS)
TOPIC = ConfigTable("topic", TOPIC_KEYS, IMPLEMENTED_TOPIC_KEYS)
GROUP = ConfigTable("group", GROUP_KEYS, IMPLEMENTED_GROUP_KEYS)
