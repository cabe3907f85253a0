package ruslo.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.protocol.Errors;

/** What the nodes of a cluster report over the network: topics, live brokers, ACLs, the metadata log. */
final class ClusterView {
    private final RusloCluster cluster;
    private final NodeRequests requests;

    ClusterView(RusloCluster cluster, NodeRequests requests) {
        this.cluster = cluster;
        this.requests = requests;
    }

    /** A topic as the node knows it; empty if it does not. */
    Optional<MetadataResponseTopic> topic(RusloNode node, String name) {
        try {
            return requests.topic(cluster.clientPort(node), name).topics().stream()
                .filter(topic -> topic.errorCode() == Errors.NONE.code()).findFirst();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    Optional<MetadataResponsePartition> partition(RusloNode node, TopicPartition tp) {
        return topic(node, tp.topic()).flatMap(topic -> topic.partitions().stream()
            .filter(partition -> partition.partitionIndex() == tp.partition()).findFirst());
    }

    int leader(RusloNode node, TopicPartition tp) {
        return partition(node, tp).map(MetadataResponsePartition::leaderId).orElse(-1);
    }

    List<Node> aliveBrokers(RusloNode node) {
        try {
            return requests.brokers(cluster.clientPort(node)).brokers().stream()
                .map(broker -> new Node(broker.nodeId(), broker.host(), broker.port(), broker.rack())).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    List<AclBinding> acls(RusloNode node, AclBindingFilter filter) {
        try {
            return requests.acls(cluster.clientPort(node), filter);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    Map<String, Uuid> topicIds() {
        try {
            return requests.allTopics(cluster.clientPort(cluster.runningBrokers().get(0))).topics().stream()
                .collect(Collectors.toMap(MetadataResponseTopic::name, MetadataResponseTopic::topicId));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    long endOffset(TopicPartition tp) throws ExecutionException, InterruptedException {
        try (Admin admin = cluster.admin()) {
            return admin.listOffsets(Map.of(tp, OffsetSpec.latest())).partitionResult(tp).get().offset();
        }
    }

    /** Waits until the broker names all running brokers in Metadata responses. */
    void awaitServing(RusloNode node) {
        Wait.until("broker " + node.id + " serves clients", () ->
            node.isListening() && aliveBrokers(node).size() >= cluster.runningBrokers().size());
    }

    void awaitTopic(String topic, int partitions) {
        for (RusloNode node : cluster.runningBrokers()) {
            Wait.until("broker " + node.id + " has " + partitions + " partitions of " + topic, () ->
                topic(node, topic).filter(found -> found.partitions().size() == partitions).isPresent());
        }
    }

    void awaitNoTopic(String topic) {
        TopicPartition first = new TopicPartition(topic, 0);
        for (RusloNode node : cluster.runningBrokers()) {
            Wait.until("broker " + node.id + " has deleted " + topic, () -> topic(node, topic).isEmpty());
            Wait.until("broker " + node.id + " has deleted the log of " + first, () -> !node.hasLogDirectory(first));
        }
    }

    /** Waits until each running broker has fetched the metadata log up to its present end. */
    void awaitMetadata() {
        List<RusloNode> controllers = cluster.controllerNodes().filter(RusloNode::isRunning).toList();
        if (controllers.isEmpty()) {
            return;
        }
        long[] goal = {-1};
        Wait.until("all brokers have the metadata", () -> {
            DescribeQuorumResponseData.PartitionData quorum = null;
            for (RusloNode node : controllers) {
                DescribeQuorumResponseData.PartitionData response = requests.quorum(cluster.controllerPort(node));
                if (response.errorCode() == Errors.NONE.code()) {
                    quorum = response;
                }
            }
            if (quorum == null) {
                return false;
            }
            Map<Integer, Long> endOffsets = new HashMap<>();
            quorum.currentVoters().forEach(replica -> endOffsets.put(replica.replicaId(), replica.logEndOffset()));
            quorum.observers().forEach(replica -> endOffsets.put(replica.replicaId(), replica.logEndOffset()));
            if (goal[0] < 0) {
                goal[0] = endOffsets.get(quorum.leaderId());
            }
            return cluster.runningBrokers().stream()
                .allMatch(node -> endOffsets.getOrDefault(node.id, -1L) >= goal[0]);
        });
        // A broker reports what it has fetched, and applies it right after.
        Wait.pause();
    }
}
