"""Every metric of a node. Tests compare the sources, the documentation and the dashboard with this table.

A metric that Apache Kafka has too has the name that the usual configuration of the Prometheus JMX exporter
gives it, in lower case, so that dashboards and alerts keep working. Metrics of Ruslo alone begin with
``ruslo_``; group lag has the names of kafka_exporter.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")
_GROUP = ("consumergroup", "topic", "partition")
_SHARE = ("group", "topic", "partition")

# fmt: off
# -- traffic by topic; without the label: all topics, including removed ones
BYTES_IN = Metric("kafka_server_brokertopicmetrics_bytesin_total", "counter",
    "Bytes of record batches appended for producers and coordinators.", _TOPIC)
BYTES_OUT = Metric("kafka_server_brokertopicmetrics_bytesout_total", "counter",
    "Bytes of records sent to consumers.", _TOPIC)
MESSAGES_IN = Metric("kafka_server_brokertopicmetrics_messagesin_total", "counter",
    "Records appended for producers and coordinators.", _TOPIC)
PRODUCE_REQUESTS = Metric("kafka_server_brokertopicmetrics_totalproducerequests_total", "counter",
    "Batches in Produce requests, counted for each partition.", _TOPIC)
FAILED_PRODUCES = Metric("kafka_server_brokertopicmetrics_failedproducerequests_total", "counter",
    "Batches in Produce requests that were rejected.", _TOPIC)
FETCH_REQUESTS = Metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", "counter",
    "Partitions in Fetch responses.", _TOPIC)
FAILED_FETCHES = Metric("kafka_server_brokertopicmetrics_failedfetchrequests_total", "counter",
    "Partitions in Fetch responses with an error.", _TOPIC)
SHARE_FETCH_REQUESTS = Metric("kafka_server_brokertopicmetrics_totalsharefetchrequests_total", "counter",
    "ShareFetch requests, counted for each topic.", _TOPIC)
FAILED_SHARE_FETCHES = Metric("kafka_server_brokertopicmetrics_failedsharefetchrequests_total", "counter",
    "ShareFetch requests with an error of a partition, counted for each topic.", _TOPIC)
SHARE_ACKNOWLEDGE_REQUESTS = Metric(
    "kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total", "counter",
    "Requests that acknowledge records of share groups, counted for each topic.", _TOPIC)
FAILED_SHARE_ACKNOWLEDGES = Metric(
    "kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total", "counter",
    "Requests whose acknowledgement of records of share groups failed, counted for each topic.", _TOPIC)
REPLICATION_BYTES_IN = Metric("kafka_server_brokertopicmetrics_replicationbytesin_total", "counter",
    "Bytes fetched from leaders by this broker as a follower.", _TOPIC)
REPLICATION_BYTES_OUT = Metric("kafka_server_brokertopicmetrics_replicationbytesout_total", "counter",
    "Bytes sent to followers.", _TOPIC)

# -- requests
REQUESTS = Metric("kafka_network_requestmetrics_requests_total", "counter",
    "Requests that got a response.", ("request",))
REQUEST_ERRORS = Metric("kafka_network_requestmetrics_errors_total", "counter",
    "Error codes in responses, by Kafka's name; a response may carry several.", ("request", "error"))
REQUEST_TIME = Metric("kafka_network_requestmetrics_totaltimems", "histogram",
    "Milliseconds from the request to its response, including waits for replicas and data.", ("request",))
PENDING_REQUESTS = Metric("kafka_network_requestchannel_requestqueuesize", "gauge",
    "Requests without a response yet: they wait for replicas, data or a coordinator.")
CONNECTIONS = Metric("kafka_server_socket_server_metrics_connection_count", "gauge",
    "Open connections.", ("listener",))
SUCCESSFUL_AUTHENTICATIONS = Metric(
    "kafka_server_socket_server_metrics_successful_authentication_total", "counter",
    "Clients that authenticated, with SASL or by a TLS handshake; repeated authentications count.",
    ("listener",))
FAILED_AUTHENTICATIONS = Metric(
    "kafka_server_socket_server_metrics_failed_authentication_total", "counter",
    "Clients that failed to authenticate, with SASL or in the TLS handshake.", ("listener",))
IDLE_SHARE = Metric("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "gauge",
    "Share of the last minute in which the event loop was idle: 1 is idle, 0 is fully busy.")

# -- replicas on this broker
LEADERS = Metric("kafka_server_replicamanager_leadercount", "gauge", "Partitions that this broker leads.")
PARTITIONS = Metric("kafka_server_replicamanager_partitioncount", "gauge", "Replicas on this broker.")
UNDER_REPLICATED = Metric("kafka_server_replicamanager_underreplicatedpartitions", "gauge",
    "Partitions led by this broker with a replica that is not in sync.")
UNDER_MIN_ISR = Metric("kafka_server_replicamanager_underminisrpartitioncount", "gauge",
    "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas: acks=all fails.")
AT_MIN_ISR = Metric("kafka_server_replicamanager_atminisrpartitioncount", "gauge",
    "Partitions led by this broker with out-of-sync replicas and exactly min.insync.replicas in sync.")
OFFLINE_REPLICAS = Metric("kafka_server_replicamanager_offlinereplicacount", "gauge",
    "Replicas of this broker whose log directory has failed or whose data is lost.")
ISR_SHRINKS = Metric("kafka_server_replicamanager_isrshrinks_total", "counter",
    "ISR shrinks of partitions led by this broker.")
ISR_EXPANDS = Metric("kafka_server_replicamanager_isrexpands_total", "counter",
    "ISR expansions of partitions led by this broker.")
FAILED_ISR_UPDATES = Metric("kafka_server_replicamanager_failedisrupdates_total", "counter",
    "ISR changes that the controller rejected.")
MAX_REPLICA_LAG = Metric("kafka_server_replicafetchermanager_maxlag", "gauge",
    "Records that the slowest follower replica on this broker is behind its leader's high watermark.")
FOLLOWER_LAG = Metric("ruslo_follower_lag_records", "gauge",
    "Records that a follower is behind the log end of this leader, in its worst partition.", ("follower",))

# -- the cluster, on the active controller; 0 on other nodes
ACTIVE_CONTROLLER = Metric("kafka_controller_kafkacontroller_activecontrollercount", "gauge",
    "1 on the active controller, 0 on other nodes; the sum over the cluster must be 1.")
OFFLINE_PARTITIONS = Metric("kafka_controller_kafkacontroller_offlinepartitionscount", "gauge",
    "Partitions of the cluster without a leader.")
GLOBAL_TOPICS = Metric("kafka_controller_kafkacontroller_globaltopiccount", "gauge", "Topics of the cluster.")
GLOBAL_PARTITIONS = Metric("kafka_controller_kafkacontroller_globalpartitioncount", "gauge",
    "Partitions of the cluster.")
PREFERRED_IMBALANCE = Metric("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", "gauge",
    "Partitions of the cluster that their preferred replica does not lead.")
UNCLEAN_ELECTIONS = Metric("kafka_controller_controllerstats_uncleanleaderelections_total", "counter",
    "Unclean leader elections: the new leader may lack committed records.")
ACTIVE_BROKERS = Metric("kafka_controller_kafkacontroller_activebrokercount", "gauge",
    "Registered brokers that are not fenced.")
FENCED_BROKERS = Metric("kafka_controller_kafkacontroller_fencedbrokercount", "gauge",
    "Registered brokers that are fenced.")

# -- the metadata quorum
QUORUM_LEADER = Metric("kafka_server_raft_metrics_current_leader", "gauge",
    "Node id of the quorum leader; -1 if it is unknown.")
QUORUM_EPOCH = Metric("kafka_server_raft_metrics_current_epoch", "gauge", "Epoch of the metadata quorum.")
QUORUM_HIGH_WATERMARK = Metric("kafka_server_raft_metrics_high_watermark", "gauge",
    "High watermark of the metadata log; -1 if it is unknown.")
QUORUM_END = Metric("kafka_server_raft_metrics_log_end_offset", "gauge",
    "Log end offset of this node's metadata log.")

# -- logs
LOG_SIZE = Metric("kafka_log_log_size", "gauge", "Bytes of the segments of a replica.", _PARTITION)
LOG_START = Metric("kafka_log_log_logstartoffset", "gauge", "First offset of a replica.", _PARTITION)
LOG_END = Metric("kafka_log_log_logendoffset", "gauge", "Offset of the next record of a replica.", _PARTITION)
LOG_SEGMENTS = Metric("kafka_log_log_numlogsegments", "gauge", "Segments of a replica.", _PARTITION)
OFFLINE_DIRECTORIES = Metric("kafka_log_logmanager_offlinelogdirectorycount", "gauge",
    "Log directories that have failed.")
CORDONED_DIRECTORIES = Metric("kafka_log_logmanager_cordonedlogdirectorycount", "gauge",
    "Log directories that receive no new replicas (KIP-1066).")
LOGS_TO_RECOVER = Metric("kafka_log_logmanager_remaininglogstorecover", "gauge",
    "Logs to open after an unclean shutdown.", ("dir",))
SEGMENTS_TO_RECOVER = Metric("kafka_log_logmanager_remainingsegmentstorecover", "gauge",
    "Segments to recover after an unclean shutdown.", ("dir",))
LOST_DATA = Metric("ruslo_lost_data", "gauge",
    "Offset ranges in a log of this broker whose records are lost.", ("topic", "partition", "kind"))
DIRECTORY_FREE = Metric("ruslo_log_directory_free_bytes", "gauge",
    "Free bytes in the file system of a log directory.", ("dir",))
UNCLEANABLE = Metric("kafka_log_logcleanermanager_uncleanable_partitions_count", "gauge",
    "Logs that cannot be compacted until the broker restarts.")
COMPACTED_BYTES = Metric("ruslo_compaction_bytes_total", "counter",
    "Bytes of segments that compaction read.")
COMPACTION_KEPT_BYTES = Metric("ruslo_compaction_kept_bytes_total", "counter",
    "Bytes of segments that compaction wrote.")
COMPACTION_ROUNDS = Metric("ruslo_compaction_rounds_total", "counter", "Compaction runs over a log.")
SCRUBBED_BYTES = Metric("ruslo_scrub_bytes_total", "counter", "Bytes of segments that the scrubber read.")
SCRUB_BYTES_LEFT = Metric("ruslo_scrub_left_bytes", "gauge",
    "Bytes left for the scrubber to read in its current round.")
SCRUB_ROUNDS = Metric("ruslo_scrub_rounds_total", "counter", "Complete rounds of the scrubber over all logs.")
DAMAGED_RANGES = Metric("ruslo_log_damaged_ranges", "gauge",
    "Damaged offset ranges in the logs of this broker, which are not served.")
REBUILT_INDEXES = Metric("ruslo_scrub_rebuilt_indexes_total", "counter",
    "Segments whose damaged indexes the scrubber rebuilt.")
REPAIRED_SEGMENTS = Metric("ruslo_scrub_repaired_segments_total", "counter",
    "Damaged segments repaired from another replica.")

# -- groups that this broker coordinates
GROUP_OFFSET = Metric("kafka_consumergroup_current_offset", "gauge",
    "Committed offset of a group, on its coordinator.", _GROUP)
GROUP_LAG = Metric("kafka_consumergroup_lag", "gauge",
    "Records between a group's committed offset and the high watermark, on its coordinator.", _GROUP)
GROUP_MEMBERS = Metric("kafka_consumergroup_members", "gauge",
    "Members of a group, on its coordinator.", ("consumergroup",))
GROUPS_BY_STATE = Metric("kafka_coordinator_group_count", "gauge",
    "Groups that this broker coordinates.", ("protocol", "state"))

# -- share groups, at the leaders of their partitions
SHARE_SESSIONS = Metric("kafka_server_sharesessioncache_sharesessionscount", "gauge",
    "Share sessions of members on this broker.")
SHARE_SESSION_PARTITIONS = Metric("kafka_server_sharesessioncache_sharepartitionscount", "gauge",
    "Partitions in all share sessions.")
SHARE_SESSION_EVICTIONS = Metric("kafka_server_sharesessioncache_sharesessionevictions_total", "counter",
    "Share sessions that ended because their connection was lost.")
RECORD_ACKNOWLEDGEMENTS = Metric("kafka_server_sharegroupmetrics_recordacknowledgements_total", "counter",
    "Records that members acknowledged, by type: Accept, Release, Reject or Renew.", ("acktype",))
SHARE_PARTITION_LOAD_TIME = Metric("kafka_server_sharegroupmetrics_partitionloadtimems", "histogram",
    "Milliseconds to load the state of a share-partition.")
EXPIRED_SHARE_FETCHES = Metric("kafka_server_delayedsharefetchmetrics_expires_total", "counter",
    "ShareFetch requests that waited for records until their time was up.")
IN_FLIGHT_RECORDS = Metric("kafka_server_sharepartitionmetrics_inflightmessagecount", "gauge",
    "Records between the start offset and the end offset of a share-partition.", _SHARE)
IN_FLIGHT_BATCHES = Metric("kafka_server_sharepartitionmetrics_inflightbatchcount", "gauge",
    "Ranges of records in flight with equal state.", _SHARE)
LOCKED_RECORDS = Metric("ruslo_share_partition_locked_records", "gauge",
    "Records of a share-partition that consumers hold.", _SHARE)
OLDEST_LOCK = Metric("ruslo_share_partition_oldest_lock_seconds", "gauge",
    "Seconds since the oldest acquisition lock of a share-partition was acquired or renewed; 0 without one.",
    _SHARE)
DELIVERIES_MAX = Metric("ruslo_share_partition_delivery_count_max", "gauge",
    "Highest delivery count of a record in flight.", _SHARE)
DEAD_LETTERS = Metric("kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total", "counter",
    "Records copied to the dead-letter topic of a share group.", ("group",))
DEAD_LETTER_REQUESTS = Metric("kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total",
    "counter", "Batches sent to the dead-letter topic of a share group, with failed attempts.", ("group",))
OPEN_BREAKERS = Metric("ruslo_share_open_breakers", "gauge",
    "Share-partitions whose circuit breaker is open or half open, so records wait.")
LOST_DEAD_LETTERS = Metric("ruslo_share_dead_letters_lost_total", "counter",
    "Undeliverable records archived because the dead-letter topic could not take them.", ("group",))
LOCK_TIMEOUTS = Metric("kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total", "counter",
    "Records of a share-partition whose acquisition lock expired.", _SHARE)

# -- client telemetry; the metrics that clients push begin with kafka_client_
CLIENT_INSTANCES = Metric("kafka_server_client_metrics_instance_count", "gauge",
    "Client instances that request telemetry subscriptions from this broker.")
UNKNOWN_SUBSCRIPTIONS = Metric("kafka_server_client_metrics_unknown_subscription_request_total", "counter",
    "Pushes of clients whose subscriptions had changed.")
CLIENT_SERIES = Metric("ruslo_client_metrics_series", "gauge",
    "Series that clients pushed and this broker exports.")
DROPPED_CLIENT_SAMPLES = Metric("ruslo_client_metrics_dropped_total", "counter",
    "Data points of clients that are not exported, because of a limit or a conflict of kinds.")

# -- the process
STALLS = Metric("ruslo_event_loop_stall_seconds", "histogram",
    "Delay of a timer of the event loop: a request would have waited as long.")
LONGEST_STALL = Metric("ruslo_event_loop_stall_longest_seconds", "gauge",
    "The longest stall of the event loop in the last minute.")
LOOP_BUSY = Metric("ruslo_event_loop_busy_seconds_total", "counter",
    "CPU time of the event loop's thread.")
READY = Metric("ruslo_ready", "gauge", "1 if /health/ready reports ready, else 0.")
BUILD_INFO = Metric("ruslo_build_info", "gauge", "Always 1; the labels name the version and the node.",
    ("version", "python", "node_id", "cluster_id"))
PROCESS_CPU = Metric("process_cpu_seconds_total", "counter", "CPU time of the process.")
PROCESS_MEMORY = Metric("process_resident_memory_bytes", "gauge", "Resident memory of the process.")
PROCESS_VIRTUAL = Metric("process_virtual_memory_bytes", "gauge", "Virtual memory of the process.")
PROCESS_START = Metric("process_start_time_seconds", "gauge", "Start time of the process, in Unix time.")
OPEN_FILES = Metric("process_open_fds", "gauge", "Open file descriptors.")
MAX_OPEN_FILES = Metric("process_max_fds", "gauge", "Maximum number of open file descriptors.")
# fmt: on

CATALOG: tuple[Metric, ...] = tuple(each for each in list(vars().values()) if isinstance(each, Metric))
