"""Every metric of a node: the table that the sources, the documentation and the dashboard are held against.

Where Apache Kafka has the same figure, it has the name under which the usual configuration of the Prometheus
JMX exporter shows Kafka's, in lower case, so that dashboards and alerts keep working. What only Ruslo has
begins with ``ruslo_``; group lag has the names of the widespread kafka_exporter.
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

# fmt: off
# -- traffic by topic; without the label: all topics, also those that are gone
BYTES_IN = Metric("kafka_server_brokertopicmetrics_bytesin_total", "counter",
    "Bytes of record batches that were appended for producers and coordinators.", _TOPIC)
BYTES_OUT = Metric("kafka_server_brokertopicmetrics_bytesout_total", "counter",
    "Bytes of records sent to consumers.", _TOPIC)
MESSAGES_IN = Metric("kafka_server_brokertopicmetrics_messagesin_total", "counter",
    "Records that were appended for producers and coordinators.", _TOPIC)
PRODUCE_REQUESTS = Metric("kafka_server_brokertopicmetrics_totalproducerequests_total", "counter",
    "Batches that producers asked to append, counted for each partition.", _TOPIC)
FAILED_PRODUCES = Metric("kafka_server_brokertopicmetrics_failedproducerequests_total", "counter",
    "Batches of producers that were refused.", _TOPIC)
FETCH_REQUESTS = Metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", "counter",
    "Answers to fetches, counted for each partition in them.", _TOPIC)
FAILED_FETCHES = Metric("kafka_server_brokertopicmetrics_failedfetchrequests_total", "counter",
    "Partitions of fetches that were answered with an error.", _TOPIC)
REPLICATION_BYTES_IN = Metric("kafka_server_brokertopicmetrics_replicationbytesin_total", "counter",
    "Bytes fetched from leaders by this broker as a follower.", _TOPIC)
REPLICATION_BYTES_OUT = Metric("kafka_server_brokertopicmetrics_replicationbytesout_total", "counter",
    "Bytes sent to followers.", _TOPIC)

# -- requests
REQUESTS = Metric("kafka_network_requestmetrics_requests_total", "counter",
    "Requests that were answered.", ("request",))
REQUEST_ERRORS = Metric("kafka_network_requestmetrics_errors_total", "counter",
    "Error codes in answers, by Kafka's name; an answer may carry several.", ("request", "error"))
REQUEST_TIME = Metric("kafka_network_requestmetrics_totaltimems", "histogram",
    "Milliseconds from the whole request to its answer, waiting for replicas or data included.", ("request",))
PENDING_REQUESTS = Metric("kafka_network_requestchannel_requestqueuesize", "gauge",
    "Requests that wait for their answer: for replicas, for data, for a coordinator.")
CONNECTIONS = Metric("kafka_server_socket_server_metrics_connection_count", "gauge",
    "Open connections.", ("listener",))
IDLE_SHARE = Metric("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "gauge",
    "Share of the last minute in which the event loop had nothing to do: 1 is idle, 0 is full.")

# -- replicas on this broker
LEADERS = Metric("kafka_server_replicamanager_leadercount", "gauge", "Partitions that this broker leads.")
PARTITIONS = Metric("kafka_server_replicamanager_partitioncount", "gauge", "Replicas on this broker.")
UNDER_REPLICATED = Metric("kafka_server_replicamanager_underreplicatedpartitions", "gauge",
    "Partitions led here of which a replica is not in sync.")
UNDER_MIN_ISR = Metric("kafka_server_replicamanager_underminisrpartitioncount", "gauge",
    "Partitions led here with fewer in-sync replicas than min.insync.replicas: acks=all is refused.")
AT_MIN_ISR = Metric("kafka_server_replicamanager_atminisrpartitioncount", "gauge",
    "Partitions led here that have lost replicas and cannot lose one more.")
OFFLINE_REPLICAS = Metric("kafka_server_replicamanager_offlinereplicacount", "gauge",
    "Replicas of this broker whose log directory has failed or whose data is lost.")
ISR_SHRINKS = Metric("kafka_server_replicamanager_isrshrinks_total", "counter",
    "In-sync sets of partitions led here that became smaller, whoever wanted it.")
ISR_EXPANDS = Metric("kafka_server_replicamanager_isrexpands_total", "counter",
    "In-sync sets of partitions led here that became larger.")
FAILED_ISR_UPDATES = Metric("kafka_server_replicamanager_failedisrupdates_total", "counter",
    "Changes of an in-sync set that the controller did not accept.")
MAX_REPLICA_LAG = Metric("kafka_server_replicafetchermanager_maxlag", "gauge",
    "Records that the slowest replica here, as a follower, is behind its leader's high watermark.")
FOLLOWER_LAG = Metric("ruslo_follower_lag_records", "gauge",
    "Records that a follower is behind the end of the log led here, in its worst partition.", ("follower",))

# -- the cluster, as the active controller sees it; 0 elsewhere
ACTIVE_CONTROLLER = Metric("kafka_controller_kafkacontroller_activecontrollercount", "gauge",
    "1 on the active controller, 0 elsewhere; the sum over the cluster must be 1.")
OFFLINE_PARTITIONS = Metric("kafka_controller_kafkacontroller_offlinepartitionscount", "gauge",
    "Partitions of the cluster without leader.")
GLOBAL_TOPICS = Metric("kafka_controller_kafkacontroller_globaltopiccount", "gauge", "Topics of the cluster.")
GLOBAL_PARTITIONS = Metric("kafka_controller_kafkacontroller_globalpartitioncount", "gauge",
    "Partitions of the cluster.")
PREFERRED_IMBALANCE = Metric("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", "gauge",
    "Partitions of the cluster that their preferred replica does not lead.")
ACTIVE_BROKERS = Metric("kafka_controller_kafkacontroller_activebrokercount", "gauge",
    "Registered brokers that are not fenced.")
FENCED_BROKERS = Metric("kafka_controller_kafkacontroller_fencedbrokercount", "gauge",
    "Registered brokers that are fenced.")

# -- the metadata quorum
QUORUM_LEADER = Metric("kafka_server_raft_metrics_current_leader", "gauge",
    "Node id of the quorum's leader; -1 while none is known.")
QUORUM_EPOCH = Metric("kafka_server_raft_metrics_current_epoch", "gauge", "Epoch of the metadata quorum.")
QUORUM_HIGH_WATERMARK = Metric("kafka_server_raft_metrics_high_watermark", "gauge",
    "How far the metadata log is committed; -1 while not known.")
QUORUM_END = Metric("kafka_server_raft_metrics_log_end_offset", "gauge",
    "The end of this node's metadata log.")

# -- logs
LOG_SIZE = Metric("kafka_log_log_size", "gauge", "Bytes of the segments of a replica.", _PARTITION)
LOG_START = Metric("kafka_log_log_logstartoffset", "gauge", "First offset of a replica.", _PARTITION)
LOG_END = Metric("kafka_log_log_logendoffset", "gauge", "Offset of the next record of a replica.", _PARTITION)
LOG_SEGMENTS = Metric("kafka_log_log_numlogsegments", "gauge", "Segments of a replica.", _PARTITION)
OFFLINE_DIRECTORIES = Metric("kafka_log_logmanager_offlinelogdirectorycount", "gauge",
    "Log directories that have failed.")
LOGS_TO_RECOVER = Metric("kafka_log_logmanager_remaininglogstorecover", "gauge",
    "Logs that are still to be opened after an unclean stop.", ("dir",))
SEGMENTS_TO_RECOVER = Metric("kafka_log_logmanager_remainingsegmentstorecover", "gauge",
    "Segments that are still to be read after an unclean stop.", ("dir",))
LOST_DATA = Metric("ruslo_lost_data", "gauge",
    "Places in a log of this broker whose records are lost.", ("topic", "partition", "kind"))
DIRECTORY_FREE = Metric("ruslo_log_directory_free_bytes", "gauge",
    "Bytes that the file system of a log directory has left.", ("dir",))
UNCLEANABLE = Metric("kafka_log_logcleanermanager_uncleanable_partitions_count", "gauge",
    "Logs that cannot be compacted until the next start.")
COMPACTED_BYTES = Metric("ruslo_compaction_bytes_total", "counter",
    "Bytes of segments that compaction has read.")
COMPACTION_KEPT_BYTES = Metric("ruslo_compaction_kept_bytes_total", "counter",
    "Bytes of segments that compaction has written.")
COMPACTION_ROUNDS = Metric("ruslo_compaction_rounds_total", "counter", "Logs compacted, each time counted.")
SCRUBBED_BYTES = Metric("ruslo_scrub_bytes_total", "counter", "Bytes of segments that the scrubber has read.")
SCRUB_BYTES_LEFT = Metric("ruslo_scrub_left_bytes", "gauge",
    "Bytes that the scrubber has still to read in the round under way.")
SCRUB_ROUNDS = Metric("ruslo_scrub_rounds_total", "counter", "Rounds of the scrubber over all logs.")
DAMAGED_RANGES = Metric("ruslo_log_damaged_ranges", "gauge",
    "Ranges of offsets in the logs of this broker that are damaged and not served.")
REBUILT_INDEXES = Metric("ruslo_scrub_rebuilt_indexes_total", "counter",
    "Segments whose indexes the scrubber found damaged and rebuilt.")
REPAIRED_SEGMENTS = Metric("ruslo_scrub_repaired_segments_total", "counter",
    "Damaged segments that were repaired from another replica.")

# -- groups that this broker coordinates
GROUP_OFFSET = Metric("kafka_consumergroup_current_offset", "gauge",
    "Offset that a group has committed; on the group's coordinator.", _GROUP)
GROUP_LAG = Metric("kafka_consumergroup_lag", "gauge",
    "Records between a group's committed offset and the high watermark; on the group's coordinator.", _GROUP)
GROUP_MEMBERS = Metric("kafka_consumergroup_members", "gauge",
    "Members of a group; on the group's coordinator.", ("consumergroup",))

# -- the process
STALLS = Metric("ruslo_event_loop_stall_seconds", "histogram",
    "By how much a timer of the event loop came late: what a request would have waited.")
LONGEST_STALL = Metric("ruslo_event_loop_stall_longest_seconds", "gauge",
    "The longest stall of the event loop in the last minute.")
LOOP_BUSY = Metric("ruslo_event_loop_busy_seconds_total", "counter",
    "Processor time of the event loop's thread.")
READY = Metric("ruslo_ready", "gauge", "1 when /health/ready says so.")
BUILD_INFO = Metric("ruslo_build_info", "gauge", "Always 1; the labels tell what runs.",
    ("version", "python", "node_id", "cluster_id"))
PROCESS_CPU = Metric("process_cpu_seconds_total", "counter", "Processor time of the process.")
PROCESS_MEMORY = Metric("process_resident_memory_bytes", "gauge", "Resident memory of the process.")
PROCESS_VIRTUAL = Metric("process_virtual_memory_bytes", "gauge", "Virtual memory of the process.")
PROCESS_START = Metric("process_start_time_seconds", "gauge", "When the process began, in Unix time.")
OPEN_FILES = Metric("process_open_fds", "gauge", "Open file descriptors.")
MOST_FILES = Metric("process_max_fds", "gauge", "Most file descriptors that the process may open.")
# fmt: on

CATALOG: tuple[Metric, ...] = tuple(each for each in list(vars().values()) if isinstance(each, Metric))
