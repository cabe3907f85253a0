"""All properties of a node: those of its property file, and those that exist only as dynamic configs."""

from ruslo.config.definition import ConfigTable
from ruslo.config.keys.cluster import CLUSTER_KEYS
from ruslo.config.keys.group_coordinator import GROUP_COORDINATOR_KEYS
from ruslo.config.keys.log import LOG_KEYS
from ruslo.config.keys.network import NETWORK_KEYS
from ruslo.config.keys.quota import DYNAMIC_ONLY_KEYS, QUOTA_KEYS
from ruslo.config.keys.remote import REMOTE_KEYS
from ruslo.config.keys.replication import REPLICATION_KEYS
from ruslo.config.keys.sasl import SASL_KEYS
from ruslo.config.keys.security import SECURITY_KEYS
from ruslo.config.keys.share import SHARE_KEYS
from ruslo.config.keys.share_delivery import SHARE_DELIVERY_KEYS
from ruslo.config.keys.ssl import SSL_KEYS
from ruslo.config.keys.transaction import TRANSACTION_KEYS

BROKER_SECTIONS = (
    ("Cluster", CLUSTER_KEYS),
    ("Network", NETWORK_KEYS),
    ("Logs", LOG_KEYS),
    ("Replication", REPLICATION_KEYS),
    ("Groups", GROUP_COORDINATOR_KEYS),
    ("Share groups", (*SHARE_KEYS, *SHARE_DELIVERY_KEYS)),
    ("Transactions", TRANSACTION_KEYS),
    ("Tiered storage", REMOTE_KEYS),
    ("Quotas and metrics", QUOTA_KEYS),
    ("Security", SECURITY_KEYS),
    ("TLS", SSL_KEYS),
    ("SASL", SASL_KEYS),
)

BROKER = ConfigTable("broker", (key for _, keys in BROKER_SECTIONS for key in keys))
BROKER_DYNAMIC_ONLY = ConfigTable("broker", DYNAMIC_ONLY_KEYS)
