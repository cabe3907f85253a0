package ruslo.conformance;

import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;

import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import org.mockito.stubbing.Answer;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Stands for a broker of Apache Kafka in tests that take one from their cluster. */
final class BrokerStandIn {
    private final RusloCluster cluster;
    private final RusloNode node;

    private BrokerStandIn(RusloCluster cluster, RusloNode node) {
        this.cluster = cluster;
        this.node = node;
    }

    static KafkaBroker of(RusloCluster cluster, RusloNode node) {
        return new BrokerStandIn(cluster, node).broker();
    }

    static Authorizer authorizer(RusloCluster cluster, RusloNode node) {
        return StandIn.of(Authorizer.class, Map.of("acls", call -> cluster.view().acls(node, call.getArgument(0))));
    }

    private KafkaBroker broker() {
        KafkaConfig config = StandIn.config(node);
        SocketServer sockets = StandIn.sockets(node);
        KRaftMetadataCache metadataCache = metadataCache();
        UnifiedLog log = StandIn.of(UnifiedLog.class, Map.of());
        LogManager logManager = logManager(log);
        ReplicaManager replicaManager = replicaManager(log);
        GroupCoordinator groupCoordinator = groupCoordinator(config);
        KafkaApis requestProcessor = StandIn.of(KafkaApis.class, Map.of(
            "brokerId", call -> node.id,
            "isConsumerGroupProtocolEnabled",
            call -> cluster.supportedGroupProtocols().contains(GroupProtocol.CONSUMER)));
        SharedServer sharedServer = StandIn.of(SharedServer.class, Map.of("loader", call -> null));
        Map<String, Answer<?>> calls = new HashMap<>();
        calls.put("config", call -> config);
        calls.put("clusterId", call -> cluster.clusterId());
        calls.put("isShutdown", call -> !node.isRunning());
        calls.put("brokerState", call -> node.isRunning() ? BrokerState.RUNNING : BrokerState.SHUTTING_DOWN);
        calls.put("startup", call -> {
            cluster.startBroker(node.id);
            return null;
        });
        calls.put("shutdown", call -> {
            cluster.shutdownBroker(node.id);
            return null;
        });
        calls.put("awaitShutdown", call -> null);
        calls.put("boundPort", call -> cluster.clientPort(node));
        calls.put("socketServer", call -> sockets);
        calls.put("metadataCache", call -> metadataCache);
        calls.put("authorizerPlugin", call -> Option.empty());
        calls.put("logManager", call -> logManager);
        calls.put("replicaManager", call -> replicaManager);
        calls.put("groupCoordinator", call -> groupCoordinator);
        calls.put("dataPlaneRequestProcessor", call -> requestProcessor);
        calls.put("sharedServer", call -> sharedServer);
        return StandIn.of(BrokerServer.class, calls);
    }

    private boolean hasReplica(TopicPartition tp) {
        return node.isRunning() && node.hasLogDirectory(tp);
    }

    private LogManager logManager(UnifiedLog log) {
        return StandIn.of(LogManager.class, Map.of(
            "getLog", call -> StandIn.option(hasReplica(call.getArgument(0)), log),
            "liveLogDirs", call -> CollectionConverters.asScala(node.logDirs().stream().map(File::new).toList()).toSeq()));
    }

    private ReplicaManager replicaManager(UnifiedLog log) {
        return StandIn.of(ReplicaManager.class, Map.of(
            "onlinePartition", call -> StandIn.option(hasReplica(call.getArgument(0)), partition(call.getArgument(0), log)),
            "localLog", call -> StandIn.option(hasReplica(call.getArgument(0)), replicatedLog(call.getArgument(0)))));
    }

    private Partition partition(TopicPartition tp, UnifiedLog log) {
        return StandIn.of(Partition.class, Map.of(
            "leaderLogIfLocal", call -> StandIn.option(leads(tp), log),
            "leaderIdIfLocal", call -> StandIn.option(leads(tp), (Object) node.id),
            "isLeader", call -> leads(tp)));
    }

    private boolean leads(TopicPartition tp) {
        return cluster.view().leader(node, tp) == node.id;
    }

    /** A follower responds to no request about its log, but the leader knows how far the in-sync replicas have fetched. */
    private UnifiedLog replicatedLog(TopicPartition tp) {
        return StandIn.of(UnifiedLog.class, Map.of("highWatermark", call -> cluster.view().endOffset(tp)));
    }

    private static GroupCoordinator groupCoordinator(KafkaConfig config) {
        Properties topicConfigs = new Properties();
        topicConfigs.put("cleanup.policy", "compact");
        topicConfigs.put("compression.type", "producer");
        topicConfigs.put("segment.bytes", Integer.toString(config.groupCoordinatorConfig().offsetsTopicSegmentBytes()));
        return StandIn.of(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", call -> topicConfigs));
    }

    private KRaftMetadataCache metadataCache() {
        Map<String, Answer<?>> calls = new HashMap<>();
        calls.put("numPartitions", call -> topic(call.getArgument(0)).map(found -> found.partitions().size()));
        calls.put("contains", call -> call.getArgument(0) instanceof TopicPartition tp
            ? cluster.view().partition(node, tp).isPresent() : topic(call.getArgument(0)).isPresent());
        calls.put("getTopicId", call -> topic(call.getArgument(0)).map(MetadataResponseTopic::topicId).orElse(Uuid.ZERO_UUID));
        calls.put("getLeaderAndIsr", call -> cluster.view().partition(node, tp(call.getArgument(0), call.getArgument(1)))
            .map(found -> new LeaderAndIsr(
                found.leaderId(), found.leaderEpoch(), found.isrNodes(), LeaderRecoveryState.RECOVERED, 0)));
        calls.put("getPartitionLeaderEndpoint", call -> {
            TopicPartition tp = tp(call.getArgument(0), call.getArgument(1));
            return cluster.view().partition(node, tp)
                .map(found -> aliveBroker(found.leaderId()).orElse(Node.noNode()));
        });
        calls.put("hasAliveBroker", call -> aliveBroker(call.getArgument(0)).isPresent());
        calls.put("getAliveBrokerNode", call -> aliveBroker(call.getArgument(0)));
        calls.put("getAliveBrokerNodes", call -> cluster.view().aliveBrokers(node));
        return StandIn.of(KRaftMetadataCache.class, calls);
    }

    private static TopicPartition tp(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    private Optional<MetadataResponseTopic> topic(String name) {
        return cluster.view().topic(node, name);
    }

    private Optional<Node> aliveBroker(int id) {
        return cluster.view().aliveBrokers(node).stream().filter(broker -> broker.id() == id).findFirst();
    }
}
